"""The forecaster's graph: its signature, and inputs of any size for export and parity.

Axes: B batch, T context steps, H horizon, A covariates, F known-future covariates, S static inputs.
"""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from foretell.data.bundles.manifest import GraphSpec
from foretell.export.onnx_graph import Signature, export_graph
from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster
from foretell.runtime.forecaster import GRAPH_FILE


def export_forecaster(model: Forecaster, folder: Path) -> GraphSpec:
    """Write `forecaster.onnx` into a folder."""
    config = model.config
    patch = config.patch_length
    context = np.random.default_rng(0).normal(size=(2, 3 * patch + 1)).cumsum(axis=1)
    arrays = forecaster_inputs(config, context, horizon=2 * patch + 3)
    examples: dict[str, Tensor] = {name: torch.from_numpy(x) for name, x in arrays.items()}
    return export_graph(model.eval(), examples, _signature(config), folder / GRAPH_FILE)


def forecaster_inputs(
    config: ForecasterConfig, context: Float64[np.ndarray, "B T"], horizon: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """Complete a context to all inputs of the graph, with random covariates where it has any."""
    rng = np.random.default_rng(seed)
    batch, steps = context.shape
    num_future, num_past = config.num_future_covariates, config.num_past_covariates
    inputs: dict[str, np.ndarray] = {
        "context": context,
        "horizon_placeholder": np.full((batch, horizon), np.nan),
    }
    if num_future + num_past:
        inputs["context_covariates"] = rng.normal(size=(batch, steps, num_future + num_past))
    if num_future:
        inputs["horizon_covariates"] = rng.normal(size=(batch, horizon, num_future))
    if config.num_static:
        inputs["static"] = rng.normal(size=(batch, config.num_static))
    return inputs


def _signature(config: ForecasterConfig) -> Signature:
    num_future, num_past = config.num_future_covariates, config.num_past_covariates
    inputs: dict[str, tuple[str | int, ...]] = {
        "context": ("batch", "context_len"),
        "horizon_placeholder": ("batch", "horizon"),
    }
    if num_future + num_past:
        inputs["context_covariates"] = ("batch", "context_len", num_future + num_past)
    if num_future:
        inputs["horizon_covariates"] = ("batch", "horizon", num_future)
    if config.num_static:
        inputs["static"] = ("batch", config.num_static)
    return Signature(inputs, {"quantiles": ("batch", "horizon", len(config.quantile_levels))})
