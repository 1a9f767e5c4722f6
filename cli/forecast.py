"""`foretell forecast`: a table in, forecasts out, computed here or by a server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretell.cli import parameters
from foretell.cli.messages import MOST_REASONS_SHOWN, say, say_refused
from foretell.data.options import Columns

if TYPE_CHECKING:
    from foretell.jobs.batch import ForecastJob, JobResult

EXAMPLE = (
    "Example: foretell forecast sales.csv --model models/demand --horizon 28 --output out.parquet"
)
_FAILED, _SOME_REFUSED = 1, 3


def forecast(
    data: parameters.Data,
    horizon: parameters.Horizon,
    model: parameters.Model = None,
    server: parameters.Server = None,
    quantiles: Annotated[
        str | None, typer.Option(metavar="Q,Q,...", help="Quantile levels. [0.1,0.5,0.9]")
    ] = None,
    level: Annotated[
        str | None, typer.Option(metavar="P,P,...", help="Central intervals in percent: 80,95.")
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="A file .csv, .csv.gz or .parquet, or - for CSV on stdout."
        ),
    ] = "-",
    freq: parameters.Freq = None,
    future: Annotated[
        str | None, typer.Option(metavar="FILE", help="Known-future covariates over the horizon.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw up to six series: .png, .svg or .pdf.")
    ] = None,
    id_col: parameters.IdCol = "unique_id",
    time_col: parameters.TimeCol = "ds",
    target_col: parameters.TargetCol = "y",
    time_zone: parameters.TimeZone = None,
    separator: parameters.Separator = None,
    decimal: parameters.Decimal = ".",
    date_format: parameters.DateFormat = None,
    allow_other_frequency: parameters.AllowOtherFrequency = False,
    device: parameters.Device = "auto",
    threads: parameters.Threads = None,
    overwrite: parameters.Overwrite = False,
) -> None:
    """Forecast every series of a table.

    Series that can't be forecast are named with their reasons on standard error and in
    OUTPUT.refused.csv; the others get their answers, and the exit code is 3.
    """
    from foretell.jobs.batch import ForecastJob, run_job

    job = ForecastJob(
        data=data,
        horizon=parameters.horizon_steps(horizon),
        columns=Columns(unique_id=id_col, ds=time_col, y=target_col, time_zone=time_zone),
        csv=parameters.csv_format(separator, decimal, date_format),
        future=future,
        quantiles=parameters.numbers(quantiles, "--quantiles", "0.1,0.5,0.9"),
        level=parameters.numbers(level, "--level", "80,95"),
        freq=freq,
        allow_other_frequency=allow_other_frequency,
        output=None if output == "-" else Path(output),
        plot=plot,
        overwrite=overwrite,
    )
    result = run_job(job, parameters.door(model, server, device, threads))
    _report(job, result)


def _report(job: "ForecastJob", result: "JobResult") -> None:
    """Tell what became of the job, and set the exit code."""
    written = [str(path) for path in (job.output, job.plot) if path is not None]
    if result.num_answered:
        where = f" -> {', '.join(written)}" if written else ""
        say(f"{result.num_answered:,} series forecast by {result.where}{where}")
    if not result.refusals:
        return
    say_refused(result.refusals, result.num_answered + len(result.refusals))
    if job.refused_file is not None:
        say(f"all reasons: {job.refused_file}")
    elif len(result.refusals) > MOST_REASONS_SHOWN:
        say("give --output FILE to have all reasons in a file.")
    raise typer.Exit(_SOME_REFUSED if result.num_answered else _FAILED)
