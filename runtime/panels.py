"""A panel of series through the forecaster's graph.

Axes: N steps of all series together, n series, B batch, L context length, C columns, H horizon,
Q quantile levels.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

from foretell.data.bundle import ForecasterSpec
from foretell.data.panel import Panel
from foretell.runtime.batching import Batch, fill_rows, gather_context, plan_batches
from foretell.runtime.quantiles import at_levels
from foretell.runtime.session import CPU_PROVIDER, Session

# Tokens of a batch: on a CPU what its caches hold, on a GPU what fills it.
_MAX_TOKENS = 2_048
_MAX_TOKENS_GPU = 65_536


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
    count = len(panel.ids)
    quantiles = np.empty((count, horizon, len(levels)))
    seen = np.empty(count, dtype=bool)

    def answer(batch: Batch) -> None:
        inputs = _inputs(spec, panel, batch, horizon)
        # Quantiles rise by construction; a rounding in the last bit must not make them fall.
        trained = np.maximum.accumulate(session.run(inputs)["quantiles"], axis=-1)
        rows = slice(len(batch.series))
        quantiles[batch.series] = at_levels(trained[rows], spec.quantile_levels, levels)
        seen[batch.series] = ~np.isnan(inputs["context"][rows]).all(axis=1)

    batches = plan_batches(
        np.diff(panel.indptr),
        horizon,
        context_length=spec.context_length,
        patch_length=spec.patch_length,
        max_tokens=_MAX_TOKENS if session.provider == CPU_PROVIDER else _MAX_TOKENS_GPU,
        parts=session.threads,
    )
    session.for_each(answer, batches)
    return quantiles, seen


def _inputs(
    spec: ForecasterSpec, panel: Panel, batch: Batch, horizon: int
) -> dict[str, np.ndarray]:
    rows = fill_rows(batch.series, spec.patch_length)

    def past(columns: Float64[np.ndarray, "N C"]) -> Float64[np.ndarray, "B L C"]:
        return gather_context(columns, panel.indptr, rows, batch.context_length)

    inputs = {
        "context": past(panel.target[:, None])[..., 0],
        # Nothing is known of the horizon; its length travels as this input's shape.
        "horizon_placeholder": np.full((len(rows), horizon), np.nan),
        "context_covariates": past(panel.context_covariates),
        "horizon_covariates": panel.horizon_covariates[rows],
        "static": panel.static[rows],
    }
    return {name: inputs[name] for name in input_names(spec)}
