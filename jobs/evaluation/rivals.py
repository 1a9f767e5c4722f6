"""Who stands beside the model in an evaluation, by name: forecasts that need no training.

Axes: N steps of all series together, n series, H horizon, Q quantiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64, Int64

from foretell.data.errors import OptionError
from foretell.data.measures.baselines import naive2, seasonal_naive
from foretell.data.measures.pasts import NormalForecast, carry_forward
from foretell.data.measures.ridge import fit_ridge
from foretell.data.measures.theta import theta
from foretell.data.series.panel import Panel
from foretell.jobs.evaluation.statsforecast_rivals import (
    STATSFORECAST_MODELS,
    check_statsforecast,
    statsforecast_quantiles,
)
from foretell.jobs.evaluation.windows import Cut

SEASONAL_NAIVE, NAIVE2, RIDGE = "SeasonalNaive", "Naive2", "Ridge"
DEFAULT_BASELINES = (SEASONAL_NAIVE, NAIVE2, "Theta", RIDGE)
BASELINES = (*DEFAULT_BASELINES, *STATSFORECAST_MODELS)

_Series = Float64[np.ndarray, " N"]
_Ends = Int64[np.ndarray, " n1"]
_Quantiles = Float64[np.ndarray, "n H Q"]

# Quantiles after the last values of some series.
Answer = Callable[[_Series, _Ends], _Quantiles]

_NORMAL: dict[str, Callable[[_Series, _Ends, int, int], NormalForecast]] = {
    SEASONAL_NAIVE: seasonal_naive,
    NAIVE2: naive2,
    "Theta": theta,
}


def check_baselines(names: Sequence[str]) -> None:
    """Refuse baselines that there are not, before any work is done.

    Raises:
        OptionError: None is named, one is unknown, or one is named twice; all are told.
        ForetellError: One is statsforecast's, which is not installed.
    """
    problems = [] if names else ["no baseline is named."]
    problems += [
        f"there is no baseline {name!r}." for name in dict.fromkeys(names) if name not in BASELINES
    ]
    problems += [
        f"baseline {name} is named twice." for name in dict.fromkeys(names) if names.count(name) > 1
    ]
    if problems:
        raise OptionError([*problems, f"Choose among {', '.join(BASELINES)}."])
    if not set(STATSFORECAST_MODELS).isdisjoint(names):
        check_statsforecast()


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """All series of a panel without gaps, laid once for all windows."""

    values: Float64[np.ndarray, " M"]
    indptr: Int64[np.ndarray, " n1"]
    panel: Panel

    @classmethod
    def of(cls, panel: Panel) -> "Filled":
        """Fill gaps by the value before each: nothing before a cut depends on what comes behind."""
        values, indptr = carry_forward(panel.target, panel.indptr)
        return cls(values=values, indptr=indptr, panel=panel)

    def before(self, cut: Cut) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
        """Where the pasts of a cut's series start and end in `values`."""
        series = cut.series
        behind = self.panel.indptr[series + 1] - cut.ends
        return self.indptr[series], self.indptr[series + 1] - behind


def prepare(
    name: str,
    filled: Filled,
    cut: Cut,
    *,
    season_length: int,
    horizon: int,
    levels: Sequence[float],
) -> Answer:
    """Make a baseline ready for one window; what it learns, it learns from before the cut.

    Args:
        name: One of `BASELINES`.
        filled: All series.
        cut: The window.
        season_length: Steps of a season.
        horizon: Steps ahead.
        levels: Quantile levels.
    """
    if name == RIDGE:
        found = fit_ridge(filled.values, *filled.before(cut), season_length, horizon, levels)
        return lambda target, indptr: found.forecast(*carry_forward(target, indptr))
    if name in _NORMAL:
        return lambda target, indptr: _NORMAL[name](
            target, indptr, season_length, horizon
        ).quantiles(levels)
    return partial(
        statsforecast_quantiles, name, season_length=season_length, horizon=horizon, levels=levels
    )
