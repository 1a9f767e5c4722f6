"""How good a forecast was: the measures of the M4 competition and of quantile forecasting.

Axes: n series, H horizon, Q quantiles. Actual values may hold NaN (unobserved); such steps count
nowhere. A measure that has nothing to count is NaN, never a guess. A NaN in a forecast is an error:
skipping it would flatter whoever made it.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64


def seasonal_scale(
    target: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"], season_length: int
) -> Float64[np.ndarray, " n"]:
    """Mean absolute error of each series' in-sample seasonal naive forecast: the unit of the MASE.

    Args:
        target: The series' training values, one after another.
        indptr: Start of each series in `target`, and the end.
        season_length: Steps of a season, m; 1 compares each value with the one before.

    Returns:
        Mean |y[t] - y[t - m]| over the pairs that are both observed; NaN for a series without such
        a pair.

    Raises:
        ValueError: `season_length` is below 1.

    Source: Hyndman and Koehler 2006, "Another look at measures of forecast accuracy", eq. 2, with m
    for 1 as in M4.
    """
    error, series = seasonal_differences(target, indptr, season_length)
    total, pairs = (
        np.bincount(series, weights, minlength=indptr.size - 1).astype(np.float64)
        for weights in (np.abs(error), None)
    )
    return _ratio(total, pairs)


def seasonal_differences(
    target: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"], season_length: int
) -> tuple[Float64[np.ndarray, " P"], Int64[np.ndarray, " P"]]:
    """Differences y[t] - y[t - m] of all pairs that are both observed, and whose series each is.

    Raises:
        ValueError: `season_length` is below 1.
    """
    if season_length < 1:
        raise ValueError(f"season_length is {season_length}; it must be at least 1.")
    series = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    if series.size <= season_length:
        return np.empty(0), np.empty(0, dtype=np.int64)
    difference = target[season_length:] - target[:-season_length]
    of_series = series[season_length:]
    is_pair = (of_series == series[:-season_length]) & ~np.isnan(difference)
    return difference[is_pair], of_series[is_pair]


def mase(
    actual: Float64[np.ndarray, "n H"],
    forecast: Float64[np.ndarray, "n H"],
    scale: Float64[np.ndarray, " n"],
) -> Float64[np.ndarray, " n"]:
    """Mean absolute scaled error of each series: below 1 beats the in-sample seasonal naive.

    Args:
        actual: What happened, data units.
        forecast: Point forecast, data units.
        scale: `seasonal_scale` of the training values.

    Returns:
        One number a series; NaN where nothing was observed or the scale is 0 or NaN (a series that
        always repeated itself has no unit). The measure of a set is the mean over its series.
    """
    _refuse_nan(forecast, actual)
    return _ratio(_observed_mean(np.abs(actual - forecast)), scale)


def smape(
    actual: Float64[np.ndarray, "n H"], forecast: Float64[np.ndarray, "n H"]
) -> Float64[np.ndarray, " n"]:
    """Symmetric mean absolute percentage error of each series, 0 to 200, as in M4.

    mean 200 |y - f| / (|y| + |f|); a step where both are 0 is exact and counts 0.
    """
    _refuse_nan(forecast, actual)
    size = np.abs(actual) + np.abs(forecast)
    error = 200 * np.abs(actual - forecast) / np.where(size == 0, 1.0, size)
    return _observed_mean(error)


def owa(*, smape: float, mase: float, naive2_smape: float, naive2_mase: float) -> float:
    """Overall weighted average of M4: half the sum of the two measures' ratios to Naive2's.

    All four numbers are means over the set.
    """
    return (smape / naive2_smape + mase / naive2_mase) / 2


def weighted_quantile_loss(
    actual: Float64[np.ndarray, "n H"],
    quantiles: Float64[np.ndarray, "n H Q"],
    levels: Sequence[float],
) -> float:
    """Weighted quantile loss of a set: mean over levels of 2 · pinball loss, over the sum of |y|.

    It needs no unit; large series weigh more. At the single level 0.5 it is the sum of absolute
    errors over the sum of |y|. NaN when the observed values are all 0 or there are none.
    """
    _refuse_nan(quantiles, actual)
    level = np.asarray(levels, dtype=np.float64)
    error = actual[:, :, None] - quantiles
    pinball = np.maximum(level * error, (level - 1) * error)
    total = np.abs(actual)[~np.isnan(actual)].sum()
    if total == 0:
        return float("nan")
    return float(2 * np.nansum(pinball) / (level.size * total))


def coverage(
    actual: Float64[np.ndarray, "n H"],
    lower: Float64[np.ndarray, "n H"],
    upper: Float64[np.ndarray, "n H"],
) -> float:
    """Share of the observed values inside the interval, its ends included.

    0.8 is ideal for the interval from q0.1 to q0.9. NaN when nothing was observed.
    """
    _refuse_nan(lower, actual)
    _refuse_nan(upper, actual)
    observed = ~np.isnan(actual)
    if not observed.any():
        return float("nan")
    return float(((lower <= actual) & (actual <= upper))[observed].mean())


def mean_over_series(values: Float64[np.ndarray, " n"]) -> float:
    """Mean of a measure over the series that have one; NaN when none has."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def _refuse_nan(
    forecast: Float64[np.ndarray, "n H ..."], actual: Float64[np.ndarray, "n H"]
) -> None:
    if np.isnan(forecast[~np.isnan(actual)]).any():
        raise ValueError(
            "a forecast holds NaN for a step that was observed; nothing can be measured."
        )


def _observed_mean(error: Float64[np.ndarray, "n H"]) -> Float64[np.ndarray, " n"]:
    return _ratio(np.nansum(error, axis=1), (~np.isnan(error)).sum(axis=1).astype(np.float64))


def _ratio(
    numerator: Float64[np.ndarray, " n"], denominator: Float64[np.ndarray, " n"]
) -> Float64[np.ndarray, " n"]:
    """Divide, with NaN where the denominator is 0 or NaN."""
    ratio: Float64[np.ndarray, " n"] = numerator / np.where(denominator == 0, np.nan, denominator)
    return ratio
