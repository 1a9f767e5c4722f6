"""From a training run to a bundle: graphs, weights, proof, sample; only if the proof holds.

int8 is made of graphs that are proven in float32, and only if it loses little on held-out data.
"""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

from foretell.data.bundles.bundle import (
    Bundle,
    GraphSpec,
    Manifest,
    list_files,
    read_bundle,
    write_bundle,
)
from foretell.data.errors import BundleError, OptionError
from foretell.data.text.tokenizer import TOKENIZER_FILE
from foretell.export.environment import tool_versions
from foretell.export.forecaster import export_forecaster
from foretell.export.forecaster_proof import prove_forecaster, write_forecaster_sample
from foretell.export.gate import Gate
from foretell.export.int8 import quantise_graph
from foretell.export.onnx_graph import ExportError
from foretell.export.parity import ParityReport, Progress
from foretell.export.translator import export_translator
from foretell.export.translator_proof import prove_translator, write_sample_translations
from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster
from foretell.model.run import (
    WEIGHTS_FILE,
    Run,
    TranslatorRun,
    load_weights,
    make_translator,
    read_run,
    save_weights,
    translator_config,
)
from foretell.model.seq2seq import Seq2Seq

PARITY_FILE = "parity.json"
PRECISIONS = ("fp32", "int8")

Model = Forecaster | Seq2Seq


def export_run(
    run: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    precision: str = "fp32",
    gate: Gate | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ParityReport:
    """Export a training run as a bundle.

    Args:
        run: Folder of a finished training.
        target: Where the bundle shall stand, such as models/NAME/1.
        precision: Of the weights; "fp32" or "int8".
        gate: Measures what int8 loses; afterwards it tells.
        overwrite: Replace a bundle that stands there.
        progress: Called with what is being done.

    Returns:
        The proof that also lies in the bundle: that of the float32 graphs.

    Raises:
        BundleError: The run can't be read, or the target can't be written.
        ExportError: The graphs don't compute what the model computes, or int8 loses too much;
            nothing was written.
        OptionError: `precision` is unknown, or comes without the gate that it needs.
    """
    _check_precision(precision, gate)
    tell = progress or (lambda _: None)
    trained = read_run(run)
    model = trained.model()
    reports: list[ParityReport] = []

    def fill(folder: Path) -> Manifest:
        tell("export 1 of 3: writing the model as ONNX graphs")
        graphs = _write_graphs(model, folder)
        if isinstance(trained, TranslatorRun):
            shutil.copyfile(trained.path / TOKENIZER_FILE, folder / TOKENIZER_FILE)
        manifest = _manifest(trained, precision, graphs)
        bundle = Bundle(folder, replace(manifest, files=list_files(folder)))
        report = _prove(model, bundle, "cpu", lambda text: tell(f"export 2 of 3: {text}"))
        report.check()
        reports.append(report)
        text = json.dumps(report.to_json(), indent=1, allow_nan=False)
        (folder / PARITY_FILE).write_text(text + "\n")
        if gate is None:
            save_weights(folder / WEIGHTS_FILE, model)
        else:
            _quantise(bundle, gate, lambda text: tell(f"export 2 of 3: {text}"))
            manifest = replace(manifest, training={**manifest.training, "int8": gate.to_json()})
        tell("export 3 of 3: writing the sample answer by which a bundle checks itself")
        _write_sample(model, bundle)
        return manifest

    write_bundle(target, fill, overwrite=overwrite)
    return reports[0]


def _check_precision(precision: str, gate: Gate | None) -> None:
    if precision not in PRECISIONS:
        raise OptionError(f"precision is {precision!r}; it must be {' or '.join(PRECISIONS)}.")
    if (precision == "int8") != (gate is not None):
        raise OptionError(
            f"precision is {precision!r}; int8, and int8 alone, is measured on held-out data."
        )


def _quantise(bundle: Bundle, gate: Gate, tell: Progress) -> None:
    """Replace proven graphs by int8 ones, if these lose little."""
    tell("measuring float32 on the held-out data")
    gate.take_before(bundle)
    tell("writing the weights as 8-bit integers")
    counts = {
        graph.file: quantise_graph(bundle.path / graph.file) for graph in bundle.manifest.graphs
    }
    if not all(counts.values()):
        none = ", ".join(file for file, count in counts.items() if not count)
        raise ExportError(f"int8 changes nothing in {none}: the model is too small; export fp32.")
    tell("measuring int8 on the held-out data")
    gate.take_after(bundle)


def prove_bundle(
    path: str | os.PathLike[str], *, device: str = "cpu", progress: Progress | None = None
) -> ParityReport:
    """Compare a bundle's graphs with the model rebuilt from the bundle's own weights.

    Args:
        path: The bundle's folder.
        device: Where onnxruntime runs; torch stays on the CPU.
        progress: Called with what is being done.

    Raises:
        BundleError: The bundle is damaged, or holds no weights to compare with.
    """
    bundle = read_bundle(path)
    if bundle.manifest.precision != "fp32":
        raise BundleError(
            f"bundle {bundle.path} is {bundle.manifest.precision}: its graphs were proven in fp32 "
            f"before they were changed ({PARITY_FILE}); what they lost stands in the manifest."
        )
    model = _empty_model(bundle.manifest)
    load_weights(bundle.path / WEIGHTS_FILE, model)
    return _prove(model.eval(), bundle, device, progress or (lambda _: None))


def _manifest(trained: Run, precision: str, graphs: tuple[GraphSpec, ...]) -> Manifest:
    return Manifest(
        kind="translator" if isinstance(trained, TranslatorRun) else "forecaster",
        precision=precision,
        config=trained.config.to_json(),
        forecaster=None if isinstance(trained, TranslatorRun) else trained.spec,
        translator=trained.spec if isinstance(trained, TranslatorRun) else None,
        graphs=graphs,
        training=trained.training,
        tool_versions=tool_versions(),
    )


def _empty_model(manifest: Manifest) -> Model:
    if manifest.translator is None:
        return Forecaster(ForecasterConfig.from_json(manifest.config))
    return make_translator(translator_config(manifest.translator.arch, manifest.config))


def _write_graphs(model: Model, folder: Path) -> tuple[GraphSpec, ...]:
    if isinstance(model, Forecaster):
        return (export_forecaster(model, folder),)
    return export_translator(model, folder)


def _prove(model: Model, bundle: Bundle, device: str, progress: Progress) -> ParityReport:
    if isinstance(model, Forecaster):
        return prove_forecaster(model, bundle, device=device, progress=progress)
    return prove_translator(model, bundle, device=device, progress=progress)


def _write_sample(model: Model, bundle: Bundle) -> None:
    if isinstance(model, Forecaster):
        write_forecaster_sample(model, bundle)
    else:
        write_sample_translations(bundle)
