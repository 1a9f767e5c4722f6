"""`foretell evaluate forecaster`: how good it is, beside what anybody can do without one."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretell.cli import parameters
from foretell.cli.messages import at_times, say, say_refused
from foretell.data.series.options import Columns, ForecastOptions
from foretell.jobs.amounts import counted

if TYPE_CHECKING:
    from foretell.jobs.evaluation.backtest import Evaluation

EXAMPLE = (
    "Example: foretell evaluate forecaster sales.csv --model models/demand --horizon 28 "
    "--windows 3 --report report.html"
)
_SOME_REFUSED = 3
_STDOUT = "-"


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
            metavar="STEPS", min=1, help="Season of MASE and of the baselines. [the model's]"
        ),
    ] = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Who stands beside it: SeasonalNaive, Naive2, Theta, Ridge; with the extra "
            "[baselines] AutoTheta, DynamicOptimizedTheta, AutoETS, AutoARIMA. [the first four]",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page to read in a browser: .html."),
    ] = None,
    as_json: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE", help="Write all numbers, or - for stdout, without the table."
        ),
    ] = None,
    overwrite: parameters.Overwrite = False,
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
) -> None:
    """Forecast the end of every series from what came before, and compare with what happened.

    MASE and sMAPE are means over series and windows, OWA is their mean relative to Naive2, WQL
    pools the levels 0.1 to 0.9; then come the shares of actual values inside the 50, 80 and 90 %
    intervals.
    """
    from foretell.data.tables.reading import read_table
    from foretell.jobs.evaluation.backtest import lay_backtest, measure
    from foretell.jobs.evaluation.result_file import evaluation_json, write_evaluation
    from foretell.jobs.evaluation.rivals import DEFAULT_BASELINES, check_baselines
    from foretell.jobs.output import check_outputs, check_stdout
    from foretell.jobs.report.page import check_report, write_report
    from foretell.jobs.tables.doors import with_covariates
    from foretell.runtime import load_forecaster

    check_stdout()
    options = ForecastOptions.from_call(
        parameters.horizon_steps(horizon), freq=freq, allow_other_frequency=allow_other_frequency
    )
    columns = Columns(unique_id=id_col, ds=time_col, y=target_col, time_zone=time_zone)
    csv = parameters.csv_format(separator, decimal, date_format)
    chosen = DEFAULT_BASELINES if baselines is None else parameters.names(baselines)
    check_baselines(chosen)
    numbers = None if as_json in (None, _STDOUT) else Path(str(as_json))
    if report is not None:
        check_report(report)
    targets = [target for target in (report, numbers) if target is not None]
    check_outputs(targets, overwrite=overwrite, inputs=[data])
    loaded = load_forecaster(model, device=device, threads=threads)
    if loaded.manifest.forecaster is not None:
        columns = with_covariates(columns, loaded.manifest.forecaster)
    backtest = lay_backtest(
        read_table(data, csv=csv, columns=columns),
        loaded,
        columns=columns,
        options=options,
        num_windows=windows,
        season_length=season_length,
    )
    found = measure(backtest, chosen, at_times(say, at_once=False))
    if numbers is not None:
        write_evaluation(found, numbers)
    if report is not None:
        write_report(backtest, found, report, data=data, model=model)
    typer.echo(evaluation_json(found) if as_json == _STDOUT else score_table(found))
    for target in targets:
        say(f"-> {target}")
    _warn(found, windows)
    if found.refusals:
        say_refused(found.refusals, found.num_total)
        raise typer.Exit(_SOME_REFUSED)


def _warn(found: "Evaluation", windows: int) -> None:
    """Tell what the numbers don't."""
    if found.num_windows < windows:
        say(
            f"--windows is {windows:,}, but no series is long enough for more than "
            f"{counted(found.num_windows, 'window')}."
        )
    for warning in found.warnings:
        say(f"warning: {warning}")


def score_table(found: "Evaluation") -> str:
    """Lay out the measures as people read them, under 80 columns."""
    from foretell.jobs.evaluation.tally import INTERVALS

    width = max(15, *(len(scores.name) for scores in found.scores)) + 1
    heads = ["MASE", "sMAPE", "OWA", "WQL", *(f"in {percent} %" for percent in INTERVALS)]
    lines = [
        f"{found.num_series:,} series, "
        f"{counted(found.num_windows, 'window')} of {counted(found.horizon, 'step')}, "
        f"season of {found.season_length}",
        " " * width + "".join(f"{head:>8}" for head in heads),
    ]
    for scores in found.scores:
        values = [
            (scores.mase, 4),
            (scores.smape, 3),
            (scores.owa, 3),
            (scores.wql, 4),
            *((share, 3) for share in scores.coverage.values()),
        ]
        cells = "".join(f"{_cell(value, decimals):>8}" for value, decimals in values)
        lines.append(f"{scores.name:<{width}}{cells}")
    return "\n".join(lines)


def _cell(value: float, decimals: int) -> str:
    if math.isnan(value):
        return "-"
    plain = f"{value:.{decimals}f}"
    return plain if len(plain) <= 7 else f"{value:.1e}"
