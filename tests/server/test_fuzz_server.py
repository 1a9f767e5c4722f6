"""A server that is sent anything, by any method: it answers in its own words, and goes on."""

import runpy
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import forecaster_pb2, models_pb2, translator_pb2
from foretell.protos.v1.models_pb2 import ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

HERE = Path(__file__).parent
any_message = runpy.run_path(str(HERE / "any_message.py"))["any_message"]
FakeForecaster = runpy.run_path(str(HERE / "fake_forecaster.py"))["FakeForecaster"]
FakeTranslator = runpy.run_path(str(HERE / "fake_translator.py"))["FakeTranslator"]

OURS, OPEN = "/foretell.v1.", "/inference.GRPCInferenceService/"
METHODS = {
    OURS + "Forecaster/Forecast": forecaster_pb2.ForecastRequest,
    OURS + "Forecaster/ForecastStream": forecaster_pb2.ForecastRequest,
    OURS + "Translator/Translate": translator_pb2.TranslateRequest,
    OURS + "Translator/TranslateStream": translator_pb2.TranslateStreamRequest,
    OURS + "Translator/Score": translator_pb2.ScoreRequest,
    OURS + "Models/Describe": models_pb2.DescribeModelRequest,
    OURS + "Models/Load": models_pb2.LoadModelRequest,
    OURS + "Models/Unload": models_pb2.UnloadModelRequest,
    OPEN + "ModelInfer": inference_pb2.ModelInferRequest,
    OPEN + "ModelStreamInfer": inference_pb2.ModelInferRequest,
    OPEN + "ModelMetadata": inference_pb2.ModelMetadataRequest,
    OPEN + "ModelConfig": inference_pb2.ModelConfigRequest,
    OPEN + "ModelReady": inference_pb2.ModelReadyRequest,
    OPEN + "ModelStatistics": inference_pb2.ModelStatisticsRequest,
    OPEN + "RepositoryIndex": inference_pb2.RepositoryIndexRequest,
    OPEN + "RepositoryModelLoad": inference_pb2.RepositoryModelLoadRequest,
    OPEN + "RepositoryModelUnload": inference_pb2.RepositoryModelUnloadRequest,
}
WORDS = ("demand", "ende", "demand:forecaster", "ende:encoder", "context", "sentences", "1",
         "FP64", "BYTES", "horizon", "beam_size", "stream", "promo")  # fmt: skip
FAULTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED}


@pytest.fixture(scope="module")
def channel():
    models = [
        Model("demand", 1, FakeForecaster(future_covariates=("promo",))),
        Model("ende", 1, FakeTranslator()),
    ]
    options = ServerOptions(
        listen="127.0.0.1:0", max_message_bytes=4 * 2**20, max_series=50, max_horizon=100
    )
    with (
        serve_in_background(Repository(models), options) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield channel


def status_of(channel, method, contents):
    """How a call ends; any method takes a stream on the wire."""
    call = channel.stream_stream(method)(iter(contents), timeout=120)
    with suppress(grpc.RpcError):
        for _ in call:
            pass
    assert "Traceback" not in call.details()
    assert "<class" not in call.details()
    return call.code()


def still_serves(channel):
    return len(ModelsStub(channel).List(ListModelsRequest(), timeout=120).models) == 2


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=12)
@given(data=st.data())
def test_any_message_gets_an_answer_or_a_refusal(channel, method, data):
    message = data.draw(any_message(METHODS[method], words=WORDS))
    assert status_of(channel, method, [message.SerializeToString()]) not in FAULTS


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=6)
@given(content=st.binary(max_size=100))
def test_any_bytes_get_an_answer_or_a_refusal(channel, method, content):
    assert status_of(channel, method, [content]) not in FAULTS


def repeated(kind, field):
    """As many empty messages within a message as fit 4 MiB, two bytes each."""
    number = kind.DESCRIPTOR.fields_by_name[field].number
    return bytes([number << 3 | 2, 0]) * (2**21 - 10)


@pytest.mark.parametrize(
    ("method", "field"),
    [
        (OURS + "Translator/Translate", "options"),
        (OURS + "Translator/Translate", "sentences"),
        (OURS + "Translator/Score", "pairs"),
        (OPEN + "ModelInfer", "inputs"),
        (OPEN + "ModelInfer", "parameters"),
        (OPEN + "ModelStreamInfer", "outputs"),
    ],
)
def test_a_message_that_would_unfold_is_refused_unread(channel, method, field):
    """Two bytes each on the wire, over a hundred in memory: 64 MiB would fill gigabytes."""
    call = channel.stream_stream(method)(iter([repeated(METHODS[method], field)]), timeout=120)
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "fields in its 4,194,284 bytes" in caught.value.details()
    assert still_serves(channel)


def test_callers_that_vanish_leave_nothing(channel):
    """Cancelled at once, or in the middle of a stream: the next caller is served as the first."""
    request = translator_pb2.TranslateStreamRequest(model="ende", sentence="one two three")
    call = channel.unary_stream(OURS + "Translator/TranslateStream")
    for number in range(100):
        answers = call(request.SerializeToString(), timeout=120)
        if number % 2:
            next(answers, None)
        answers.cancel()
    assert still_serves(channel)
    assert len(list(call(request.SerializeToString(), timeout=120))) > 1
