"""The forecasts that anybody can make without a model: what a model must beat.

One series at a time, numpy only; NaN is unobserved. Axes: T time, H horizon, Q quantiles.
"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64

_ACF_LIMIT = 1.645  # two-sided 90 % of the normal distribution


def seasonal_naive(
    context: Float64[np.ndarray, " T"], season_length: int, horizon: int
) -> Float64[np.ndarray, " H"]:
    """Repeat the last season.

    Args:
        context: Past values; at least one must be observed.
        season_length: Steps of a season, m; 1 repeats the last value (the naive forecast).
        horizon: Steps ahead.

    Returns:
        Step h has the latest observed value of its phase, or the latest observed value of all where
        its phase was never observed.

    Raises:
        ValueError: Nothing is observed, or `season_length` is below 1.
    """
    _check(context, season_length)
    season = np.full(season_length, context[~np.isnan(context)][-1])
    # Filled up in front to whole seasons, so that a column is a phase and the last row the latest.
    whole = np.full(-(-context.size // season_length) * season_length, np.nan)
    whole[whole.size - context.size :] = context
    for past in whole.reshape(-1, season_length):
        season = np.where(np.isnan(past), season, past)
    return np.resize(season, horizon)


def seasonal_naive_quantiles(
    context: Float64[np.ndarray, " T"],
    season_length: int,
    horizon: int,
    levels: Sequence[float],
) -> Float64[np.ndarray, "H Q"]:
    """Normal quantiles around the seasonal naive forecast, as wide as its in-sample errors.

    The seasonal naive forecast is a random walk of seasons: in the k-th season ahead its variance
    is k times that of the seasonal differences, whose mean square (about zero, divided by their
    number less one) is the estimate. Without two such differences the width is 0.

    A stricter rival than the Seasonal Naive of the Chronos benchmark, whose published weighted
    quantile loss takes the point forecast at every level.

    Source: Hyndman and Athanasopoulos, "Forecasting: principles and practice", 3rd edition, section
    5.5.
    """
    point = seasonal_naive(context, season_length, horizon)
    error = context[season_length:] - context[:-season_length]
    error = error[~np.isnan(error)]
    sigma = np.sqrt((error**2).sum() / (error.size - 1)) if error.size > 1 else 0.0
    season_ahead = np.arange(horizon) // season_length + 1
    deviates = np.array([NormalDist().inv_cdf(level) for level in levels])
    quantiles: Float64[np.ndarray, "H Q"] = (
        point[:, None] + sigma * np.sqrt(season_ahead)[:, None] * deviates
    )
    return quantiles


def naive2(
    context: Float64[np.ndarray, " T"], season_length: int, horizon: int
) -> Float64[np.ndarray, " H"]:
    """Forecast the last seasonally adjusted value, times the season: the reference of M4.

    A series is adjusted when it passes a 90 % test of its autocorrelation at lag m; the seasonal
    indices are those of a classical multiplicative decomposition. Unobserved values are taken as
    the last observed one before them.

    Raises:
        ValueError: Nothing is observed, or `season_length` is below 1.

    Source: Makridakis, Spiliotis and Assimakopoulos 2020, "The M4 competition: 100,000 time series
    and 61 forecasting methods", appendix A; a series with a moving average of 0 is left unadjusted
    here.
    """
    _check(context, season_length)
    filled = _carry_forward(context)
    if not _is_seasonal(filled, season_length):
        return np.full(horizon, filled[-1])
    indices = _seasonal_indices(filled, season_length)
    if not np.all(np.isfinite(indices) & (indices != 0)):
        return np.full(horizon, filled[-1])
    adjusted_last = filled[-1] / indices[(filled.size - 1) % season_length]
    phases = (filled.size + np.arange(horizon)) % season_length
    forecast: Float64[np.ndarray, " H"] = adjusted_last * indices[phases]
    return forecast


def _check(context: Float64[np.ndarray, " T"], season_length: int) -> None:
    if season_length < 1:
        raise ValueError(f"season_length is {season_length}; it must be at least 1.")
    if np.isnan(context).all():
        raise ValueError("the context has no observed value; at least one is needed.")


def _carry_forward(context: Float64[np.ndarray, " T"]) -> Float64[np.ndarray, " T2"]:
    """Drop leading unobserved values, and repeat the value before every other one."""
    observed = ~np.isnan(context)
    source = np.maximum.accumulate(np.where(observed, np.arange(context.size), -1))
    return context[source[source >= 0]]


def _is_seasonal(values: Float64[np.ndarray, " T"], season_length: int) -> bool:
    if season_length == 1 or values.size < 3 * season_length:
        return False
    centred = values - values.mean()
    if not centred.any():
        return False
    lags = range(1, season_length + 1)
    acf = np.array([centred[lag:] @ centred[:-lag] for lag in lags]) / (centred @ centred)
    limit = _ACF_LIMIT * np.sqrt((1 + 2 * (acf[:-1] ** 2).sum()) / values.size)
    return bool(abs(acf[-1]) > limit)


def _seasonal_indices(
    values: Float64[np.ndarray, " T"], season_length: int
) -> Float64[np.ndarray, " m"]:
    """Mean ratio to the centred moving average by phase, scaled to a mean of 1."""
    weights = np.ones(season_length)
    if season_length % 2 == 0:
        weights = np.concatenate([[0.5], np.ones(season_length - 1), [0.5]])
    trend = np.convolve(values, weights / season_length, mode="valid")
    if not trend.all():
        return np.full(season_length, np.nan)
    start = weights.size // 2
    ratio = values[start : start + trend.size] / trend
    phase = (start + np.arange(trend.size)) % season_length
    indices = np.bincount(phase, ratio, minlength=season_length) / np.bincount(
        phase, minlength=season_length
    )
    scaled: Float64[np.ndarray, " m"] = indices / indices.mean()
    return scaled
