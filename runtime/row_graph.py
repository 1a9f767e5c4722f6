"""A graph that takes rows of several arrays, so that a device's need not come to the host for it.

Serving knows no onnx; a graph of Gather nodes alone is so small that its bytes are put together
here, in protobuf's wire format: the fields of onnx.proto by their numbers.
"""

from collections.abc import Sequence

from foretell.data.bundles.manifest import TensorSpec

ROWS = "rows"

_IR_VERSION, _OPSET = 8, 13
# onnx.TensorProto.DataType, by NumPy's names.
_TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}


def row_graph(tensors: Sequence[TensorSpec]) -> bytes:
    """Make an ONNX model that takes rows of arrays.

    Args:
        tensors: The arrays; what counts are name, type and number of axes.

    Returns:
        A model whose inputs are the arrays and `rows`, int64 [n]. Its outputs are named by `taken`,
        in the arrays' order: those rows of an array's first axis, in that order.
    """
    rows = TensorSpec(ROWS, "int64", ("n",))
    outputs = (TensorSpec(taken(one.name), one.dtype, one.shape) for one in tensors)
    graph = b"".join(
        [
            *(_message(1, _gather(one.name)) for one in tensors),
            _text(2, "rows of arrays"),
            *(_message(11, _value(one)) for one in (*tensors, rows)),
            *(_message(12, _value(one)) for one in outputs),
        ]
    )
    opset = _text(1, "") + _number(2, _OPSET)
    return _number(1, _IR_VERSION) + _message(7, graph) + _message(8, opset)


def taken(name: str) -> str:
    """Name the output that holds the rows of an array."""
    return f"{name}.{ROWS}"


def _gather(name: str) -> bytes:
    """Write a NodeProto: inputs, output, operator. The axis is 0 where none is given."""
    return _text(1, name) + _text(1, ROWS) + _text(2, taken(name)) + _text(4, "Gather")


def _value(tensor: TensorSpec) -> bytes:
    """Write a ValueInfoProto whose axes may have any size."""
    shape = b"".join(_message(1, b"") for _ in tensor.shape)
    tensor_type = _number(1, _TYPES[tensor.dtype]) + _message(2, shape)
    return _text(1, tensor.name) + _message(2, _message(1, tensor_type))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)
