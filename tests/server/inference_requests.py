"""Requests of the Open Inference Protocol from arrays and texts, and what comes back."""

import grpc
import numpy as np
import pytest

from foretell.protos.inference import inference_pb2 as wire

DTYPES = {"FP64": "<f8", "FP32": "<f4", "INT64": "<i8", "BOOL": "?"}


def raw_bytes(texts):
    elements = [text if isinstance(text, bytes) else text.encode() for text in texts]
    return b"".join(len(one).to_bytes(4, "little") + one for one in elements)


def ask(model, outputs=(), request_id="", version="", parameters=None, **inputs):
    """A raw request from arrays, and from lists of texts."""
    request = wire.ModelInferRequest(model_name=model, model_version=version, id=request_id)
    for name, value in inputs.items():
        if isinstance(value, list):
            request.inputs.add(name=name, datatype="BYTES", shape=[len(value)])
            request.raw_input_contents.append(raw_bytes(value))
        else:
            request.inputs.add(name=name, datatype="FP64", shape=value.shape)
            request.raw_input_contents.append(value.tobytes())
    for name in outputs:
        request.outputs.add(name=name)
    for name, value in (parameters or {}).items():
        kinds = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
        setattr(request.parameters[name], kinds[type(value)], value)
    return request


def read(response):
    """The outputs by name; BYTES as nested lists of texts."""
    found = {}
    for output, content in zip(response.outputs, response.raw_output_contents, strict=True):
        shape = tuple(output.shape)
        if output.datatype == "BYTES":
            texts, at = [], 0
            while at < len(content):
                size = int.from_bytes(content[at : at + 4], "little")
                texts.append(content[at + 4 : at + 4 + size].decode())
                at += 4 + size
            found[output.name] = np.array(texts, dtype=object).reshape(shape).tolist()
        else:
            found[output.name] = np.frombuffer(content, DTYPES[output.datatype]).reshape(shape)
    return found


def refused(call, code, *words):
    with pytest.raises(grpc.RpcError) as error:
        call()
    assert error.value.code() is code, error.value.details()
    for word in words:
        assert word in error.value.details()
    return error.value.details()
