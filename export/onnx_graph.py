"""From a torch module to one self-contained ONNX file that needs standard operators alone."""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import torch
from onnx_ir.passes.common import ClearMetadataAndDocStringPass
from torch import Tensor, nn

from foretell.data.bundles.manifest import GraphSpec, TensorSpec
from foretell.data.errors import ForetellError

# The first operator set with Attention, RotaryEmbedding and RMSNormalization.
OPSET = 23

_DTYPES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.int64: "int64",
    torch.bool: "bool",
}


# What one argument of a module is given: a tensor, or several by name.
Example = Tensor | Mapping[str, Tensor]


class ExportError(ForetellError, RuntimeError):
    """The exported graph is not what it should be, or doesn't compute what the model computes."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Names and axes of a graph: the same as the arguments' names and the manifest's.

    Attributes:
        inputs: The axes of each input, in order; a name is dynamic, a number is fixed.
        outputs: The axes of each output.
    """

    inputs: Mapping[str, tuple[str | int, ...]]
    outputs: Mapping[str, tuple[str | int, ...]]


def export_graph(
    module: nn.Module, examples: Mapping[str, Example], signature: Signature, path: Path
) -> GraphSpec:
    """Write a module as an ONNX file.

    Args:
        module: In evaluation mode.
        examples: Example inputs by argument; an argument that is a dictionary of tensors gives an
            input each. Every dynamic size must be at least 2 and unlike the others, or torch may
            fix it without a word.
        signature: Names and axes.
        path: The file.

    Returns:
        What the manifest says of the graph.

    Raises:
        ExportError: The graph has other axes than it should, or non-standard operators.
    """
    tensors = dict(_flat(examples))
    try:
        with _quiet():
            program = torch.onnx.export(
                module,
                kwargs=dict(examples),
                dynamo=True,
                external_data=False,
                opset_version=OPSET,
                input_names=list(signature.inputs),
                output_names=list(signature.outputs),
                dynamic_shapes=_dynamic_shapes(examples, signature.inputs),
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        raise ExportError(f"torch can't export the model as {path.name}: {error}") from error
    assert program is not None
    model = program.model
    _check_axes(model.graph.inputs, signature.inputs)
    for value in model.graph.outputs:
        # Torch derives an expression such as Min(horizon, 12*u4); the axis is what we call it.
        axes = signature.outputs[str(value.name)]
        _check_fixed(value, axes)
        value.shape = onnx_ir.Shape(axes)
    # Nodes carry stack traces with the paths of the machine that made them.
    ClearMetadataAndDocStringPass()(model)
    model.producer_name = "foretell"
    onnx_ir.save(model, path)
    _check_standard(path)
    return GraphSpec(
        file=path.name,
        opset=OPSET,
        inputs=tuple(
            TensorSpec(name, _DTYPES[tensors[name].dtype], axes)
            for name, axes in signature.inputs.items()
        ),
        outputs=tuple(
            TensorSpec(str(value.name), _numpy_name(value), signature.outputs[str(value.name)])
            for value in model.graph.outputs
        ),
    )


def _flat(examples: Mapping[str, Example]) -> Iterator[tuple[str, Tensor]]:
    for name, example in examples.items():
        if isinstance(example, Tensor):
            yield name, example
        else:
            yield from example.items()


def _dynamic_shapes(
    examples: Mapping[str, Example], axes: Mapping[str, tuple[str | int, ...]]
) -> dict[str, Any]:
    """Tell torch which axes of which argument are dynamic."""

    def dynamic(name: str, example: Example) -> dict[Any, Any]:
        if not isinstance(example, Tensor):
            return {inner: dynamic(inner, tensor) for inner, tensor in example.items()}
        return {i: axis for i, axis in enumerate(axes[name]) if isinstance(axis, str)}

    return {name: dynamic(name, example) for name, example in examples.items()}


def _check_standard(path: Path) -> None:
    onnx.checker.check_model(path, full_check=True)
    nodes = onnx.load(path).graph.node
    foreign = {node.op_type for node in nodes if node.domain not in {"", "ai.onnx"}}
    if foreign:
        raise ExportError(f"{path.name} uses operators beyond the standard set: {sorted(foreign)}.")


def _check_axes(
    values: Sequence[onnx_ir.Value], expected: Mapping[str, tuple[str | int, ...]]
) -> None:
    for value, (name, axes) in zip(values, expected.items(), strict=True):
        found = [str(axis) for axis in value.shape or ()]
        if value.name != name or found != [str(axis) for axis in axes]:
            raise ExportError(
                f"torch exported {value.name}{found}; expected {name}{list(axes)}. A dynamic axis "
                "was fixed or renamed."
            )


def _check_fixed(value: onnx_ir.Value, axes: tuple[str | int, ...]) -> None:
    for found, expected in zip(value.shape or (), axes, strict=True):
        if isinstance(found, int) != isinstance(expected, int):
            raise ExportError(
                f"output {value.name} has the axes {value.shape}; expected {list(axes)}."
            )


def _numpy_name(value: onnx_ir.Value) -> str:
    assert value.dtype is not None
    return np.dtype(value.dtype.numpy()).name


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's own notes (torchvision is absent, its deprecated calls) from the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
