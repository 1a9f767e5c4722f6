"""Simple exponential smoothing, fitted by least squares to many series at once.

Axes: N steps of all series together, n series, A smoothing factors tried at once.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

_LEAST, _MOST = 1e-4, 1 - 1e-4
_FIRST_TRIED = np.concatenate([[_LEAST, 0.01, 0.03], np.linspace(0.07, 0.93, 12), [0.97, _MOST]])
_ZOOMS, _TRIED = 4, 9


@dataclass(frozen=True, kw_only=True, slots=True)
class Smoothed:
    """What smoothing found of each series.

    Attributes:
        factor: Smoothing factor α, 0.0001 to 0.9999.
        level: The last level: the forecast of every step ahead.
        squares: Sum of the squared one-step errors over the series.
    """

    factor: Float64[np.ndarray, " n"]
    level: Float64[np.ndarray, " n"]
    squares: Float64[np.ndarray, " n"]


def smooth(values: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"]) -> Smoothed:
    """Fit l[t] = α y[t] + (1 - α) l[t - 1], forecasting y[t + 1] by l[t].

    α and the first level minimise the sum of squared one-step errors. Errors are linear in the
    first level, so for each α the best one is known; α is searched on a grid that is made finer
    around the best, to 0.0003 and finer.

    Args:
        values: Without gaps.
        indptr: Start of each series in `values`, and the end; every series has at least one value.

    Source: Hyndman, Koehler, Ord and Snyder 2008, "Forecasting with exponential smoothing", ch. 2;
    the model (A, N, N) with its optimal first level.
    """
    # Longest first, so that the series that go on at a step are a slice.
    order = np.argsort(-np.diff(indptr), kind="stable")
    starts, lengths = indptr[:-1][order], np.diff(indptr)[order]
    factors = np.broadcast_to(_FIRST_TRIED, (order.size, _FIRST_TRIED.size))
    best = np.zeros((3, order.size))
    best[2] = np.inf
    for zoom in range(_ZOOMS + 1):
        level, squares = _run(values, starts, lengths, factors)
        chosen = squares.argmin(axis=1)[:, None]
        found = [np.take_along_axis(array, chosen, 1)[:, 0] for array in (factors, level, squares)]
        best = np.where(found[2] < best[2], found, best)
        if zoom < _ZOOMS:
            last = factors.shape[1] - 1
            low = np.take_along_axis(factors, np.maximum(chosen - 1, 0), 1)
            high = np.take_along_axis(factors, np.minimum(chosen + 1, last), 1)
            factors = low + (high - low) * np.linspace(0, 1, _TRIED)
    placed = np.empty_like(best)
    placed[:, order] = best
    return Smoothed(factor=placed[0], level=placed[1], squares=placed[2])


def _run(
    values: Float64[np.ndarray, " N"],
    starts: Int64[np.ndarray, " n"],
    lengths: Int64[np.ndarray, " n"],
    factors: Float64[np.ndarray, "n A"],
) -> tuple[Float64[np.ndarray, "n A"], Float64[np.ndarray, "n A"]]:
    """Smooth with each factor; return the last level and the sum of squares at its best start."""
    # With the first value as first level the errors are u; another one, off by d, makes them
    # u - w d with w = (1 - α)^t, so the best d is Σuw / Σw².
    level = np.repeat(values[starts][:, None], factors.shape[1], axis=1)
    keep = 1 - factors
    weight = np.ones_like(factors)
    uu, uw, ww = np.zeros((3, *factors.shape))
    going = np.searchsorted(-lengths, -np.arange(lengths.max(initial=0)), side="left")
    for step, k in enumerate(going.tolist()):
        error = values[starts[:k] + step][:, None] - level[:k]
        uu[:k] += error * error
        uw[:k] += error * weight[:k]
        ww[:k] += weight[:k] * weight[:k]
        level[:k] += factors[:k] * error
        weight[:k] *= keep[:k]
    first = uw / ww
    return level + weight * first, np.maximum(uu - uw * first, 0.0)
