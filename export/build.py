"""From a training run to a bundle: graph, weights, proof, sample; only if the proof holds."""

import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64

from foretell.data.bundle import Bundle, ForecasterSpec, Manifest, read_bundle, write_bundle
from foretell.data.calendar import Frequency
from foretell.data.errors import BundleError, OptionError
from foretell.data.panel import Panel
from foretell.export.forecaster import export_forecaster, forecaster_inputs
from foretell.export.parity import ParityReport, compare
from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster
from foretell.model.run import WEIGHTS_FILE, load_weights, read_run, save_weights
from foretell.runtime.forecaster import GRAPH_FILE
from foretell.runtime.panels import forecast_quantiles
from foretell.runtime.selfcheck import write_sample
from foretell.runtime.session import Session

PARITY_FILE = "parity.json"

Progress = Callable[[str], None]


def export_run(
    run: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    precision: str = "fp32",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ParityReport:
    """Export a training run as a bundle.

    Args:
        run: Folder of a finished training.
        target: Where the bundle shall stand, such as models/NAME/1.
        precision: Of the weights; "fp32".
        overwrite: Replace a bundle that stands there.
        progress: Called with what is being done.

    Returns:
        The proof that also lies in the bundle.

    Raises:
        BundleError: The run can't be read, or the target can't be written.
        ExportError: The graph doesn't compute what the model computes; nothing was written.
        OptionError: `precision` is unknown.
    """
    if precision != "fp32":
        raise OptionError(f"precision is {precision!r}; it must be fp32.")
    tell = progress or (lambda _: None)
    trained = read_run(run)
    model = trained.model()
    reports: list[ParityReport] = []

    def fill(folder: Path) -> Manifest:
        tell("writing the graph")
        graph = export_forecaster(model, folder)
        save_weights(folder / WEIGHTS_FILE, model)
        manifest = Manifest(
            kind="forecaster",
            precision=precision,
            config=trained.config.to_json(),
            forecaster=trained.spec,
            graphs=(graph,),
            training=trained.training,
            tool_versions=tool_versions(),
        )
        session = Session(Bundle(folder, manifest), GRAPH_FILE, device="cpu")
        report = prove(model, trained.spec, session, tell)
        report.check()
        reports.append(report)
        text = json.dumps(report.to_json(), indent=1, allow_nan=False)
        (folder / PARITY_FILE).write_text(text + "\n")
        _write_sample(model, session, folder)
        return manifest

    write_bundle(target, fill, overwrite=overwrite)
    return reports[0]


def prove(
    model: Forecaster, spec: ForecasterSpec, session: Session, progress: Progress | None = None
) -> ParityReport:
    """Compare a model over the whole grid with its graph, and with the runtime around the graph."""
    with _threads(session.threads):
        return compare(
            model,
            {
                "the graph": lambda inputs: session.run(inputs)["quantiles"],
                "the runtime": lambda inputs: through_runtime(session, spec, inputs),
            },
            provider=session.provider,
            tool_versions=tool_versions(),
            progress=None if progress is None else lambda name: progress(f"comparing: {name}"),
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


def tool_versions() -> dict[str, str]:
    """Return the versions of everything that takes part in an export."""
    import onnxruntime  # noqa: PLC0415  - installed under one of two distribution names

    names = ("foretell", "torch", "onnx", "onnxscript", "numpy")
    return {
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
        **{name: version(name) for name in names},
    }


def _write_sample(model: Forecaster, session: Session, folder: Path) -> None:
    config = model.config
    time = np.arange(min(config.context_length, 4 * config.patch_length))
    context = (10 + 0.05 * time + 3 * np.sin(2 * np.pi * time / 12))[None]
    inputs = forecaster_inputs(config, context, config.patch_length)
    write_sample(folder, inputs, session.run(inputs)["quantiles"])


def prove_bundle(
    path: str | os.PathLike[str], *, device: str = "cpu", progress: Progress | None = None
) -> ParityReport:
    """Compare a bundle's graph with the model rebuilt from the bundle's own weights.

    Args:
        path: The bundle's folder.
        device: Where onnxruntime runs; torch stays on the CPU.
        progress: Called with what is being done.

    Raises:
        BundleError: The bundle is damaged or holds no forecaster.
    """
    bundle = read_bundle(path)
    if bundle.manifest.forecaster is None:
        raise BundleError(f"bundle {bundle.path} holds a {bundle.manifest.kind}, no forecaster.")
    model = Forecaster(ForecasterConfig.from_json(bundle.manifest.config))
    load_weights(bundle.path / WEIGHTS_FILE, model)
    session = Session(bundle, GRAPH_FILE, device=device)
    return prove(model.eval(), bundle.manifest.forecaster, session, progress)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch use as many threads as the session beside it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
