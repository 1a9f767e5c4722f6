"""Picks the series that a report shows: the best, those in the middle, the worst.

Axes: T time, H horizon, Q quantiles.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from foretell.data.measures.baselines import seasonal_naive
from foretell.jobs.evaluation.backtest import Backtest, Evaluation
from foretell.jobs.evaluation.windows import Cut
from foretell.jobs.pictures.history import clock_times

_HORIZONS_OF_HISTORY, _SEASONS_OF_HISTORY = 3, 2
_LEAST_HISTORY, _MOST_HISTORY = 16, 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One series in its last window. Times are datetime64 or whole numbers.

    Attributes:
        rank: "best", "median" or "worst".
        place: Its place among the series that have a MASE, from 1, the best first.
        num_places: How many they are.
        unique_id: The series.
        window: Which window is shown, from 1.
        mase: Of the model on this series, mean over its windows.
        past_times: Times of the last steps before the cut.
        past: Their values, NaN where unobserved.
        times: Times of the horizon.
        actual: What happened, NaN where unobserved.
        levels: Rising quantile levels.
        quantiles: Of the model, one column a level.
        naive: Seasonal naive forecast.
    """

    rank: str
    place: int
    num_places: int
    unique_id: object
    window: int
    mase: float
    past_times: Shaped[np.ndarray, " T"]
    past: Float64[np.ndarray, " T"]
    times: Shaped[np.ndarray, " H"]
    actual: Float64[np.ndarray, " H"]
    levels: tuple[float, ...]
    quantiles: Float64[np.ndarray, "H Q"]
    naive: Float64[np.ndarray, " H"]


def pick_examples(backtest: Backtest, found: Evaluation, *, each: int = 2) -> tuple[Example, ...]:
    """Forecast the best, median and worst series once more, each in the last window it stands in.

    Series are ranked by the model's MASE, those of one MASE by their order in the table; a series
    without a MASE is not ranked, and where none has one, nothing is shown.

    Args:
        backtest: What was evaluated.
        found: What was found.
        each: How many of the best, median and worst; fewer where there are few series.
    """
    mase = found.series.mase[0]
    ranked = np.argsort(mase, kind="stable")[: int((~np.isnan(mase)).sum())]
    size = ranked.size
    each = max(1, min(each, size // 3))
    middle = (size - each) // 2
    places = {
        "best": range(min(each, size)),
        "median": range(middle, middle + each) if size > 2 else range(0),
        "worst": range(max(size - each, 1), size),
    }
    return tuple(
        _example(backtest, found, rank, place, ranked)
        for rank, chosen in places.items()
        for place in chosen
    )


def _example(
    backtest: Backtest, found: Evaluation, rank: str, place: int, ranked: Int64[np.ndarray, " r"]
) -> Example:
    unique_id = found.series.ids[ranked[place]]
    number = int(np.flatnonzero(backtest.panel.ids == unique_id)[0])
    horizon, season = backtest.options.horizon, backtest.season_length
    for cut in reversed(list(backtest.cuts())):
        own = np.flatnonzero(cut.series == number)
        if not own.size:
            continue
        piece = Cut(number=cut.number, series=cut.series[own], ends=cut.ends[own])
        window, answer = backtest.ask(piece)
        if not answer.refusals and not np.isnan(window.actual).all():
            break
    context = window.context
    season_shown = min(_SEASONS_OF_HISTORY * season, 2 * _HORIZONS_OF_HISTORY * horizon)
    shown = max(_LEAST_HISTORY, _HORIZONS_OF_HISTORY * horizon, season_shown)
    shown = min(shown, _MOST_HISTORY)
    kind, zone = backtest.panel.stamp_kind, backtest.panel.time_zone
    naive = seasonal_naive(context.target, context.indptr, season, horizon).mean[0]
    return Example(
        rank=rank,
        place=place + 1,
        num_places=ranked.size,
        unique_id=unique_id,
        window=cut.number + 1,
        mase=float(found.series.mase[0, ranked[place]]),
        past_times=clock_times(context.stamps[-shown:], kind, zone),
        past=context.target[-shown:],
        times=clock_times(answer.stamps[0], kind, zone),
        actual=window.actual[0],
        levels=answer.quantile_levels,
        quantiles=answer.quantiles[0],
        naive=naive,
    )
