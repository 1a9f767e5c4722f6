"""`foretell inspect`: what a bundle is, without loading its model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from foretell.data.bundles.bundle import ForecasterSpec, GraphSpec, Manifest, TranslatorSpec

T = TypeVar("T")

EXAMPLE = "Example: foretell inspect models/demand"
_LABEL_WIDTH = 20
_NAMES = {"validation_score": "validation BLEU"}


def inspect(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="Bundle, or model folder (its newest version).")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Show what a model is: purpose, inputs, outputs, provenance.

    The files are checked against their hashes first.
    """
    from foretell.data.bundles.bundle import read_bundle, resolve_bundle
    from foretell.jobs.output import check_stdout

    check_stdout()
    found = read_bundle(resolve_bundle(bundle))
    if as_json:
        typer.echo(found.manifest.to_json(), nl=False)
        return
    typer.echo(str(found.path))
    for label, value in _lines(found.manifest):
        typer.echo(f"  {label:<{_LABEL_WIDTH}}{value}".rstrip())


def _lines(manifest: "Manifest") -> "Iterator[tuple[str, str]]":
    yield "kind", f"{manifest.kind}, {manifest.precision}, format {manifest.format_version}"
    if manifest.forecaster is not None:
        yield from _forecaster(manifest.forecaster)
    if manifest.translator is not None:
        yield from _translator(manifest.translator)
    for graph in manifest.graphs:
        yield from _graph(graph)
    yield from _facts("config", manifest.config)
    # The run's record repeats the model's configuration, which stands above.
    training = {k: v for k, v in manifest.training.items() if v != manifest.config}
    yield from _facts("training", training)
    yield from _facts("made with", manifest.tool_versions)
    for label, (name, entry) in _labelled("files", sorted(manifest.files.items())):
        yield label, f"{name}  {entry.size_bytes:,} bytes  sha256 {entry.sha256[:12]}"


def _forecaster(spec: "ForecasterSpec") -> "Iterator[tuple[str, str]]":
    yield "frequency", f"{spec.frequency}, season of {spec.season_length} steps"
    yield "horizon", f"{spec.horizon} steps (more can be asked for)"
    yield "context", f"up to {spec.context_length} steps, in patches of {spec.patch_length}"
    yield "quantile levels", ", ".join(f"{level:g}" for level in spec.quantile_levels)
    yield "future covariates", ", ".join(spec.future_covariates) or "none"
    yield "past covariates", ", ".join(spec.past_covariates) or "none"
    yield "static covariates", ", ".join(spec.static) or "none"


def _translator(spec: "TranslatorSpec") -> "Iterator[tuple[str, str]]":
    yield "family", spec.arch
    if spec.src_language or spec.tgt_language:
        yield "languages", f"{spec.src_language or '?'} to {spec.tgt_language or '?'}"
    yield "vocabulary", f"{spec.vocab_size:,} pieces, shared by source and target"
    yield "source length", f"up to {spec.max_source_length:,} pieces, the end token counted"
    yield "target length", f"up to {spec.max_target_length:,} pieces, the end token counted"
    yield "attention", "can be asked for" if spec.has_attention else "none"


def _graph(graph: "GraphSpec") -> "Iterator[tuple[str, str]]":
    yield "graph", f"{graph.file}, opset {graph.opset}"
    for kind, tensors in (("  in", graph.inputs), ("  out", graph.outputs)):
        for tensor in tensors:
            shape = ", ".join(str(axis) for axis in tensor.shape)
            yield kind, f"{tensor.name}: {tensor.dtype} [{shape}]"


def _facts(label: str, facts: "Mapping[str, object]") -> "Iterator[tuple[str, str]]":
    told = [(_NAMES.get(name, name), _text(value)) for name, value in facts.items()]
    for own, (name, text) in _labelled(label, [(name, text) for name, text in told if text]):
        yield own, f"{name}: {text}"


def _text(value: object) -> str:
    """Write a fact; nothing where nothing is known."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(str(part) for part in value if part != "")
    return "" if value is None else str(value)


def _labelled(label: str, values: "list[T]") -> "Iterator[tuple[str, T]]":
    """Put the label before the first value only."""
    for i, value in enumerate(values):
        yield label if i == 0 else "", value
