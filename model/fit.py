"""From a long table to a trained forecaster in a run folder."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64

from foretell.data.bundles.manifest import ANY_FREQUENCY, ForecasterSpec
from foretell.data.calendars.calendar import Frequency
from foretell.data.errors import OptionError, Refusal
from foretell.data.series.options import Columns
from foretell.model.config import ForecasterConfig, TrainingConfig
from foretell.model.dataset import TrainingData, read_training_data
from foretell.model.forecaster import Forecaster, Standardise
from foretell.model.objective import ForecasterObjective
from foretell.model.run import ForecasterRun, prepare_run, write_run
from foretell.model.training import Progress, TrainingState, train
from foretell.model.windows import WindowSampler, validation_batches


@dataclass(frozen=True, kw_only=True, slots=True)
class FitSummary:
    """What a training came to.

    Attributes:
        run: The folder with everything; `foretell export` takes it.
        num_series: Series trained on.
        num_observed: Their observed steps, those held out not counted.
        num_parameters: Weights of the model.
        refusals: Series that were left out, with `skip_refused`.
        state: The last training state.
        seconds: Wall-clock time.
    """

    run: Path
    num_series: int
    num_observed: int
    num_parameters: int
    refusals: tuple[Refusal, ...]
    state: TrainingState
    seconds: float


def fit_forecaster(
    table: pd.DataFrame,
    *,
    columns: Columns,
    freq: str,
    horizon: int,
    model: ForecasterConfig,
    training: TrainingConfig,
    run: Path,
    holdout: int = 0,
    skip_refused: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> FitSummary:
    """Train a forecaster on every series of a table.

    Args:
        table: A row a step, in any order.
        columns: Names of the columns, covariates included; their numbers must be the model's.
        freq: Frequency of all series, or "any" to infer each and train over many.
        horizon: Steps ahead to train for; more can be forecast later.
        model: Shape of the model.
        training: How to train.
        run: Folder for checkpoint, log and the trained weights.
        holdout: Last steps of each series to leave out altogether, for an honest evaluation.
        skip_refused: Leave out series that can't be used instead of refusing all.
        resume: Go on where a killed run with the same data and options stopped.
        overwrite: Start anew where a run stands already.
        progress: Called after every step.

    Raises:
        TableError: The table can't be used, or some series can't and `skip_refused` is not set.
        OptionError: An option is out of range.
        ForetellError: The folder holds another run, or the training has diverged.
        TrainingStopped: SIGINT or SIGTERM came; resume goes on.
    """
    start = time.perf_counter()
    _check_options(model, columns, horizon, holdout)
    data = read_training_data(
        table,
        columns,
        freq=freq,
        horizon=horizon,
        holdout=holdout,
        validation=training.validation,
        skip_refused=skip_refused,
    )
    inputs: dict[str, Any] = {
        "fingerprint": data.fingerprint,
        "columns": [*columns.future_covariates, *columns.past_covariates, *columns.static],
        "frequency": freq if freq == ANY_FREQUENCY else Frequency.parse(freq).alias,
        "horizon": horizon,
        "holdout": holdout,
        "model": model.to_json(),
        "options": training.to_json(),
    }
    prepare_run(run, inputs, resume=resume, overwrite=overwrite)
    forecaster, state = _train(data, model, training, horizon, run, resume, progress)
    record: dict[str, Any] = {
        **inputs,
        "last_stamp": data.last_stamp,  # with the steps held out
        "num_series": len(data.series.lengths),
        "num_observed": data.num_observed,
        "steps": state.step,
        "loss": state.loss,
        "validation_loss": state.best_validation_loss,
        "seconds": round(time.perf_counter() - start, 1),
    }
    spec = _spec(model, columns, inputs["frequency"], horizon)
    write_run(
        ForecasterRun(path=run.absolute(), config=model, spec=spec, training=record), forecaster
    )
    return FitSummary(
        run=run,
        num_series=record["num_series"],
        num_observed=record["num_observed"],
        num_parameters=sum(p.numel() for p in forecaster.parameters()),
        refusals=data.refusals,
        state=state,
        seconds=record["seconds"],
    )


def _train(
    data: TrainingData,
    model: ForecasterConfig,
    training: TrainingConfig,
    horizon: int,
    run: Path,
    resume: bool,
    progress: Progress | None,
) -> tuple[Forecaster, TrainingState]:
    torch.manual_seed(training.seed)
    forecaster = Forecaster(model)
    _measure_inputs(forecaster, data)
    state = train(
        ForecasterObjective(forecaster),
        WindowSampler(data.series, data.limits, model, training, horizon),
        validation=validation_batches(
            data.series, data.limits, data.ends, model, horizon, training.batch_size
        ),
        config=training,
        run=run,
        resume=resume,
        progress=progress,
    )
    return forecaster, state


def _check_options(model: ForecasterConfig, columns: Columns, horizon: int, holdout: int) -> None:
    problems = []
    if horizon < 1:
        problems.append(f"horizon is {horizon}; it must be at least 1 step.")
    if holdout < 0:
        problems.append(f"holdout is {holdout}; it must be 0 steps or more.")
    problems += [
        f"{len(names)} {role} columns are named, but the model has num_{role} {number}."
        for role, names, number in (
            ("future_covariates", columns.future_covariates, model.num_future_covariates),
            ("past_covariates", columns.past_covariates, model.num_past_covariates),
            ("static", columns.static, model.num_static),
        )
        if len(names) != number
    ]
    if problems:
        raise OptionError(problems)


def _measure_inputs(forecaster: Forecaster, data: TrainingData) -> None:
    """Give the model the mean and standard deviation of the covariates that training may see."""
    series = data.series
    if forecaster.standardise is not None:
        _measure(forecaster.standardise, series.covariates[series.before(data.limits)])
    if forecaster.standardise_static is not None:
        _measure(forecaster.standardise_static, series.static)


def _measure(standardise: Standardise, values: Float64[np.ndarray, "N A"]) -> None:
    known = ~np.isnan(values)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0) / count
    spread = np.where(known, values - mean, 0.0)
    std = np.sqrt((spread * spread).sum(axis=0) / count)
    standardise.mean.copy_(torch.from_numpy(mean))
    standardise.std.copy_(torch.from_numpy(np.where(std > 0, std, 1.0)))


def _spec(
    model: ForecasterConfig, columns: Columns, frequency: str, horizon: int
) -> ForecasterSpec:
    season = 1 if frequency == ANY_FREQUENCY else Frequency.parse(frequency).season_length
    return ForecasterSpec(
        context_length=model.context_length,
        patch_length=model.patch_length,
        horizon=horizon,
        frequency=frequency,
        season_length=season,
        quantile_levels=model.quantile_levels,
        future_covariates=columns.future_covariates,
        past_covariates=columns.past_covariates,
        static=columns.static,
    )
