"""Seasonal adjustment as the benchmarks of the M4 competition do it; many series at once.

Axes: N steps of all series together, n series, m steps of a season. No gaps: `carry_forward` fills
them.

Source: Makridakis, Spiliotis and Assimakopoulos 2020, "The M4 competition: 100,000 time series and
61 forecasting methods", appendix A, where all values are positive; a series that isn't is adjusted
by differences here, since ratios around 0 mean nothing.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from foretell.data.measures.pasts import places_in_series, sums_of_series

_ACF_LIMIT = 1.645  # two-sided 90 % of the normal distribution


@dataclass(frozen=True, kw_only=True, slots=True)
class Seasons:
    """The seasons of many series: y = adjusted × factor + shift, by phase.

    A phase is the place of a step, counted from its series' first, modulo m.

    Attributes:
        factor: Above 0; 1 for a series without a season, or whose season is added.
        shift: Data units; 0 for a series without a season, or whose season is multiplied.
    """

    factor: Float64[np.ndarray, "n m"]
    shift: Float64[np.ndarray, "n m"]

    def adjust(
        self, values: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"]
    ) -> Float64[np.ndarray, " N"]:
        """Take the season out of the series that it was found in."""
        series = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        phase = places_in_series(indptr) % self.factor.shape[1]
        adjusted: Float64[np.ndarray, " N"] = (values - self.shift[series, phase]) / self.factor[
            series, phase
        ]
        return adjusted

    def ahead(
        self, indptr: Int64[np.ndarray, " n1"], horizon: int
    ) -> tuple[Float64[np.ndarray, "n H"], Float64[np.ndarray, "n H"]]:
        """Factor and shift of the steps after each series' last."""
        phase = (np.diff(indptr)[:, None] + np.arange(horizon)) % self.factor.shape[1]
        factor, shift = (np.take_along_axis(of, phase, axis=1) for of in (self.factor, self.shift))
        return factor, shift


def find_seasons(
    values: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"], season_length: int
) -> Seasons:
    """Find the series that have a season, and what it is.

    A series has a season when it has at least three of them and passes a 90 % test of its
    autocorrelation at lag m. The index of a phase is its mean ratio to (or, where a value is not
    positive, its mean difference from) the centred moving average of a classical decomposition,
    scaled so that the season's mean is 1 (or 0).

    Args:
        values: Without gaps.
        indptr: Start of each series in `values`, and the end.
        season_length: Steps of a season, m.
    """
    num_series, lengths = indptr.size - 1, np.diff(indptr)
    factor, shift = np.ones((num_series, season_length)), np.zeros((num_series, season_length))
    long = lengths >= 3 * season_length
    if season_length > 1 and long.any():
        values = values[np.repeat(long, lengths)]
        indptr = np.concatenate([[0], np.cumsum(lengths[long])])
        passed = _passes_test(values, indptr, season_length)
        is_positive = np.minimum.reduceat(values, indptr[:-1]) > 0
        index = _mean_deviations(values, indptr, is_positive, season_length)
        own = np.flatnonzero(long)
        factor[own[passed & is_positive]] = index[passed & is_positive]
        shift[own[passed & ~is_positive]] = index[passed & ~is_positive]
    return Seasons(factor=factor, shift=shift)


def _passes_test(
    values: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"], season_length: int
) -> Bool[np.ndarray, " n"]:
    lengths = np.diff(indptr)
    centred = values - np.repeat(sums_of_series(values, indptr) / lengths, lengths)
    place = places_in_series(indptr)
    spread = sums_of_series(centred**2, indptr)
    squares = np.zeros(lengths.size)
    correlation = np.zeros(lengths.size)
    products = np.zeros(values.size)
    for lag in range(1, season_length + 1):
        squares += correlation**2  # of the lags before
        # A product with a step of the series before counts nothing.
        products[lag:] = np.where(place[lag:] >= lag, centred[lag:] * centred[:-lag], 0.0)
        products[:lag] = 0.0
        correlation = sums_of_series(products, indptr) / np.where(spread == 0, 1.0, spread)
    limit = _ACF_LIMIT * np.sqrt((1 + 2 * squares) / lengths)
    passes: Bool[np.ndarray, " n"] = (spread > 0) & (np.abs(correlation) > limit)
    return passes


def _mean_deviations(
    values: Float64[np.ndarray, " N"],
    indptr: Int64[np.ndarray, " n1"],
    is_ratio: Bool[np.ndarray, " n"],
    season_length: int,
) -> Float64[np.ndarray, "n m"]:
    """Mean ratio to, or difference from, the moving average by phase."""
    weights = np.ones(season_length)
    if season_length % 2 == 0:
        weights = np.concatenate([[0.5], np.ones(season_length - 1), [0.5]])
    lengths, half = np.diff(indptr), weights.size // 2
    # The average around step t stands at t - half; those that reach into another series are left.
    trend = np.convolve(values, weights / season_length, mode="valid")
    place = places_in_series(indptr)[: trend.size]
    series = np.repeat(np.arange(lengths.size), lengths)[: trend.size]
    is_own = place + weights.size <= lengths[series]
    trend, place, series = trend[is_own], place[is_own] + half, series[is_own]
    around = values[half : half + is_own.size][is_own]
    by_ratio = is_ratio[series]
    deviation = np.where(by_ratio, around / np.where(by_ratio, trend, 1.0), around - trend)
    cell, size = series * season_length + place % season_length, lengths.size * season_length
    mean = np.bincount(cell, deviation, minlength=size) / np.bincount(cell, minlength=size)
    mean = mean.reshape(lengths.size, season_length)
    centre = mean.mean(axis=1, keepdims=True)
    scaled: Float64[np.ndarray, "n m"] = np.where(
        is_ratio[:, None], mean / np.where(is_ratio[:, None], centre, 1.0), mean - centre
    )
    return scaled
