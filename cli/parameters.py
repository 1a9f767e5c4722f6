"""Options that several commands share, and the reading of what stands behind them."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretell.cli.ray_options import RayChoice, check_address
from foretell.data.errors import OptionError
from foretell.data.series.options import MAX_HORIZON

if TYPE_CHECKING:
    from foretell.data.tables.reading import CsvFormat
    from foretell.jobs.lines.doors import OpenTranslatorDoor
    from foretell.jobs.tables.doors import OpenDoor

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="Table in long format: CSV, CSV.GZ, Parquet, or - for CSV on stdin."
    ),
]
Horizon = Annotated[str, typer.Option(metavar="STEPS", help=f"Steps ahead, 1 to {MAX_HORIZON:,}.")]
Freq = Annotated[
    str | None,
    typer.Option(
        metavar="FREQ",
        help="Frequency: a pandas alias (h, D, W, MS, ...) or an integer step. [inferred]",
    ),
]
IdCol = Annotated[str, typer.Option(metavar="NAME", help="Column of the series' id.")]
TimeCol = Annotated[str, typer.Option(metavar="NAME", help="Column of the time stamp.")]
TargetCol = Annotated[str, typer.Option(metavar="NAME", help="Column of the value to forecast.")]
TimeZone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", help="Zone in which days and months step, such as Europe/Berlin."),
]
Separator = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="CSV separator: , ; or tab. [found if unambiguous]"),
]
Decimal = Annotated[str, typer.Option(metavar="SIGN", help="Decimal sign of CSV numbers.")]
DateFormat = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="Format of CSV dates, such as %d/%m/%Y. [ISO, or found]"),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="PATH|NAME", help="Bundle or model folder; with --server a model's name."),
]
Server = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Let this server compute.")]
LengthPenalty = Annotated[
    float,
    typer.Option(metavar="A", help="The higher, the longer the translations; 0 doesn't normalise."),
]
LengthFormula = Annotated[
    str, typer.Option(metavar="power|gnmt", help="Divide log P by n^A, or by ((5 + n) / 6)^A.")
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Cut lines that are too long instead of refusing them.")
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Compute threads. [the cores this process may use]"),
]
AllowOtherFrequency = Annotated[
    bool, typer.Option("--allow-other-frequency", help="Take other data than the model's.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace outputs that exist.")]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on where this very job was ended, or begin; keep its end."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Tell what would be done; nothing is written.")
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS]",
        callback=check_address,
        help="Compute on Ray: HOST:PORT of a cluster, auto for this machine's, or alone.",
    ),
]
NumWorkers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Of --ray. [as many as the cluster has room for]"),
]
ChunkRows = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Rows of DATA that are read and computed together."),
]
InFlight = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Requests on their way to the server at a time. [4]"),
]


def horizon_steps(text: str) -> int:
    """Read `--horizon`.

    Raises:
        OptionError: It is no whole number in range; the message names the option and the range.
    """
    try:
        steps = int(text)
    except ValueError:
        steps = 0
    if not 1 <= steps <= MAX_HORIZON:
        raise OptionError(
            f"--horizon is {text!r}; it must be a whole number of steps, 1 to {MAX_HORIZON:,}."
        )
    return steps


def numbers(text: str | None, option: str, example: str) -> list[float] | None:
    """Read numbers separated by commas; None stays None.

    Raises:
        OptionError: One of them is no number.
    """
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(
            f"{option} is {text!r}; give numbers with decimal points, separated by commas, such "
            f"as {example}."
        ) from None


def names(text: str | None) -> tuple[str, ...]:
    """Read column names separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def csv_format(separator: str | None, decimal: str, date_format: str | None) -> "CsvFormat":
    """Gather how a CSV file is written; a tab, hard to type, may be given as the word."""
    from foretell.data.tables.reading import CsvFormat

    separator = "\t" if separator == "tab" else separator
    return CsvFormat(separator=separator, decimal=decimal, date_format=date_format)


def use_torch_threads(threads: int | None) -> None:
    """Keep torch to the cores this process may use; it would count the whole machine's.

    Processes of one training share the cores of their machine.
    """
    import torch

    from foretell.model.ranks import local_world_size
    from foretell.runtime.cpu import allowed_cores

    torch.set_num_threads(threads or max(1, allowed_cores() // local_world_size()))


def door(
    model: str | None,
    server: str | None,
    device: str,
    threads: int | None,
    in_flight: int | None = None,
    ray: RayChoice | None = None,
) -> "OpenDoor":
    """Choose who forecasts: a model in this process, or a server.

    Raises:
        OptionError: Neither is given, or options of the one together with the other.
    """
    from foretell.jobs.tables.doors import local_door

    _check_place(server, device, threads, in_flight, ray)
    if server is not None:
        from foretell.jobs.servers import IN_FLIGHT
        from foretell.jobs.tables.remote_door import remote_door

        return partial(remote_door, server, model=model, in_flight=in_flight or IN_FLIGHT)
    path = _local(model, "forecast")
    if ray is not None:
        from foretell.jobs.ray.doors import ray_door

        return partial(ray_door, path, ray.workers(device, threads))
    return partial(local_door, path, device=device, threads=threads)


def translator_door(
    model: str | None,
    server: str | None,
    device: str,
    threads: int | None,
    in_flight: int | None = None,
    ray: RayChoice | None = None,
) -> "OpenTranslatorDoor":
    """Choose who translates: a model in this process, or a server.

    Raises:
        OptionError: Neither is given, or options of the one together with the other.
    """
    from foretell.jobs.lines.doors import local_translator

    _check_place(server, device, threads, in_flight, ray)
    if server is not None:
        from foretell.jobs.lines.remote_door import remote_translator
        from foretell.jobs.servers import IN_FLIGHT

        return partial(remote_translator, server, model=model, in_flight=in_flight or IN_FLIGHT)
    path = _local(model, "translate")
    if ray is not None:
        from foretell.jobs.ray.doors import ray_translator

        return partial(ray_translator, path, ray.workers(device, threads))
    return partial(local_translator, path, device=device, threads=threads)


def _check_place(
    server: str | None,
    device: str,
    threads: int | None,
    in_flight: int | None,
    ray: RayChoice | None,
) -> None:
    """Refuse options of one place together with another."""
    if server is None:
        if in_flight is not None:
            raise OptionError("--in-flight counts requests to a server; give it with --server.")
        return
    if ray is not None:
        raise OptionError("--ray has its own workers; give it or --server.")
    if device != "auto" or threads is not None:
        raise OptionError("--device and --threads are the server's; give them to foretell serve.")


def _local(model: str | None, verb: str) -> Path:
    if model is None:
        raise OptionError(f"give --model PATH to {verb} here, or --server HOST:PORT to ask one.")
    return Path(model)
