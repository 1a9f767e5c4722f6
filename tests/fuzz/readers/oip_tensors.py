"""Tensors of the Open Inference Protocol: shapes, types, raw and typed contents, chosen outputs."""

from contextlib import suppress

import numpy as np
from google.protobuf.message import DecodeError

from foretell.protos.inference import inference_pb2 as wire
from foretell.server.errors import RequestError
from foretell.server.inference.signature import Limit, Signature, Tensor
from foretell.server.inference.tensors import read_inputs, read_outputs, texts_of

SIGNATURE = Signature(
    model="any",
    inputs=(
        Tensor("x", "FP64", ("batch", "time")),
        Tensor("n", "INT64", ("batch",)),
        Tensor("words", "BYTES", ("batch", 2)),
        Tensor("flags", "BOOL", ("batch",)),
        Tensor("half", "FP16", ("past",)),
    ),
    outputs=(Tensor("y", "FP32", ("batch",)), Tensor("z", "BYTES", ("batch",))),
    limits={"batch": Limit(1000, "here")},
    may_be_empty=frozenset({"past"}),
)
ARRAYS = {
    "x": np.ones((2, 3)),
    "n": np.array([1, 2]),
    "words": [b"a", b"", "zwölf".encode(), b"\xff"],
    "flags": np.array([True, False]),
    "half": np.ones(1, np.float16),
}


def seeds():
    """The same request raw and typed, which has no place for halves."""
    raw = wire.ModelInferRequest(model_name="any", id="7")
    typed = wire.ModelInferRequest(model_name="any")
    for tensor in SIGNATURE.inputs:
        value = ARRAYS[tensor.name]
        shape = [2, 2] if tensor.datatype == "BYTES" else value.shape
        raw.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=shape)
        other = typed.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=shape)
        if tensor.datatype == "BYTES":
            content = b"".join(len(one).to_bytes(4, "little") + one for one in value)
            other.contents.bytes_contents.extend(value)
        else:
            content = value.tobytes()
            fields = {"FP64": "fp64", "INT64": "int64", "BOOL": "bool", "FP16": "fp32"}
            field = getattr(other.contents, f"{fields[tensor.datatype]}_contents")
            field.extend(value.ravel().tolist())
        raw.raw_input_contents.append(content)
    raw.outputs.add(name="z")
    raw.outputs.add(name="y")
    typed.inputs[-1].shape[0] = 0
    typed.inputs[-1].contents.Clear()
    for request in (wire.ModelInferRequest(), raw, typed):
        yield request.SerializeToString()


def parts(data):
    """What stands before the message, and the message."""
    return b"", wire.ModelInferRequest.FromString(data)


def read(data):
    """Read them or refuse them; no more memory than bytes came."""
    with suppress(DecodeError, RequestError):
        request = wire.ModelInferRequest.FromString(data)
        outputs = read_outputs(request, SIGNATURE)
        assert set(outputs) <= {"y", "z"}
        arrays = read_inputs(request, SIGNATURE)
        for tensor in SIGNATURE.inputs:
            assert arrays[tensor.name].ndim == len(tensor.axes)
        assert sum(array.nbytes for array in arrays.values()) <= 8 * len(data)
        texts_of(arrays["words"], "words")
