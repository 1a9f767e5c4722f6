"""A forecaster's bundle, proven: its graph alone, and the runtime around it.

Axes: n series, H horizon, Q quantiles.
"""

import numpy as np
import pandas as pd
from jaxtyping import Float64

from foretell.data.bundles.bundle import Bundle, ForecasterSpec
from foretell.data.calendars.calendar import Frequency
from foretell.data.series.panel import Panel
from foretell.export.environment import tool_versions, torch_threads
from foretell.export.forecaster import forecaster_inputs
from foretell.export.forecaster_parity import ForecasterReport, compare
from foretell.export.parity import Progress
from foretell.model.forecaster import Forecaster
from foretell.runtime.forecaster import GRAPH_FILE
from foretell.runtime.panels import forecast_quantiles
from foretell.runtime.selfcheck import write_sample
from foretell.runtime.session import Session


def prove_forecaster(
    model: Forecaster, bundle: Bundle, *, device: str, progress: Progress
) -> ForecasterReport:
    """Compare a model over the whole grid with its graph, and with the runtime around the graph."""
    spec = bundle.manifest.forecaster
    assert spec is not None
    session = Session(bundle, GRAPH_FILE, device=device)
    with torch_threads(session.threads):
        return compare(
            model,
            {
                "the graph": lambda inputs: session.run(inputs)["quantiles"],
                "the runtime": lambda inputs: through_runtime(session, spec, inputs),
            },
            provider=session.provider,
            tool_versions=tool_versions(),
            progress=progress,
        )


def through_runtime(
    session: Session, spec: ForecasterSpec, inputs: dict[str, np.ndarray]
) -> Float64[np.ndarray, "n H Q"]:
    """Run the inputs as a panel, padded, cut and batched as every request is."""
    context = inputs["context"]
    count, steps = context.shape
    horizon = inputs["horizon_placeholder"].shape[1]
    none = np.empty((count, steps, 0))
    panel = Panel(
        ids=pd.RangeIndex(count),
        frequencies=(Frequency.parse(1),) * count,
        last=np.zeros(count, dtype=np.int64),
        stamp_kind="integer",
        time_zone=None,
        indptr=np.arange(count + 1, dtype=np.int64) * steps,
        target=context.ravel(),
        context_covariates=inputs.get("context_covariates", none).reshape(count * steps, -1),
        horizon_covariates=inputs.get("horizon_covariates", np.empty((count, horizon, 0))),
        static=inputs.get("static", np.empty((count, 0))),
    )
    quantiles, _ = forecast_quantiles(session, spec, panel, horizon, spec.quantile_levels)
    return quantiles


def write_forecaster_sample(model: Forecaster, bundle: Bundle) -> None:
    """Store a request and its answer."""
    config = model.config
    time = np.arange(min(config.context_length, 4 * config.patch_length))
    context = (10 + 0.05 * time + 3 * np.sin(2 * np.pi * time / 12))[None]
    inputs = forecaster_inputs(config, context, config.patch_length)
    session = Session(bundle, GRAPH_FILE, device="cpu")
    write_sample(bundle.path, inputs, session.run(inputs)["quantiles"])
