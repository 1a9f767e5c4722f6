"""Models of statsforecast as baselines, where the extra [baselines] is installed.

Axes: N steps of all series together, n series, T time, H horizon, Q quantiles.
"""

import importlib
import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from foretell.data.errors import ForetellError
from foretell.data.measures.baselines import seasonal_naive
from foretell.data.measures.pasts import carry_forward

STATSFORECAST_MODELS = ("AutoTheta", "DynamicOptimizedTheta", "AutoETS", "AutoARIMA")


def check_statsforecast() -> None:
    """Refuse to begin without statsforecast.

    Raises:
        ForetellError: It is not installed.
    """
    if importlib.util.find_spec("statsforecast") is None:
        raise ForetellError(
            f"{', '.join(STATSFORECAST_MODELS)} are models of statsforecast, which is not "
            "installed; pip install 'foretell[baselines]', or choose other baselines."
        )


def statsforecast_quantiles(
    name: str,
    target: Float64[np.ndarray, " N"],
    indptr: Int64[np.ndarray, " n1"],
    *,
    season_length: int,
    horizon: int,
    levels: Sequence[float],
) -> Float64[np.ndarray, "n H Q"]:
    """Fit a model to each series, one after the other, and read quantiles from its intervals.

    Unobserved values are taken as the last observed one before them. The 0.5 quantile is the
    model's point forecast. A series to which the model can't be fitted (it is too short, it never
    moves) gets the seasonal naive forecast, as with statsforecast's own `fallback_model`.

    Args:
        name: One of `STATSFORECAST_MODELS`.
        target: Past values, one series after another.
        indptr: Start of each series in `target`, and the end.
        season_length: Steps of a season.
        horizon: Steps ahead.
        levels: Quantile levels whose central intervals are whole percents.
    """
    values, filled = carry_forward(target, indptr)
    model = getattr(importlib.import_module("statsforecast.models"), name)
    quantiles = seasonal_naive(target, indptr, season_length, horizon).quantiles(levels)
    for i in range(filled.size - 1):
        own = values[filled[i] : filled[i + 1]]
        if own.min() == own.max():
            continue
        found = _fit(model(season_length=season_length), own, horizon, levels)
        if found is not None and np.isfinite(found).all():
            quantiles[i] = found
    return quantiles


def _fit(
    model: Any, values: Float64[np.ndarray, " T"], horizon: int, levels: Sequence[float]
) -> Float64[np.ndarray, "H Q"] | None:
    """Forecast one series; None where the model can't be fitted to it."""
    percents = {level: round(100 * abs(1 - 2 * level)) for level in levels}
    asked = sorted({percent for percent in percents.values() if percent})
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of single fits, to which nobody could do anything
            found = model.forecast(y=values, h=horizon, level=asked)
    except Exception:  # what a fit raises is documented nowhere
        return None
    columns = [
        found["mean"]
        if not percents[level]
        else found[f"{'lo' if level < 0.5 else 'hi'}-{percents[level]}"]
        for level in levels
    ]
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
