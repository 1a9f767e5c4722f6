"""`foretell forecast`: a table in, forecasts out, computed here or by a server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretell.cli import parameters
from foretell.cli.job_progress import job_progress
from foretell.cli.messages import say, say_refused
from foretell.cli.ray_options import RayChoice, absolute
from foretell.data.series.options import Columns
from foretell.jobs.amounts import counted
from foretell.jobs.tables.refused_series import MOST_SHOWN

if TYPE_CHECKING:
    from foretell.jobs.tables.batch import JobPreview, JobResult
    from foretell.jobs.tables.forecast_job import ForecastJob

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
    chunk_rows: parameters.ChunkRows = 262_144,
    in_flight: parameters.InFlight = None,
    ray: parameters.Ray = None,
    num_workers: parameters.NumWorkers = None,
    resume: parameters.Resume = False,
    overwrite: parameters.Overwrite = False,
    dry_run: parameters.DryRun = False,
) -> None:
    """Forecast every series of a table, which may be larger than memory.

    Series that can't be forecast are named with their reasons on standard error and in
    OUTPUT.refused.csv; the others get their answers, and the exit code is 3. With --resume a job
    that was ended in any way goes on where it was, when the same command is given again. With --ray
    many processes share the work; input and model stand at the same path on every node.
    """
    from foretell.jobs.tables.batch import UNIT, JobResult, Listeners, preview_job, run_job
    from foretell.jobs.tables.forecast_job import ForecastJob

    on_ray = RayChoice.of(ray, num_workers, output=output, source=data)
    job = ForecastJob(
        data=absolute(data, on_ray),
        horizon=parameters.horizon_steps(horizon),
        columns=Columns(unique_id=id_col, ds=time_col, y=target_col, time_zone=time_zone),
        csv=parameters.csv_format(separator, decimal, date_format),
        future=future and absolute(future, on_ray),
        quantiles=parameters.numbers(quantiles, "--quantiles", "0.1,0.5,0.9"),
        level=parameters.numbers(level, "--level", "80,95"),
        freq=freq,
        allow_other_frequency=allow_other_frequency,
        output=None if output == "-" else Path(absolute(output, on_ray)),
        plot=plot,
        resume=resume,
        overwrite=overwrite,
        chunk_rows=chunk_rows,
    )
    door = parameters.door(model, server, device, threads, in_flight, on_ray)
    with job_progress(UNIT, on_stdout=job.output is None) as progress:
        listeners = Listeners(tell=say, progress=progress)
        done = (preview_job if dry_run else run_job)(job, door, listeners)
    if isinstance(done, JobResult):
        _report(job, done)
    else:
        _preview(job, done)


def _preview(job: "ForecastJob", preview: "JobPreview") -> None:
    """Tell what the job would do."""
    where = "standard output" if job.output is None else job.output
    if preview.is_complete:
        say(f"{where} is complete; nothing would be done.")
        return
    chunks = counted(preview.num_chunks, "chunk")
    say(
        f"would forecast {preview.num_series:,} series ({counted(preview.num_rows, 'row')}) in "
        f"{chunks} by {preview.where} -> {where}"
    )
    if preview.num_done:
        say(f"{preview.num_done:,} series are done already.")
    if preview.sorted_bytes is not None:
        say(
            "rows of one series stand apart; they would be sorted into files of "
            f"{preview.sorted_bytes / 1e6:,.1f} MB first. A table sorted by series needs none."
        )


def _report(job: "ForecastJob", result: "JobResult") -> None:
    """Tell what became of the job, and set the exit code."""
    written = [str(path) for path in (job.output, job.plot) if path is not None]
    if result.summary is None:
        told = f"{job.output} is complete already: {result.num_answered:,} series"
        if not result.num_answered:
            told = "an earlier run has refused every series"
        say(f"{told}; nothing was done.")
    elif result.num_answered:
        earlier = result.num_answered + result.refused.count - result.summary.num_items
        told = f"{result.num_answered:,} series forecast by {result.where}"
        told += f", {earlier:,} done in earlier runs" if earlier else ""
        say(told + (f" -> {', '.join(written)}" if written else ""))
    if result.summary is not None:
        say(result.summary.text("series"))
    refused = result.refused
    if not refused.count:
        return
    say_refused(refused, result.num_answered + refused.count)
    if job.refused_file is not None:
        say(f"all reasons: {job.refused_file}")
    elif refused.count > MOST_SHOWN:
        say("give --output FILE to have all reasons in a file.")
    raise typer.Exit(_SOME_REFUSED if result.num_answered else _FAILED)
