"""Bytes that are no message: the caller's mistake, told in our words, whatever the method."""

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.protos.v1.forecaster_pb2 import ForecastResponse
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.server.application import SERVICES

MALFORMED = [b"\xff" * 100, b"no message", b"\x3a\x7f"]
UNARY = [
    "/foretell.v1.Forecaster/Forecast",
    "/foretell.v1.Models/List",
    "/foretell.v1.Models/Describe",
    "/grpc.health.v1.Health/Check",
]


def assert_own_words(error):
    """Python's own text tells a caller nothing, and others what the server is made of."""
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "bytes are no message that /" in error.details()
    assert "google" not in error.details()
    assert "class" not in error.details()


@pytest.mark.parametrize("method", UNARY)
@pytest.mark.parametrize("content", MALFORMED)
def test_malformed_bytes_are_an_invalid_argument(serving, make_forecaster, method, content):
    with serving(demand=make_forecaster()) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(method)(content)
        assert_own_words(caught.value)


def test_the_server_goes_on_after_malformed_bytes(serving, make_forecaster, make_request):
    with serving(demand=make_forecaster()) as channel:
        for content in MALFORMED:
            with pytest.raises(grpc.RpcError):
                channel.unary_unary(UNARY[0])(content)
        assert ForecasterStub(channel).Forecast(make_request({"a": [1, 2]})).horizon == 3


def test_a_stream_tells_which_request_is_malformed(serving, make_forecaster, make_request):
    """The answers before it stand, and the caller has to know where to go on."""
    good = make_request({"a": [1, 2]}).SerializeToString()
    with serving(demand=make_forecaster()) as channel:
        call = channel.stream_stream("/foretell.v1.Forecaster/ForecastStream")
        answers = call(iter([good, MALFORMED[0], good]))
        assert ForecastResponse.FromString(next(answers)).horizon == 3
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
    assert_own_words(caught.value)
    assert caught.value.details().startswith("request 2 of the stream:")


def test_streams_of_the_libraries_use_our_words_too(serving, make_forecaster):
    with serving(demand=make_forecaster()) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        reflect = channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        )
        for answers in (watch(MALFORMED[0]), reflect(iter([MALFORMED[0]]))):
            with pytest.raises(grpc.RpcError) as caught:
                next(answers)
            assert_own_words(caught.value)


def test_health_is_still_watched(serving, make_forecaster):
    """Its stream is written by the library, in a way of its own."""
    with serving(demand=make_forecaster()) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service=SERVICES[0])
        )
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()
