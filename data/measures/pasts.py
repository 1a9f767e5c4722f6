"""What a forecast without a model is made of and from: pasts without gaps, normal quantiles.

Many series at once, numpy only. Axes: N steps of all series together, n series, H horizon, Q
quantiles. Series i has the steps `indptr[i]:indptr[i + 1]`; NaN is unobserved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64, Int64


@dataclass(frozen=True, kw_only=True, slots=True)
class NormalForecast:
    """Forecasts whose quantiles are those of normal distributions.

    Attributes:
        mean: Point forecast, data units.
        deviation: Standard deviation, data units, at least 0; 0 puts all quantiles on the mean.
    """

    mean: Float64[np.ndarray, "n H"]
    deviation: Float64[np.ndarray, "n H"]

    def quantiles(self, levels: Sequence[float]) -> Float64[np.ndarray, "n H Q"]:
        """Quantiles at levels inside (0, 1), in the order given."""
        deviates = np.array([NormalDist().inv_cdf(level) for level in levels])
        quantiles: Float64[np.ndarray, "n H Q"] = (
            self.mean[:, :, None] + self.deviation[:, :, None] * deviates
        )
        return quantiles


def check_pasts(
    target: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"], season_length: int
) -> None:
    """Refuse what nothing can be forecast from.

    Raises:
        ValueError: A series has no observed value, or `season_length` is below 1.
    """
    if season_length < 1:
        raise ValueError(f"season_length is {season_length}; it must be at least 1.")
    before = np.concatenate([[0], np.cumsum(~np.isnan(target))])
    if (np.diff(before[indptr]) == 0).any():
        raise ValueError("a series has no observed value; at least one is needed.")


def carry_forward(
    target: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"]
) -> tuple[Float64[np.ndarray, " M"], Int64[np.ndarray, " n1"]]:
    """Drop each series' leading unobserved values, and repeat the value before every other one.

    Returns:
        The values and their `indptr`.
    """
    if not np.isnan(target).any():
        return target, indptr
    lengths = np.diff(indptr)
    source = np.maximum.accumulate(np.where(np.isnan(target), -1, np.arange(target.size)))
    kept = source >= np.repeat(indptr[:-1], lengths)
    before = np.concatenate([[0], np.cumsum(kept)])
    return target[source[kept]], before[indptr]


def places_in_series(indptr: Int64[np.ndarray, " n1"]) -> Int64[np.ndarray, " N"]:
    """Count the steps of each series from 0."""
    places: Int64[np.ndarray, " N"] = np.arange(indptr[-1]) - np.repeat(
        indptr[:-1], np.diff(indptr)
    )
    return places


def sums_of_series(
    values: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"]
) -> Float64[np.ndarray, " n"]:
    """Add up each series' values; every series has at least one."""
    sums: Float64[np.ndarray, " n"] = np.add.reduceat(values, indptr[:-1])
    return sums
