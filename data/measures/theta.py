"""The Theta method as the M4 competition ran it: a good rival without any learning.

Many series at once. Axes: N steps of all series together, n series, H horizon.
"""

import numpy as np
from jaxtyping import Float64, Int64

from foretell.data.measures.pasts import (
    NormalForecast,
    carry_forward,
    check_pasts,
    places_in_series,
    sums_of_series,
)
from foretell.data.measures.seasonality import find_seasons
from foretell.data.measures.smoothing import smooth

_FITTED = 3  # smoothing factor, level, slope


def theta(
    target: Float64[np.ndarray, " N"],
    indptr: Int64[np.ndarray, " n1"],
    season_length: int,
    horizon: int,
) -> NormalForecast:
    """Half the straight line through the past, half its deviations doubled and smoothed.

    A series with a season is adjusted as for Naive2. Of what is left, the theta line 0 is the
    regression on time, which goes on; the line 2 is 2 y less that, forecast by simple exponential
    smoothing. The forecast is the mean of both, times the season.

    Quantiles are normal. The method is smoothing with a drift, so its variance h steps ahead is
    that of the one-step errors in sample, times 1 + (h - 1) α².

    Unobserved values are taken as the last observed one before them.

    Raises:
        ValueError: A series has no observed value, or `season_length` is below 1.

    Source: Assimakopoulos and Nikolopoulos 2000, "The theta model"; the benchmark "Theta" of M4,
    differing where that sets negative forecasts to 0. Quantiles: Hyndman and Billah 2003,
    "Unmasking the theta method".
    """
    check_pasts(target, indptr, season_length)
    values, indptr = carry_forward(target, indptr)
    seasons = find_seasons(values, indptr, season_length)
    adjusted = seasons.adjust(values, indptr)
    lengths = np.diff(indptr)
    series, place = np.repeat(np.arange(lengths.size), lengths), places_in_series(indptr)
    middle, slope = _line(adjusted, indptr)
    line = middle[series] + slope[series] * (place - (lengths[series] - 1) / 2)
    smoothed = smooth(2 * adjusted - line, indptr)
    ahead = np.arange(1, horizon + 1)
    line_ahead = middle[:, None] + slope[:, None] * ((lengths[:, None] - 1) / 2 + ahead)
    # An error of the mean of both lines is half an error of the doubled one.
    one_step = np.sqrt(smoothed.squares / np.maximum(lengths - _FITTED, 1)) / 2
    growth = np.sqrt(1 + (ahead - 1) * smoothed.factor[:, None] ** 2)
    factor, shift = seasons.ahead(indptr, horizon)
    return NormalForecast(
        mean=(line_ahead + smoothed.level[:, None]) / 2 * factor + shift,
        deviation=one_step[:, None] * growth * factor,
    )


def _line(
    values: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"]
) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
    """Least squares on time: the value at the middle of each series, and the slope."""
    lengths = np.diff(indptr)
    time = places_in_series(indptr) - np.repeat((lengths - 1) / 2, lengths)
    middle = sums_of_series(values, indptr) / lengths
    moment = sums_of_series(time * (values - np.repeat(middle, lengths)), indptr)
    squares = sums_of_series(time**2, indptr)
    return middle, moment / np.where(squares == 0, 1.0, squares)
