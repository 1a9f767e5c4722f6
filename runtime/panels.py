"""A panel of series through the forecaster's graph.

Axes: n series, B batch, H horizon, Q quantile levels.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

from foretell.data.bundle import ForecasterSpec
from foretell.data.panel import Panel
from foretell.runtime.batching import Batch, gather_context, plan_batches
from foretell.runtime.quantiles import at_levels
from foretell.runtime.session import Session


def input_names(spec: ForecasterSpec) -> list[str]:
    """Name the inputs of a forecaster's graph in their order; covariates only where it has them."""
    names = ["context", "horizon_placeholder"]
    if spec.future_covariates or spec.past_covariates:
        names.append("context_covariates")
    if spec.future_covariates:
        names.append("horizon_covariates")
    if spec.static:
        names.append("static")
    return names


def forecast_quantiles(
    session: Session, spec: ForecasterSpec, panel: Panel, horizon: int, levels: Sequence[float]
) -> tuple[Float64[np.ndarray, "n H Q"], Bool[np.ndarray, " n"]]:
    """Forecast every series of a panel, each as if it were alone.

    Args:
        session: The forecaster's graph.
        spec: What the forecaster was trained for.
        panel: The series.
        horizon: Steps ahead, H.
        levels: Quantile levels inside the trained range.

    Returns:
        The quantiles in data units, and whether the model saw any observed value of a series: it
        looks at the last `spec.context_length` steps only.
    """
    series = len(panel.ids)
    quantiles = np.empty((series, horizon, len(levels)))
    seen = np.empty(series, dtype=bool)
    for batch in plan_batches(
        np.diff(panel.indptr),
        horizon,
        context_length=spec.context_length,
        patch_length=spec.patch_length,
    ):
        inputs = _inputs(spec, panel, batch, horizon)
        trained = session.run(inputs)["quantiles"]
        # They rise by construction; a rounding in the last bit must not make them fall.
        trained = np.maximum.accumulate(trained, axis=-1)
        quantiles[batch.series] = at_levels(trained, spec.quantile_levels, levels)
        seen[batch.series] = ~np.isnan(inputs["context"]).all(axis=1)
    return quantiles, seen


def _inputs(
    spec: ForecasterSpec, panel: Panel, batch: Batch, horizon: int
) -> dict[str, np.ndarray]:
    inputs = {
        "context": gather_context(panel.target[:, None], panel.indptr, batch)[..., 0],
        # Nothing is known of the horizon; its length travels as this input's shape.
        "horizon_placeholder": np.full((len(batch.series), horizon), np.nan),
        "context_covariates": gather_context(panel.context_covariates, panel.indptr, batch),
        "horizon_covariates": panel.horizon_covariates[batch.series],
        "static": panel.static[batch.series],
    }
    return {name: inputs[name] for name in input_names(spec)}
