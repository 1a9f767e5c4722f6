"""How good a model is on a table: rolling windows, beside the seasonal naive forecast."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from foretell.data.baselines import seasonal_naive_quantiles
from foretell.data.bundle import ANY_FREQUENCY, ForecasterSpec, Manifest
from foretell.data.errors import OptionError, Refusal, TableError
from foretell.data.future import FUTURE_TABLE
from foretell.data.metrics import (
    coverage,
    mase,
    mean_over_series,
    seasonal_scale,
    smape,
    weighted_quantile_loss,
)
from foretell.data.options import Columns, ForecastOptions
from foretell.data.panel import Panel
from foretell.data.regular import regularise
from foretell.data.rows import read_rows
from foretell.data.zones import describe_stamp
from foretell.jobs.windows import Window, grid_stamps, rolling_windows
from foretell.runtime import Forecaster

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """The measures of one method, over all windows and series.

    Attributes:
        name: The method.
        mase: Mean absolute scaled error, mean over series.
        smape: Symmetric mean absolute percentage error, 0 to 200, mean over series.
        wql: Weighted quantile loss at the levels 0.1, 0.2, ... 0.9.
        coverage: Share of actual values between the quantiles 0.1 and 0.9; 0.8 is ideal.
    """

    name: str
    mase: float
    smape: float
    wql: float
    coverage: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        scores: Of the model, and of SeasonalNaive.
        num_series: Series that stood in at least one window.
        num_total: Series of the table.
        num_windows: Windows in which at least one series stood.
        horizon: Steps in a window.
        season_length: Steps of the season of SeasonalNaive and MASE.
        refusals: Series that could not be evaluated.
        warnings: Why the scores may flatter the model, a sentence each.
    """

    scores: tuple[Scores, Scores]
    num_series: int
    num_total: int
    num_windows: int
    horizon: int
    season_length: int
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...] = ()


def evaluate(
    table: pd.DataFrame,
    forecaster: Forecaster,
    *,
    columns: Columns,
    options: ForecastOptions,
    num_windows: int = 1,
    season_length: int | None = None,
) -> Evaluation:
    """Forecast the last windows of every series from what came before each, and measure.

    Args:
        table: Long table with the windows' actual values.
        forecaster: The model.
        columns: Names of the columns, the model's covariates included.
        options: Horizon and frequency; the quantile levels are always 0.1, 0.2, ... 0.9.
        num_windows: Windows, one horizon apart; the last ends where the series end.
        season_length: Steps of a season; None takes the model's, or the data's frequency's.

    Raises:
        TableError: No series is long enough for a window.
        OptionError: The season can't be told.
    """
    spec = forecaster.manifest.forecaster
    assert spec is not None  # a Forecaster refuses bundles that hold none
    rows = read_rows(table, columns)
    panel = regularise(
        rows, options=options, future=None, future_names=(), model_frequency=spec.frequency
    )
    season = season_length or _season_length(spec, panel)
    windows = rolling_windows(
        panel,
        grid_stamps(panel, rows),
        horizon=options.horizon,
        num_windows=num_windows,
        num_future=len(spec.future_covariates),
    )
    # A cut series may be too short to tell its frequency; the whole ones have told it.
    aliases = {frequency.alias for frequency in panel.frequencies}
    freq = aliases.pop() if len(aliases) == 1 else options.freq
    options = replace(options, quantile_levels=LEVELS, freq=freq)
    results, refusals = [], {refusal.unique_id: refusal for refusal in panel.refusals}
    for window in windows:
        result, refused = _measure(forecaster, window, options, season)
        results.append(result)
        refusals.update((refusal.unique_id, refusal) for refusal in refused)
    if not results:
        raise TableError(
            f"no series has an observed value more than {options.horizon} steps before its end; "
            "give longer series or a smaller --horizon."
        )
    return Evaluation(
        scores=_scores(results),
        num_series=len(set(np.concatenate([result.series for result in results]).tolist())),
        num_total=len(panel.ids) + len(panel.refusals),
        num_windows=len(results),
        horizon=options.horizon,
        season_length=season,
        refusals=tuple(refusals.values()),
        warnings=_seen_in_training(forecaster.manifest, panel, options.horizon * num_windows),
    )


