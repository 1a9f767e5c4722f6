"""`foretell train forecaster`: from a table of series to weights."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretell.cli import parameters
from foretell.cli.messages import say_refused
from foretell.data.series.options import Columns
from foretell.model.ranks import world_size

if TYPE_CHECKING:
    import pandas as pd

    from foretell.cli.training_runs import RunFolder
    from foretell.model.config import ForecasterConfig, TrainingConfig
    from foretell.model.fit import FitSummary

EXAMPLE = "Example: foretell train forecaster sales.csv --freq D --horizon 28 --output runs/demand"

_DEFAULT_CONTEXT = 512
_SOME_REFUSED = 3


def forecaster(
    data: parameters.Data,
    freq: Annotated[
        str,
        typer.Option(
            metavar="FREQ",
            help="Frequency: a pandas alias (h, D, W, MS, ...), an integer step, or any: each "
            "series its own.",
        ),
    ],
    horizon: parameters.Horizon,
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the run: weights, checkpoint, log.")
    ],
    future_covariates: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Columns known for the horizon too.")
    ] = None,
    past_covariates: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Columns known for the past only.")
    ] = None,
    static: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Columns of numbers, constant within a series."),
    ] = None,
    holdout: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Last steps of each series that are not trained on."),
    ] = 0,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Optimiser steps.")] = 2000,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Windows a step, of each process.")
    ] = 64,
    learning_rate: Annotated[float, typer.Option(metavar="X", help="Peak of the schedule.")] = 1e-3,
    patch: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Steps a patch. [fits the season]")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Past steps to look at. [the longest series, 512 at most]"
        ),
    ] = None,
    d_model: Annotated[int, typer.Option(metavar="N", min=2, help="Width of a token.")] = 128,
    layers: Annotated[int, typer.Option(metavar="N", min=1, help="Causal blocks.")] = 4,
    heads: Annotated[int, typer.Option(metavar="N", min=1, help="Attention heads.")] = 4,
    d_ff: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Width of feed-forward layers. [2 d-model]"),
    ] = None,
    norm: Annotated[str, typer.Option(metavar="layer|rms", help="Normalisation.")] = "layer",
    post_norm: Annotated[
        bool, typer.Option("--post-norm", help="Normalise after each sum, not before a layer.")
    ] = False,
    activation: Annotated[
        str, typer.Option(metavar="swiglu|relu", help="Of feed-forward layers.")
    ] = "swiglu",
    positions: Annotated[
        str, typer.Option(metavar="rotary|sinusoidal", help="Of tokens.")
    ] = "rotary",
    dropout: Annotated[
        float, typer.Option(metavar="X", help="Share dropped in training, [0, 1).")
    ] = 0.0,
    precision: Annotated[
        str, typer.Option(metavar="fp32|bf16", help="Of products in training.")
    ] = "fp32",
    patience: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Stop after so many validations without gain; 0 never."
        ),
    ] = 0,
    threads: parameters.Threads = None,
    no_validation: Annotated[
        bool, typer.Option("--no-validation", help="Train on all, choose no best weights.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Fixes weights and batches.")] = 0,
    skip_refused: Annotated[
        bool, typer.Option("--skip-refused", help="Leave out series that can't be used.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the run's checkpoint.")
    ] = False,
    id_col: parameters.IdCol = "unique_id",
    time_col: parameters.TimeCol = "ds",
    target_col: parameters.TargetCol = "y",
    time_zone: parameters.TimeZone = None,
    separator: parameters.Separator = None,
    decimal: parameters.Decimal = ".",
    date_format: parameters.DateFormat = None,
    overwrite: parameters.Overwrite = False,
) -> None:
    """Train a causal Transformer on all series of a table.

    Needs the extra [train]. A killed run goes on with --resume, and ends with the same weights as
    an unbroken one. torchrun starts it as several processes, one a GPU.
    """
    from foretell.cli.progress import training_progress
    from foretell.cli.training_runs import RunFolder
    from foretell.data.tables.reading import read_table
    from foretell.model.fit import fit_forecaster

    folder = RunFolder.look(output, resume=resume, overwrite=overwrite)
    parameters.use_torch_threads(threads)
    columns = replace(
        Columns(unique_id=id_col, ds=time_col, y=target_col, time_zone=time_zone),
        future_covariates=parameters.names(future_covariates),
        past_covariates=parameters.names(past_covariates),
        static=parameters.names(static),
    )
    csv = parameters.csv_format(separator, decimal, date_format)
    table = read_table(data, csv=csv, columns=columns)
    patch = patch or default_patch(freq)
    model = _model(
        columns,
        patch_length=patch,
        context_length=context or default_context(table, columns.unique_id, patch),
        d_model=d_model,
        num_layers=layers,
        num_heads=heads,
        d_ff=d_ff or 2 * d_model,
        norm=norm,
        norm_first=not post_norm,
        activation=activation,
        positions=positions,
        dropout=dropout,
    )
    training = _training(
        steps, batch_size, learning_rate, precision, patience, seed, validation=not no_validation
    )
    with training_progress() as progress:
        summary = fit_forecaster(
            table,
            columns=columns,
            freq=freq,
            horizon=parameters.horizon_steps(horizon),
            model=model,
            training=training,
            run=output,
            holdout=holdout,
            skip_refused=skip_refused,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
        )
    _report(summary, folder)


def _model(columns: Columns, **shape: Any) -> "ForecasterConfig":
    """Complete the shape of a model; the configuration refuses what it doesn't know."""
    from foretell.model.config import ForecasterConfig

    return ForecasterConfig(
        **shape,
        num_future_covariates=len(columns.future_covariates),
        num_past_covariates=len(columns.past_covariates),
        num_static=len(columns.static),
    )


def _training(
    steps: int,
    batch_size: int,
    learning_rate: float,
    precision: Any,
    patience: int,
    seed: int,
    *,
    validation: bool,
) -> "TrainingConfig":
    from foretell.model.config import TrainingConfig

    return TrainingConfig(
        steps=steps,
        batch_size=batch_size * world_size(),
        learning_rate=learning_rate,
        warmup_steps=min(100, steps // 10),
        precision=precision,
        patience=patience,
        seed=seed,
        validation=validation,
    )


def _report(summary: "FitSummary", folder: "RunFolder") -> None:
    folder.report(
        f"{summary.num_parameters:,} weights trained on {summary.num_series:,} series, "
        f"{summary.num_observed:,} observed steps, in {summary.seconds:,.0f} s -> {summary.run}"
    )
    if summary.refusals:
        say_refused(summary.refusals, summary.num_series + len(summary.refusals))
        raise typer.Exit(_SOME_REFUSED)


def default_context(table: "pd.DataFrame", id_col: str, patch: int) -> int:
    """Choose as many whole patches as the longest series fills, up to about 512 steps."""
    longest = table[id_col].value_counts().max() if id_col in table and len(table) else patch
    return min(_DEFAULT_CONTEXT // patch, -(-int(longest) // patch)) * patch


def default_patch(freq: str) -> int:
    """Choose the patch length nearest 12 steps that keeps the phase of the season.

    That is 12 for hours and months, 7 for days, 10 for business days, 13 for weeks.
    """
    from foretell.data.calendars.calendar import Frequency

    season = 1 if freq == "any" else Frequency.parse(freq).season_length
    lengths = [n for n in range(4, 33) if season % n == 0 or n % season == 0]
    return min(lengths or [12], key=lambda length: abs(length - 12))
