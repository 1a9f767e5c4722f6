"""`foretell evaluate forecaster`: how good it is, beside what anybody can do without one."""

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretell.cli import parameters
from foretell.cli.messages import say, say_refused
from foretell.data.options import Columns, ForecastOptions

if TYPE_CHECKING:
    from foretell.jobs.evaluation import Evaluation

EXAMPLE = (
    "Example: foretell evaluate forecaster sales.csv --model models/demand --horizon 28 --windows 3"
)
_SOME_REFUSED = 3


def forecaster(
    data: parameters.Data,
    horizon: parameters.Horizon,
    model: Annotated[
        Path, typer.Option(metavar="PATH", help="Bundle, or model folder (its newest version).")
    ],
    windows: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Windows, one horizon apart, the last at the end."),
    ] = 1,
    season_length: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS", min=1, help="Season of MASE and SeasonalNaive. [the model's]"
        ),
    ] = None,
    freq: parameters.Freq = None,
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Forecast the end of every series from what came before, and compare with what happened.

    MASE and sMAPE are means over series, WQL pools the levels 0.1 to 0.9, coverage is the share of
    actual values between q0.1 and q0.9 (ideal 0.8).
    """
    from foretell.data.reading import read_table
    from foretell.jobs.doors import with_covariates
    from foretell.jobs.evaluation import evaluate
    from foretell.jobs.output import check_stdout
    from foretell.runtime import load_forecaster

    check_stdout()
    options = ForecastOptions.from_call(
        parameters.horizon_steps(horizon), freq=freq, allow_other_frequency=allow_other_frequency
    )
    columns = Columns(unique_id=id_col, ds=time_col, y=target_col, time_zone=time_zone)
    csv = parameters.csv_format(separator, decimal, date_format)
    loaded = load_forecaster(model, device=device, threads=threads)
    if loaded.manifest.forecaster is not None:
        columns = with_covariates(columns, loaded.manifest.forecaster)
    found = evaluate(
        read_table(data, csv=csv, columns=columns),
        loaded,
        columns=columns,
        options=options,
        num_windows=windows,
        season_length=season_length,
    )
    typer.echo(json.dumps(_plain(found), indent=2) if as_json else score_table(found))
    for warning in found.warnings:
        say(f"warning: {warning}")
    if found.refusals:
        say_refused(found.refusals, found.num_total)
        raise typer.Exit(_SOME_REFUSED)


def score_table(found: "Evaluation") -> str:
    """Lay out the scores of the model and of SeasonalNaive for people."""
    lines = [
        f"{found.num_series:,} series, {found.num_windows} "
        f"window{'' if found.num_windows == 1 else 's'} of {found.horizon} steps, "
        f"season of {found.season_length}",
        f"{'':<16}{'MASE':>10}{'sMAPE':>10}{'WQL':>10}{'coverage':>10}",
    ]
    for scores in found.scores:
        values = (scores.mase, scores.smape, scores.wql, scores.coverage)
        decimals = (4, 3, 4, 3)
        cells = "".join(f"{v:>10.{d}f}" for v, d in zip(values, decimals, strict=True))
        lines.append(f"{scores.name:<16}{cells}")
    return "\n".join(lines)


def _plain(found: "Evaluation") -> dict[str, object]:
    """JSON values; JSON has no NaN, so a measure that isn't defined is null."""
    scores = [
        {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in dataclasses.asdict(scores).items()
        }
        for scores in found.scores
    ]
    refusals = [str(refusal) for refusal in found.refusals]
    return {**dataclasses.asdict(found), "scores": scores, "refusals": refusals}
