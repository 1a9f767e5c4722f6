"""Autoregressive ridge regression: the straight lines that a network must beat.

Many series at once. Axes: N steps of all series together, n series, W windows, L lags, H horizon.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

_MOST_WINDOWS = 100_000
_MOST_NUMBERS = 1 << 21  # of windows that are laid at once, and of residuals that are kept
_FEWEST_LAGS, _MOST_LAGS = 8, 512
_HELD_OUT = 0.2  # of the windows
_FARTHEST = 5.0  # a few windows that hardly move would outweigh all others
# Against correlations of lags, up to 1; the strongest first, which wins where all are alike.
_PENALTIES = tuple(10.0**power for power in range(1, -7, -1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ridge:
    """What `fit_ridge` found.

    Attributes:
        weights: Of each lag, the oldest first, for each step ahead, on the window's own scale.
        spread: Quantiles of the held-out errors of each step ahead, on that scale.
        season_length: Steps of a season.
    """

    weights: Float64[np.ndarray, "L H"]
    spread: Float64[np.ndarray, "H Q"]
    season_length: int

    def forecast(
        self, values: Float64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"]
    ) -> Float64[np.ndarray, "n H Q"]:
        """Forecast quantiles of every series after its last value.

        Args:
            values: Past values without gaps; a series shorter than the lags is continued to the
                left by its first value.
            indptr: Start of each series in `values`, and the end.
        """
        num_lags, horizon = self.weights.shape
        places = indptr[1:, None] - num_lags + np.arange(num_lags)
        lags = values[np.maximum(places, indptr[:-1, None])]
        base, scale = _base_and_scale(lags, self.season_length, horizon)
        mean = base + _scaled_lags(lags, scale) @ self.weights * scale
        quantiles: Float64[np.ndarray, "n H Q"] = mean[:, :, None] + scale[:, :, None] * self.spread
        return quantiles


def fit_ridge(
    values: Float64[np.ndarray, " N"],
    starts: Int64[np.ndarray, " n"],
    ends: Int64[np.ndarray, " n"],
    season_length: int,
    horizon: int,
    levels: Sequence[float],
) -> Ridge:
    """Fit one straight line a step ahead, for all series, on what lies before `ends`.

    A window is L lags and the H steps after them. Its lags are taken less their mean and divided by
    their standard deviation; what is learned is the difference to the seasonal naive forecast on
    the same scale, at most 5, so a strong penalty gives that forecast. A step ahead has its own
    weights (direct, not recursive), and all series share them.

    L is four seasons or twice the horizon, whichever is more, at least 8, at most 512, and no more
    than leaves half of the series a window, but at least a season. At most 100,000 windows are
    taken, evenly from all series, the latest first. The last fifth of each series' windows is held
    out; of series of fewer windows than five, every fifth with all its windows. What is held out
    chooses the penalty, and the quantiles are those of the errors there, of all series together on
    the windows' scales; then all windows are fitted. Without any window the forecast is the
    seasonal naive one, of no width.

    Memory is bounded: windows are laid in pieces, and sums of products are kept of them.

    Args:
        values: Without gaps (`carry_forward`); other steps may stand between the series.
        starts: Where each series starts in `values`.
        ends: Where each series' past ends; nothing at or behind it is looked at.
        season_length: Steps of a season, m; a season of more than 512 steps is taken as 1.
        horizon: Steps ahead, H.
        levels: Levels of the quantiles, inside (0, 1).
    """
    num_lags = _num_lags(ends - starts, season_length, horizon)
    fit, held_out = _origins(starts, ends, num_lags, horizon)
    shape = (num_lags, season_length, horizon)
    fitted, checked = (_Sums.of(values, origins, *shape) for origins in (fit, held_out))
    errors = [checked.square_error(fitted.solve(penalty)) for penalty in _PENALTIES]
    penalty = _PENALTIES[int(np.argmin(errors))]
    return Ridge(
        weights=fitted.plus(checked).solve(penalty),
        spread=_spread(values, held_out, fitted.solve(penalty), season_length, levels),
        season_length=season_length,
    )


def _spread(
    values: Float64[np.ndarray, " N"],
    origins: Int64[np.ndarray, " W"],
    weights: Float64[np.ndarray, "L H"],
    season_length: int,
    levels: Sequence[float],
) -> Float64[np.ndarray, "H Q"]:
    """Quantiles of the errors of weights on windows that did not make them."""
    num_lags, horizon = weights.shape
    some = origins[:: max(-(-origins.size * horizon // _MOST_NUMBERS), 1)]
    errors = [y - x @ weights for x, y in _windows(values, some, num_lags, season_length, horizon)]
    if not sum(map(len, errors)):
        return np.zeros((horizon, len(levels)))
    quantiles: Float64[np.ndarray, "H Q"] = np.quantile(np.concatenate(errors), levels, axis=0).T
    return quantiles


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sums:
    """Sums over windows of the products of lags with lags, of lags with steps, and squares."""

    count: int
    lags: Float64[np.ndarray, "L L"]
    cross: Float64[np.ndarray, "L H"]
    squares: Float64[np.ndarray, " H"]

    @classmethod
    def of(
        cls,
        values: Float64[np.ndarray, " N"],
        origins: Int64[np.ndarray, " W"],
        num_lags: int,
        season_length: int,
        horizon: int,
    ) -> "_Sums":
        lags = np.zeros((num_lags, num_lags))
        cross = np.zeros((num_lags, horizon))
        squares = np.zeros(horizon)
        for x, whole in _windows(values, origins, num_lags, season_length, horizon):
            y = np.clip(whole, -_FARTHEST, _FARTHEST)
            lags += x.T @ x
            cross += x.T @ y
            squares += (y**2).sum(axis=0)
        return cls(count=origins.size, lags=lags, cross=cross, squares=squares)

    def plus(self, other: "_Sums") -> "_Sums":
        return _Sums(
            count=self.count + other.count,
            lags=self.lags + other.lags,
            cross=self.cross + other.cross,
            squares=self.squares + other.squares,
        )

    def solve(self, penalty: float) -> Float64[np.ndarray, "L H"]:
        """Minimise the mean square error plus `penalty` times the squared weights."""
        count = max(self.count, 1)
        penalised = self.lags / count + penalty * np.eye(len(self.lags))
        weights: Float64[np.ndarray, "L H"] = np.linalg.solve(penalised, self.cross / count)
        return weights

    def square_error(self, weights: Float64[np.ndarray, "L H"]) -> float:
        """Sum of the squared errors of weights on these windows."""
        explained = 2 * self.cross - self.lags @ weights
        return float(self.squares.sum() - (weights * explained).sum())


def _num_lags(lengths: Int64[np.ndarray, " n"], season_length: int, horizon: int) -> int:
    wanted = min(max(4 * season_length, 2 * horizon, _FEWEST_LAGS), _MOST_LAGS)
    return max(min(wanted, int(np.median(lengths)) - horizon), min(season_length, _MOST_LAGS))


def _origins(
    starts: Int64[np.ndarray, " n"], ends: Int64[np.ndarray, " n"], num_lags: int, horizon: int
) -> tuple[Int64[np.ndarray, " W1"], Int64[np.ndarray, " W2"]]:
    """First steps ahead of the windows to fit, and of those held out."""
    counts = np.maximum(ends - starts - num_lags - horizon + 1, 0)
    stride = max(-(-int(counts.sum()) // _MOST_WINDOWS), 1)
    counts = -(-counts // stride)
    behind = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    origins = np.repeat(ends - horizon, counts) - behind * stride
    is_short = (counts > 0) & (_HELD_OUT * counts < 1)
    is_chosen = is_short & (np.cumsum(is_short) % round(1 / _HELD_OUT) == 1)
    held_out = np.where(is_short, is_chosen * counts, np.ceil(_HELD_OUT * counts))
    is_held_out = behind < np.repeat(held_out, counts)
    return origins[~is_held_out], origins[is_held_out]


def _windows(
    values: Float64[np.ndarray, " N"],
    origins: Int64[np.ndarray, " W"],
    num_lags: int,
    season_length: int,
    horizon: int,
) -> Iterator[tuple[Float64[np.ndarray, "B L"], Float64[np.ndarray, "B H"]]]:
    """Scaled lags and differences to the seasonal naive forecast; windows of one value are left."""
    size = max(_MOST_NUMBERS // (num_lags + horizon), 1)
    for first in range(0, origins.size, size):
        own = origins[first : first + size, None]
        lags, steps = values[own + np.arange(-num_lags, 0)], values[own + np.arange(horizon)]
        base, scale = _base_and_scale(lags, season_length, horizon)
        moves = scale[:, 0] > 0
        lags, scale = lags[moves], scale[moves]
        yield _scaled_lags(lags, scale), (steps - base)[moves] / scale


def _scaled_lags(
    lags: Float64[np.ndarray, "B L"], scale: Float64[np.ndarray, "B 1"]
) -> Float64[np.ndarray, "B L"]:
    level = lags.mean(axis=1, keepdims=True)
    return np.where(scale == 0, 0.0, (lags - level) / np.where(scale == 0, 1.0, scale))


def _base_and_scale(
    lags: Float64[np.ndarray, "B L"], season_length: int, horizon: int
) -> tuple[Float64[np.ndarray, "B H"], Float64[np.ndarray, "B 1"]]:
    """Seasonal naive forecast, and standard deviation; 0 of lags that are all one."""
    num_lags = lags.shape[1]
    season = season_length if season_length <= num_lags else 1
    base = lags[:, num_lags - season + np.arange(horizon) % season]
    scale = lags.std(axis=1, keepdims=True)
    # Rounding gives a constant window a little more than 0.
    return base, np.where(scale > 1e-12 * np.abs(lags).max(axis=1, keepdims=True), scale, 0.0)
