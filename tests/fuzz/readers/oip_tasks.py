"""Whole tasks and bare graphs over the Open Inference Protocol; the first byte says which.

What comes behind it is a request of a model that needs no weights, since nothing is computed.
"""

import runpy
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from foretell.data.bundles.bundle import GraphSpec, TensorSpec
from foretell.protos.inference import inference_pb2 as wire
from foretell.server.errors import MessageSizeError, RequestError
from foretell.server.inference.forecasts import ForecastInference
from foretell.server.inference.graphs import GraphInference
from foretell.server.inference.parameters import read_parameters
from foretell.server.inference.tensors import read_inputs
from foretell.server.inference.translations import TranslationInference
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

FAKES = Path(__file__).resolve().parents[2] / "server"
LIMITS = ServerOptions(max_series=50, max_steps=500, max_characters=2000)


def of_kind(kind):
    """What makes the manifest of the tests' fake of a kind."""
    return runpy.run_path(str(FAKES / f"fake_{kind}.py"))["make_manifest"]


FORECASTER = replace(
    of_kind("forecaster")(
        future_covariates=("promo",), past_covariates=("visits",), static=("size",)
    ),
    graphs=(
        GraphSpec(
            "forecaster.onnx",
            18,
            (
                TensorSpec("context", "float64", ("batch", "context_len")),
                TensorSpec("horizon_placeholder", "float64", ("batch", "horizon")),
            ),
            (TensorSpec("quantiles", "float64", ("batch", "horizon", 3)),),
        ),
    ),
)
TRANSLATOR = replace(
    of_kind("translator")(),
    graphs=(
        GraphSpec(
            "decoder.onnx",
            18,
            (
                TensorSpec("tokens", "int64", ("batch", "beams")),
                TensorSpec("scores", "float32", ("batch", "beams")),
                TensorSpec("parents", "int64", ("batch", "beams")),
                TensorSpec("positions", "int64", ("batch",)),
                TensorSpec("num_candidates", "int64", (1,)),
                TensorSpec("src_mask", "bool", ("batch", "src_len")),
                TensorSpec("past_0", "float32", ("batch", 2, "past_len", 8)),
            ),
            (
                TensorSpec("candidates", "int64", ("batch", "num_candidates")),
                TensorSpec("present_0", "float32", ("batch", 2, "present_len", 8)),
            ),
        ),
    ),
)


class Nothing:
    """Says what it is, and computes nothing."""

    provider, threads = "NoExecutionProvider", 1
    plan_forecast = forecast_rows = plan_translations = plan_scores = translate_stream = None
    translate = score = run_graph = None

    def __init__(self, manifest):
        self.manifest = manifest


DEMAND, ENDE = (Model(name, 1, Nothing(of)) for name, of in (("d", FORECASTER), ("e", TRANSLATOR)))
INFERENCES = (
    ForecastInference(DEMAND, LIMITS),
    TranslationInference(ENDE, LIMITS),
    GraphInference(DEMAND, "forecaster", LIMITS),
    GraphInference(ENDE, "decoder", LIMITS),
)
SIZES = {"batch": 2, "context_len": 5, "horizon": 3, "beams": 2, "src_len": 4, "past_len": 1}


def seeds():
    """A good request of each, of ones."""
    yield b""
    for kind, inference in enumerate(INFERENCES):
        request = wire.ModelInferRequest(model_name=inference.signature.model)
        for tensor in inference.signature.inputs:
            shape = [SIZES.get(axis, axis) for axis in tensor.axes]
            if tensor.datatype == "BYTES":
                shape, content = [2], b"\3\0\0\0one\4\0\0\0zwei"
            else:
                dtype = {"FP64": "f8", "FP32": "f4", "INT64": "i8", "BOOL": "?"}[tensor.datatype]
                content = np.ones(shape, dtype).tobytes()
            request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=shape)
            request.raw_input_contents.append(content)
        yield bytes([kind]) + request.SerializeToString()
        if kind == 0:
            request.parameters["quantile_levels"].string_param = "0.1,0.5"
            request.parameters["horizon"].int64_param = 3
            request.parameters["timeout"].int64_param = 10
            yield bytes([kind]) + request.SerializeToString()


def parts(data):
    """What stands before the message, and the message."""
    return data[:1], wire.ModelInferRequest.FromString(data[1:])


def read(data):
    """Read it or refuse it."""
    inference = INFERENCES[data[0] % len(INFERENCES) if data else 0]
    with suppress(DecodeError, RequestError, MessageSizeError):
        request = wire.ModelInferRequest.FromString(data[1:])
        parameters = read_parameters(request, inference.signature.parameters)
        inference.read(read_inputs(request, inference.signature), parameters.own)
