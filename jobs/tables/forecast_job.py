"""What a job over a table is: its options, its checks, its plan of chunks, and what it goes by."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretell.data.calendars.zones import check_zone
from foretell.data.errors import ForetellError, OptionError
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.tables.kept_rows import MOST_BYTES
from foretell.data.tables.plan import TablePlan, plan_table
from foretell.data.tables.reading import CsvFormat
from foretell.jobs.journals.journal import FINGERPRINT, refused_file
from foretell.jobs.output import check_outputs, check_stdout, table_format
from foretell.jobs.pictures.plot import check_plot
from foretell.jobs.summary import JobProgress
from foretell.jobs.tables.doors import Door, with_covariates
from foretell.jobs.tables.reading_meter import ReadingMeter
from foretell.jobs.tables.work import most_series

# About what a request to a server holds, and enough for the cores of this machine: a job may be
# begun here and go on there.
CHUNK_ROWS = 1 << 18


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
        resume: Go on where this very job was ended; where its output is complete, leave it so.
        overwrite: Replace files that stand at the outputs.
        chunk_rows: Rows of history that are read and asked for together.
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
    resume: bool = False
    overwrite: bool = False
    chunk_rows: int = CHUNK_ROWS

    @property
    def refused_file(self) -> Path | None:
        """Where the refused series and their reasons go; None when the answer goes to stdout."""
        return None if self.output is None else refused_file(self.output)

    @property
    def options(self) -> ForecastOptions:
        """What to forecast, checked.

        Raises:
            OptionError: An option is out of its range.
        """
        return ForecastOptions.from_call(
            self.horizon,
            quantiles=self.quantiles,
            level=self.level,
            freq=self.freq,
            allow_other_frequency=self.allow_other_frequency,
        )


def check_job(job: ForecastJob) -> None:
    """Refuse what can't end well, before a model is loaded or a server asked.

    Raises:
        ForetellError: An option, or an output, is at fault.
    """
    try:
        _ = job.options
        if job.columns.time_zone is not None:
            check_zone(job.columns.time_zone)
    except ForetellError as error:  # here it is the command that is wrong, not the table
        raise OptionError(error.problems) from error
    if job.data == job.future == "-":
        raise OptionError("the data and --future can't both be -; standard input is read once.")
    if job.output is None:
        check_stdout()
        if job.resume:
            raise OptionError("--resume needs an output file; standard output can't be resumed.")
    else:
        table_format(job.output)
    if job.plot is not None:
        check_plot(job.plot)
    targets = [path for path in (job.output, job.refused_file, job.plot) if path is not None]
    inputs = [path for path in (job.data, job.future) if path is not None and path != "-"]
    check_outputs(targets, overwrite=job.overwrite or job.resume, inputs=inputs)


def plan_job(
    job: ForecastJob,
    door: Door,
    work: Path,
    tell: Callable[[str], None],
    progress: Callable[[JobProgress], None],
) -> TablePlan:
    """Go through the table once, and cut it into the chunks of a job.

    Args:
        job: The job.
        door: Who computes, and so says which covariates there are.
        work: Folder for what has to be put down.
        tell: Is told what takes long.
        progress: Is told how far the reading is, where that takes long.

    Raises:
        TableError: The table can't be read.
    """
    return plan_table(
        job.data,
        future=job.future,
        csv=job.csv,
        columns=with_covariates(job.columns, door.spec),
        work=work,
        most_rows=job.chunk_rows,
        most_series=most_series(job.options),
        most_kept_bytes=MOST_BYTES if door.pool is None else 0,
        tell=tell,
        read=ReadingMeter(progress).hear,
    )


def identity_of(job: ForecastJob, door: Door, plan: TablePlan) -> dict[str, Any]:
    """Gather all that decides the bytes of a job's output, and of its parts."""
    options = asdict(job.options)
    columns = {name: getattr(job.columns, name) for name in ("unique_id", "ds", "y", "time_zone")}
    return {
        "input": FINGERPRINT + plan.fingerprint,
        "model": door.fingerprint,
        **options,
        **columns,
        **asdict(job.csv),
        "chunk_rows": job.chunk_rows,
        "format": None if job.output is None else table_format(job.output),
    }
