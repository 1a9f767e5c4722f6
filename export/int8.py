"""A graph whose products run on 8-bit integers, made from a proven float32 one.

    x @ W  ->  s · (round(x / s) @ Q) · w        s = max |x| / 127 of each row, by itself
                                                 w = max |W| / 63 of each column, Q = round(W / w)

Rows are measured one by one, so an answer doesn't depend on what is computed beside it, and sums of
integers are exact, whatever their order and number. Embeddings keep a scale a row.

The weights have 7 bits: of 8, processors without VNNI would clip the sums of two products. All
operators are ONNX's own.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from jaxtyping import Float32
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

_MIN_SIDE = 16  # smaller matrices stay as they are: they cost little, and lose most
_WEIGHT_MOST, _EMBEDDING_MOST, _ROW_MOST = 63, 127, 127
_ROW_ZERO = 128  # activations are unsigned: the fast kernels multiply those with signed weights
_LEAST = 1e-30  # the scale of a row of zeros
_FOLDED = {"Cast", "Concat", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}


def quantise_graph(path: Path) -> int:
    """Replace a graph by one with 8-bit weights, whose inputs and outputs are the same.

    Args:
        path: A float32 graph that `export_graph` wrote; it is overwritten.

    Returns:
        The number of products and embeddings that were replaced.
    """
    model = onnx.load(path)
    writer = _Writer(model)
    writer.rewrite()
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return writer.count


class _Writer:
    """Rewrites a graph node by node.

    Attributes:
        count: Products and embeddings replaced so far.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._arrays = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
        self._nodes: list[NodeProto] = []
        self._rows: dict[str, tuple[str, str]] = {}
        self.count = 0

    def rewrite(self) -> None:
        """Write the graph's nodes anew."""
        for node in self._graph.node:
            if node.op_type in _FOLDED and all(name in self._arrays for name in node.input if name):
                self._fold(node)
            elif node.op_type in {"MatMul", "Gemm"} and self._is_large(node.input[1]):
                self._product(node)
            elif node.op_type == "Gather" and self._is_large(node.input[0]) and not _axis(node):
                self._embedding(node)
            else:
                self._nodes.append(node)
        del self._graph.node[:]
        self._graph.node.extend(self._nodes)
        used = {name for node in self._nodes for name in node.input}
        used |= {value.name for value in self._graph.output}
        del self._graph.initializer[:]
        self._graph.initializer.extend(
            numpy_helper.from_array(array, name)
            for name, array in self._arrays.items()
            if name in used
        )
        del self._graph.value_info[:]  # of values that may be gone

    def _is_large(self, name: str) -> bool:
        array = self._arrays.get(name)
        return (
            array is not None
            and array.ndim == 2
            and array.dtype == np.float32
            and min(array.shape) >= _MIN_SIDE
        )

    def _fold(self, node: NodeProto) -> None:
        """Compute what is constant, such as the three parts of one matrix."""
        given = {name: self._arrays[name] for name in node.input if name}
        (array,) = ReferenceEvaluator(node).run(None, given)
        self._arrays[node.output[0]] = np.ascontiguousarray(array)

    def _product(self, node: NodeProto) -> None:
        options = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if node.op_type == "Gemm" and not _is_plain(options):
            self._nodes.append(node)
            return
        weights = self._arrays[node.input[1]]
        if options.get("transB"):
            weights = weights.T
        output = node.output[0]
        scales = _scales(weights, axis=0, most=_WEIGHT_MOST)  # [1 N]
        integers = np.rint(weights / scales).astype(np.int8)
        rows, row_scales = self._quantised_rows(node.input[0])
        matrix = self._constant(f"{output}.weights", integers)
        zero = self._constant("int8.row_zero", np.array(_ROW_ZERO, np.uint8))
        self._add("MatMulInteger", [rows, matrix, zero], f"{output}.sums")
        self._add("Cast", [f"{output}.sums"], f"{output}.floats", to=TensorProto.FLOAT)
        self._add("Mul", [f"{output}.floats", row_scales], f"{output}.rows")
        columns = self._constant(f"{output}.scales", scales[0])
        bias = node.input[2] if len(node.input) > 2 else ""
        self._add("Mul", [f"{output}.rows", columns], f"{output}.product" if bias else output)
        if bias:
            self._add("Add", [f"{output}.product", bias], output)
        self.count += 1

    def _quantised_rows(self, name: str) -> tuple[str, str]:
        """Write an array as integers and a scale a row; once, for all products that read it."""
        if name not in self._rows:
            last = self._constant("int8.last_axis", np.array([-1], np.int64))
            steps = self._constant("int8.steps", np.array(1 / _ROW_MOST, np.float32))
            least = self._constant("int8.least", np.array(_LEAST, np.float32))
            zero = self._constant("int8.row_zero_float", np.array(_ROW_ZERO, np.float32))
            at = f"{name}.int8"
            self._add("Abs", [name], f"{at}.abs")
            self._add("ReduceMax", [f"{at}.abs", last], f"{at}.most", keepdims=1)
            self._add("Mul", [f"{at}.most", steps], f"{at}.step")
            self._add("Max", [f"{at}.step", least], f"{at}.scale")
            self._add("Div", [name, f"{at}.scale"], f"{at}.steps")
            self._add("Round", [f"{at}.steps"], f"{at}.rounded")
            self._add("Add", [f"{at}.rounded", zero], f"{at}.shifted")
            self._add("Cast", [f"{at}.shifted"], at, to=TensorProto.UINT8)
            self._rows[name] = at, f"{at}.scale"
        return self._rows[name]

    def _embedding(self, node: NodeProto) -> None:
        table, output = node.input[0], node.output[0]
        scales = _scales(self._arrays[table], axis=1, most=_EMBEDDING_MOST)  # [V 1]
        integers = np.rint(self._arrays[table] / scales).astype(np.int8)
        for name, array in (("integers", integers), ("scale", scales)):
            constant = self._constant(f"{table}.{name}", array)
            self._add("Gather", [constant, node.input[1]], f"{output}.{name}")
        self._add("Cast", [f"{output}.integers"], f"{output}.floats", to=TensorProto.FLOAT)
        self._add("Mul", [f"{output}.floats", f"{output}.scale"], output)
        self.count += 1

    def _constant(self, name: str, array: np.ndarray) -> str:
        self._arrays.setdefault(name, np.ascontiguousarray(array))
        return name

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: int) -> None:
        node = helper.make_node(operator, inputs, [output])
        node.attribute.extend(helper.make_attribute(name, x) for name, x in attributes.items())
        self._nodes.append(node)


def _axis(node: NodeProto) -> int:
    return next((one.i for one in node.attribute if one.name == "axis"), 0)


def _is_plain(options: Mapping[str, object]) -> bool:
    """Whether a Gemm is a product and a sum, with nothing else to it."""
    wanted = {"transA": 0, "alpha": 1.0, "beta": 1.0}
    return all(options.get(name, value) == value for name, value in wanted.items())


def _scales(array: Float32[np.ndarray, "R C"], *, axis: int, most: int) -> np.ndarray:
    largest = np.abs(array).max(axis=axis, keepdims=True)
    scales: np.ndarray = np.maximum(largest / most, _LEAST).astype(np.float32)
    return scales
