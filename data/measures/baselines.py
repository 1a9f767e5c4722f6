"""The naive forecasts that anybody can make without a model: what a model must beat.

Many series at once, numpy only. Axes: N steps of all series together, n series, H horizon, m steps
of a season. Series i has the steps `indptr[i]:indptr[i + 1]`; NaN is unobserved.
"""

import numpy as np
from jaxtyping import Float64, Int64

from foretell.data.measures.metrics import seasonal_differences
from foretell.data.measures.pasts import NormalForecast, carry_forward, check_pasts
from foretell.data.measures.seasonality import find_seasons


def seasonal_naive(
    target: Float64[np.ndarray, " N"],
    indptr: Int64[np.ndarray, " n1"],
    season_length: int,
    horizon: int,
) -> NormalForecast:
    """Repeat the last season; quantiles are as wide as that was wrong in sample.

    Step h has the latest observed value of its phase, or the latest observed value of all where its
    phase was never observed.

    The seasonal naive forecast is a random walk of seasons: in the k-th season ahead its variance
    is k times that of the seasonal differences, whose mean square (about zero, divided by their
    number less one) is the estimate. Without two such differences the width is 0. A stricter rival
    than the Seasonal Naive of the Chronos benchmark, whose published weighted quantile loss takes
    the point forecast at every level.

    Args:
        target: Past values, one series after another.
        indptr: Start of each series in `target`, and the end.
        season_length: Steps of a season, m; 1 repeats the last value (the naive forecast).
        horizon: Steps ahead.

    Raises:
        ValueError: A series has no observed value, or `season_length` is below 1.

    Source: Hyndman and Athanasopoulos, "Forecasting: principles and practice", 3rd edition, section
    5.5.
    """
    check_pasts(target, indptr, season_length)
    ahead = np.arange(horizon)
    season = _last_season(target, indptr, season_length)
    deviation = np.sqrt(_mean_square(target, indptr, season_length))
    growth = np.sqrt(ahead // season_length + 1)
    return NormalForecast(
        mean=season[:, ahead % season_length], deviation=deviation[:, None] * growth
    )


def naive2(
    target: Float64[np.ndarray, " N"],
    indptr: Int64[np.ndarray, " n1"],
    season_length: int,
    horizon: int,
) -> NormalForecast:
    """Forecast the last seasonally adjusted value, times the season: the reference of M4.

    Which series are adjusted, and by what, `find_seasons` tells. Unobserved values are taken as
    the last observed one before them. Quantiles are normal and those of a random walk of the
    adjusted values: h steps ahead h times the mean square of their one-step differences in sample.

    Raises:
        ValueError: A series has no observed value, or `season_length` is below 1.

    Source: Makridakis, Spiliotis and Assimakopoulos 2020, "The M4 competition: 100,000 time series
    and 61 forecasting methods", appendix A.
    """
    check_pasts(target, indptr, season_length)
    values, indptr = carry_forward(target, indptr)
    seasons = find_seasons(values, indptr, season_length)
    adjusted = seasons.adjust(values, indptr)
    factor, shift = seasons.ahead(indptr, horizon)
    deviation = np.sqrt(_mean_square(adjusted, indptr, 1))
    growth = np.sqrt(np.arange(1, horizon + 1))
    return NormalForecast(
        mean=adjusted[indptr[1:] - 1][:, None] * factor + shift,
        deviation=deviation[:, None] * growth * factor,
    )


def _last_season(
    target: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"], season_length: int
) -> Float64[np.ndarray, "n m"]:
    """Latest observed value of each phase; the last column is that of the series' last step."""
    starts, ends = indptr[:-1, None], indptr[1:, None]
    season = np.full((ends.size, season_length), np.nan)
    places = ends - season_length + np.arange(season_length)
    while (missing := np.isnan(season) & (places >= starts)).any():
        season[missing] = target[places[missing]]
        places = places - season_length
    filled, filled_indptr = carry_forward(target, indptr)
    return np.where(np.isnan(season), filled[filled_indptr[1:] - 1][:, None], season)


def _mean_square(
    values: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"], lag: int
) -> Float64[np.ndarray, " n"]:
    """Mean square of the differences at a lag, about zero; 0 without two of them."""
    error, series = seasonal_differences(values, indptr, lag)
    total = np.bincount(series, error**2, minlength=indptr.size - 1)
    pairs = np.bincount(series, minlength=indptr.size - 1)
    return np.where(pairs > 1, total / np.maximum(pairs - 1, 1), 0.0)
