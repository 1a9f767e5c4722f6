"""The batch job: a table file in, a table file of forecasts out, whoever computes them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pandas as pd

from foretell.data.errors import ForetellError, OptionError, Refusal, RefusedSeriesError
from foretell.data.options import Columns, ForecastOptions
from foretell.data.reading import CsvFormat, read_table
from foretell.data.zones import check_zone
from foretell.jobs.doors import Door, OpenDoor, with_covariates
from foretell.jobs.history import pictures
from foretell.jobs.output import check_outputs, check_stdout, table_format, write_table
from foretell.jobs.plot import check_plot, draw


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastJob:
    """What to forecast, and where the answer goes.

    Attributes:
        data: Path of the table; "-" is CSV on standard input.
        future: Path of the table of known-future covariates, if the model needs one.
        columns: Names of the columns; which covariates there are the model says.
        csv: How CSV files are written.
        horizon: Steps ahead.
        quantiles: Quantile levels; None for the usual three, or those of `level`.
        level: Central intervals in percent; None for `quantiles`.
        freq: Frequency; None infers each series' own.
        allow_other_frequency: Take data of another frequency than the model's.
        output: Path of the answer; None is CSV on standard output.
        plot: Path of a picture, if one is wanted.
        overwrite: Replace files that stand at the outputs.
    """

    data: str
    columns: Columns
    csv: CsvFormat
    horizon: int
    future: str | None = None
    quantiles: Sequence[float] | None = None
    level: Sequence[float] | None = None
    freq: str | None = None
    allow_other_frequency: bool = False
    output: Path | None = None
    plot: Path | None = None
    overwrite: bool = False

    @property
    def refused_file(self) -> Path | None:
        """Where the refused series and their reasons go; None when the answer goes to stdout."""
        return self.output and self.output.with_name(f"{self.output.name}.refused.csv")


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of a job.

    Attributes:
        num_answered: Series that got a forecast.
        refusals: Series that got none.
        where: What computed the forecasts, for people to read.
    """

    num_answered: int
    refusals: tuple[Refusal, ...]
    where: str


def run_job(job: ForecastJob, open_door: OpenDoor) -> JobResult:
    """Forecast a file; the outputs appear whole or not at all.

    Refused series are written, with their reasons, to `job.refused_file`; without any, no such file
    is left. When every series is refused nothing else is written.

    Raises:
        ForetellError: The table, the options, the outputs or the door are at fault; nothing is
            written.
    """
    _check(job)
    with open_door() as door:
        columns = with_covariates(job.columns, door.spec)
        table = read_table(job.data, csv=job.csv, columns=columns)
        future = None
        if job.future is not None:
            future = read_table(job.future, csv=job.csv, columns=columns)
        answer, refusals = _ask(job, door, table, future)
    num_answered = len(answer) // job.horizon
    if num_answered or not refusals:
        _write(answer, job.output)
        if job.plot is not None:
            draw(pictures(table, answer, columns=job.columns), job.plot)
    _write_refused(refusals, job.refused_file)
    return JobResult(num_answered, refusals, door.where)


def _check(job: ForecastJob) -> None:
    """Refuse what can't end well, before a model is loaded or a server asked."""
    try:
        ForecastOptions.from_call(
            job.horizon, quantiles=job.quantiles, level=job.level, freq=job.freq
        )
        if job.columns.time_zone is not None:
            check_zone(job.columns.time_zone)
    except ForetellError as error:  # here it is the command that is wrong, not the table
        raise OptionError(error.problems) from error
    if job.data == job.future == "-":
        raise OptionError("the data and --future can't both be -; standard input is read once.")
    if job.output is None:
        check_stdout()
    else:
        table_format(job.output)
    if job.plot is not None:
        check_plot(job.plot)
    targets = [path for path in (job.output, job.refused_file, job.plot) if path is not None]
    inputs = [path for path in (job.data, job.future) if path is not None and path != "-"]
    check_outputs(targets, overwrite=job.overwrite, inputs=inputs)


def _ask(
    job: ForecastJob, door: Door, table: pd.DataFrame, future: pd.DataFrame | None
) -> tuple[pd.DataFrame, tuple[Refusal, ...]]:
    try:
        answer = door.forecast(
            table,
            job.horizon,
            quantiles=job.quantiles,
            level=job.level,
            freq=job.freq,
            future=future,
            id_col=job.columns.unique_id,
            time_col=job.columns.ds,
            target_col=job.columns.y,
            time_zone=job.columns.time_zone,
            allow_other_frequency=job.allow_other_frequency,
        )
    except RefusedSeriesError as error:
        return cast("pd.DataFrame", error.forecast), error.refusals
    return answer, ()


def _write(answer: pd.DataFrame, output: Path | None) -> None:
    if output is None:
        answer.to_csv(sys.stdout, index=False, lineterminator="\n")
    else:
        write_table(answer, output)


def _write_refused(refusals: Sequence[Refusal], target: Path | None) -> None:
    if target is None:
        return
    if not refusals:
        target.unlink(missing_ok=True)
        return
    rows = [(refusal.position, str(refusal.unique_id), refusal.reason) for refusal in refusals]
    write_table(pd.DataFrame(rows, columns=["position", "unique_id", "reason"]), target)