def _seen_in_training(manifest: Manifest, panel: Panel, steps: int) -> tuple[str, ...]:
    """Warn where the model was trained on what it is measured on."""
    trained_to, holdout = manifest.training.get("last_stamp"), manifest.training.get("holdout")
    if not isinstance(trained_to, str) or not isinstance(holdout, int) or not len(panel.last):
        return ()
    latest = describe_stamp(int(panel.last.max()), panel.stamp_kind, panel.time_zone)
    # Stamps of one kind are written alike, so their order is that of their texts.
    if panel.stamp_kind == "integer" or len(latest) != len(trained_to) or latest > trained_to:
        return ()
    if latest == trained_to and holdout >= steps:
        return ()
    return (
        f"the model was trained on data up to {trained_to} with the last {holdout} steps held out, "
        f"so the last {steps} steps of this table, up to {latest}, are not all new to it; train "
        "with a holdout of as many steps as are evaluated.",
    )


@dataclass(frozen=True, slots=True)
class _Result:
    """One window: what happened, the unit of the MASE, and both methods' quantiles."""

    series: Int64[np.ndarray, " n"]
    actual: Float64[np.ndarray, "n H"]
    scale: Float64[np.ndarray, " n"]
    model: Float64[np.ndarray, "n H Q"]
    naive: Float64[np.ndarray, "n H Q"]


def _measure(
    forecaster: Forecaster, window: Window, options: ForecastOptions, season_length: int
) -> tuple[_Result, tuple[Refusal, ...]]:
    context = window.context
    answer = forecaster.forecast_rows(context, window.future, options)
    refused = [refusal.position for refusal in answer.refusals]
    kept = np.setdiff1d(np.arange(window.series.size), refused)
    naive = [
        seasonal_naive_quantiles(
            context.target[context.indptr[i] : context.indptr[i + 1]],
            season_length,
            options.horizon,
            LEVELS,
        )
        for i in kept
    ]
    shape = (kept.size, options.horizon, len(LEVELS))
    result = _Result(
        series=window.series[kept],
        actual=window.actual[kept],
        scale=seasonal_scale(context.target, context.indptr, season_length)[kept],
        model=answer.quantiles,
        naive=np.reshape(naive, shape),
    )
    return result, tuple(map(_of_this_table, answer.refusals))


def _of_this_table(refusal: Refusal) -> Refusal:
    """Say that the known future of a window is the table's own: nobody gave a future table."""
    where, _, what = refusal.reason.partition(FUTURE_TABLE)
    if where or not what:
        return refusal
    reason = f"in the evaluated steps of this table, {what} Its y may be blank."
    return replace(refusal, reason=reason)


def _scores(results: Sequence[_Result]) -> tuple[Scores, Scores]:
    actual = np.concatenate([result.actual for result in results])
    scale = np.concatenate([result.scale for result in results])

    def score(name: str, quantiles: Float64[np.ndarray, "n H Q"]) -> Scores:
        median = quantiles[:, :, LEVELS.index(0.5)]
        return Scores(
            name=name,
            mase=mean_over_series(mase(actual, median, scale)),
            smape=mean_over_series(smape(actual, median)),
            wql=weighted_quantile_loss(actual, quantiles, LEVELS),
            coverage=coverage(actual, quantiles[:, :, 0], quantiles[:, :, -1]),
        )

    return (
        score("model", np.concatenate([result.model for result in results])),
        score("SeasonalNaive", np.concatenate([result.naive for result in results])),
    )


def _season_length(spec: ForecasterSpec, panel: Panel) -> int:
    if spec.frequency != ANY_FREQUENCY:
        return spec.season_length
    seasons = sorted({frequency.season_length for frequency in panel.frequencies})
    if len(seasons) > 1:
        raise OptionError(
            f"the series have seasons of {seasons} steps; give --season-length, or one frequency."
        )
    return seasons[0] if seasons else 1
