"""The measures of one method, added up piece by piece so that no forecast has to be kept.

Axes: n series, H horizon, Q quantile levels.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from foretell.data.measures.metrics import mase, smape

# Of the weighted quantile loss.
LOSS_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
INTERVALS = {50: (0.25, 0.75), 80: (0.1, 0.9), 90: (0.05, 0.95)}
LEVELS = tuple(sorted({*LOSS_LEVELS, *(level for pair in INTERVALS.values() for level in pair)}))

_SAME_LEVEL = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class StepScores:
    """Measures of each step of the horizon; NaN where one isn't defined.

    Attributes:
        mase: Mean absolute error in units of the in-sample seasonal naive one.
        smape: Symmetric mean absolute percentage error, 0 to 200.
        wql: Weighted quantile loss.
        coverage: By percent, share of actual values inside the interval.
    """

    mase: tuple[float, ...]
    smape: tuple[float, ...]
    wql: tuple[float, ...]
    coverage: dict[int, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """The measures of one method, over all windows and series; NaN where one isn't defined.

    Attributes:
        name: The method.
        mase: Mean absolute scaled error, mean over series and windows.
        smape: Symmetric mean absolute percentage error, 0 to 200, mean over series and windows.
        owa: Overall weighted average of M4: MASE and sMAPE relative to Naive2's.
        wql: Weighted quantile loss at the levels 0.1, 0.2, ... 0.9.
        coverage: By percent (50, 80, 90), share of actual values inside the central interval.
        by_step: The same for each step ahead.
        below: By quantile level, share of actual values at or below the quantile.
    """

    name: str
    mase: float
    smape: float
    owa: float
    wql: float
    coverage: dict[int, float]
    by_step: StepScores
    below: dict[float, float]


class Tally:
    """Adds up how good one method is.

    Attributes:
        name: The method.
        levels: Quantile levels that it is asked for, rising.
    """

    def __init__(
        self,
        name: str,
        levels: tuple[float, ...],
        *,
        num_series: int,
        horizon: int,
    ) -> None:
        """Start from nothing."""
        self.name, self.levels = name, levels
        self._mase, self._smape = _Means.none(num_series), _Means.none(num_series)
        self._scaled, self._num_scaled, self._percent = np.zeros((3, horizon))
        self._size, self._observed = np.zeros((2, horizon))
        self._loss = np.zeros(horizon)
        self._below = np.zeros(len(levels))
        self._inside = {
            percent: np.zeros(horizon)
            for percent, pair in INTERVALS.items()
            if all(level in levels for level in pair)
        }

    def add(
        self,
        series: Int64[np.ndarray, " n"],
        actual: Float64[np.ndarray, "n H"],
        quantiles: Float64[np.ndarray, "n H Q"],
        scale: Float64[np.ndarray, " n"],
    ) -> None:
        """Add forecasts of some series in one window.

        Args:
            series: Which series, each once.
            actual: What happened, NaN where unobserved.
            quantiles: At `levels`.
            scale: Unit of the MASE of each series.

        Raises:
            ValueError: A forecast of an observed step is NaN.
        """
        median = quantiles[:, :, self.levels.index(0.5)]
        self._mase.add(series, mase(actual, median, scale))
        self._smape.add(series, smape(actual, median))
        observed = ~np.isnan(actual)
        known = np.where(observed, actual, 0.0)
        error = np.where(observed, np.abs(known - median), 0.0)
        has_unit = (scale > 0)[:, None]
        self._scaled += (error / np.where(has_unit, scale[:, None], np.inf)).sum(axis=0)
        self._num_scaled += (observed & has_unit).sum(axis=0)
        self._percent += _percents(known, median, error).sum(axis=0)
        self._size += np.abs(known).sum(axis=0)
        self._observed += observed.sum(axis=0)
        for i, level in enumerate(self.levels):
            over = np.where(observed, known - quantiles[:, :, i], 0.0)
            self._below[i] += ((over <= 0) & observed).sum()
            if level in LOSS_LEVELS:
                self._loss += np.maximum(level * over, (level - 1) * over).sum(axis=0)
        for percent in self._inside:
            low, high = (quantiles[:, :, self.levels.index(of)] for of in INTERVALS[percent])
            self._inside[percent] += ((low <= known) & (known <= high) & observed).sum(axis=0)

    def scores(self, naive2: "Tally | None") -> Scores:
        """Divide; `naive2` is the tally of Naive2, for the OWA."""
        of_mase, of_smape = self._mase.of_all(), self._smape.of_all()
        owa = np.nan
        if naive2 is not None:
            base = [naive2._mase.of_all(), naive2._smape.of_all()]
            ratios = _over([of_mase, of_smape], base)
            owa = float(ratios.mean())
        loss = 2 * self._loss / len(LOSS_LEVELS)
        total = self._observed.sum()
        return Scores(
            name=self.name,
            mase=of_mase,
            smape=of_smape,
            owa=owa,
            wql=float(_over(loss.sum(), self._size.sum())),
            coverage={
                percent: float(_over(self._inside[percent].sum(), total))
                if percent in self._inside
                else np.nan
                for percent in INTERVALS
            },
            by_step=StepScores(
                mase=_listed(_over(self._scaled, self._num_scaled)),
                smape=_listed(_over(self._percent, self._observed)),
                wql=_listed(_over(loss, self._size)),
                coverage={
                    percent: _listed(_over(inside, self._observed))
                    for percent, inside in self._inside.items()
                },
            ),
            below=dict(zip(self.levels, _over(self._below, total).tolist(), strict=True)),
        )

    @property
    def num_windows(self) -> Int64[np.ndarray, " n"]:
        """Of each series, the windows in which something was observed."""
        return self._smape.counts

    @property
    def mase(self) -> Float64[np.ndarray, " n"]:
        """Of each series, mean over its windows; NaN where there is none."""
        return self._mase.of_each()

    @property
    def smape(self) -> Float64[np.ndarray, " n"]:
        """Of each series, mean over its windows; NaN where there is none."""
        return self._smape.of_each()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Means:
    """Means of a measure of each series, over the windows in which it is defined."""

    totals: Float64[np.ndarray, " n"]
    counts: Int64[np.ndarray, " n"]

    @classmethod
    def none(cls, num_series: int) -> "_Means":
        return cls(totals=np.zeros(num_series), counts=np.zeros(num_series, dtype=np.int64))

    def add(self, series: Int64[np.ndarray, " n"], values: Float64[np.ndarray, " n"]) -> None:
        defined = ~np.isnan(values)
        self.totals[series[defined]] += values[defined]
        self.counts[series[defined]] += 1

    def of_each(self) -> Float64[np.ndarray, " n"]:
        return _over(self.totals, self.counts)

    def of_all(self) -> float:
        """Over all series and windows."""
        return float(_over(self.totals.sum(), self.counts.sum()))


def levels_within(trained: tuple[float, ...]) -> tuple[float, ...]:
    """Choose the levels to measure: all of the loss, others only where the model has learned them.

    Args:
        trained: The model's own levels, rising.
    """
    low, high = trained[0] - _SAME_LEVEL, trained[-1] + _SAME_LEVEL
    return tuple(level for level in LEVELS if level in LOSS_LEVELS or low <= level <= high)


def _percents(
    actual: Float64[np.ndarray, "n H"],
    forecast: Float64[np.ndarray, "n H"],
    error: Float64[np.ndarray, "n H"],
) -> Float64[np.ndarray, "n H"]:
    size = np.abs(actual) + np.abs(forecast)
    percents: Float64[np.ndarray, "n H"] = 200 * error / np.where(size == 0, 1.0, size)
    return percents


def _over(numerator: object, denominator: object) -> Float64[np.ndarray, "..."]:
    """Divide, with NaN where the denominator is 0."""
    of = np.asarray(denominator, dtype=np.float64)
    ratio: Float64[np.ndarray, ...] = np.asarray(numerator, dtype=np.float64) / np.where(
        of == 0, np.nan, of
    )
    return ratio


def _listed(values: Float64[np.ndarray, " H"]) -> tuple[float, ...]:
    return tuple(values.tolist())
