"""What is too much is refused with the flag that would allow it, before it costs anything."""

import grpc
import numpy as np
import pytest

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import DescribeModelRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2 import (
    ScoreRequest,
    SentencePair,
    TranslateOptions,
    TranslateRequest,
    TranslateStreamRequest,
)
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.server.errors import RequestError
from foretell.server.options import ServerOptions
from foretell.server.services.forecaster_codec import read_request

LIMITS = ServerOptions(
    listen="127.0.0.1:0",
    max_series=3,
    max_steps=5,
    max_horizon=7,
    max_sentences=2,
    max_characters=10,
    max_beam_size=4,
)


@pytest.fixture
def forecaster(make_forecaster):
    return make_forecaster()


@pytest.fixture
def limited(serving, forecaster, make_translator):
    with serving(options=LIMITS, demand=forecaster, ende=make_translator()) as channel:
        yield channel


def refused(method, request):
    with pytest.raises(grpc.RpcError) as caught:
        method(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return caught.value.details()


def test_requests_at_the_limits_are_answered(limited, make_request):
    request = make_request({name: range(5) for name in "abc"}, horizon=7, model="demand")
    answer = ForecasterStub(limited).Forecast(request)
    assert list(answer.positions.values) == [0, 1, 2]
    assert not answer.errors
    options = [TranslateOptions(beam_size=4, prefix="x" * 10)]
    request = TranslateRequest(model="ende", sentences=["x" * 10] * 2, options=options)
    assert not TranslatorStub(limited).Translate(request).errors


def test_a_forecast_above_the_limits_names_the_flags(limited, forecaster, make_request):
    request = make_request({name: [1, 2] for name in "abcd"}, horizon=8, model="demand")
    text = refused(ForecasterStub(limited).Forecast, request)
    assert "history.ids has 4 series; this server takes at most 3 (--max-series)" in text
    assert "horizon is 8; this server takes at most 7 (--max-horizon)" in text
    assert not forecaster.calls


def test_a_long_series_is_refused_alone(limited, make_request):
    request = make_request({"a": range(6), "b": range(5)}, model="demand")
    answer = ForecasterStub(limited).Forecast(request)
    assert list(answer.positions.values) == [1]
    (error,) = answer.errors
    assert error.position == 0
    assert "it has 6 rows; this server takes at most 5 of a series (--max-steps)" in error.reason


def test_a_known_future_that_is_too_long_refuses_its_series(make_request, make_forecaster):
    spec = make_forecaster(future_covariates=("promo",)).manifest.forecaster
    request = make_request(
        {"a": [1, 2]}, horizon=6, covariates={"promo": [0, 0]}, future={"promo": range(6)}
    )
    (refusal,) = read_request(request, spec, LIMITS).future.refusals
    assert "it has 6 rows; this server takes at most 5 of a series (--max-steps)" in refusal.reason


def test_too_many_series_of_the_future_are_told_too(make_request, make_forecaster):
    spec = make_forecaster(future_covariates=("promo",)).manifest.forecaster
    request = make_request(
        {"a": [1, 2]}, horizon=1, covariates={"promo": [0, 0]}, future={"promo": [1]}
    )
    request.future.ids.extend("bcd")
    for name in "efgh":
        request.future.unread.add(unique_id=name, reason="none")
    with pytest.raises(RequestError) as caught:
        read_request(request, spec, LIMITS)
    assert [problem.partition(" has")[0] for problem in caught.value.problems] == [
        "future.ids",
        "future.unread",
    ]


def test_translations_above_the_limits_name_the_flags(limited):
    stub = TranslatorStub(limited)
    many = TranslateRequest(model="ende", sentences=["x"] * 3)
    assert "at most 2 (--max-sentences)" in refused(stub.Translate, many)
    wide = TranslateOptions(beam_size=5)
    request = TranslateRequest(model="ende", sentences=["x"], options=[wide])
    assert "at most 4 (--max-beam-size)" in refused(stub.Translate, request)
    request = TranslateStreamRequest(model="ende", sentence="x", options=wide)
    assert "at most 4 (--max-beam-size)" in refused(
        lambda one: list(stub.TranslateStream(one)), request
    )
    pairs = ScoreRequest(model="ende", pairs=[SentencePair(source="x", target="y")] * 3)
    assert "at most 2 (--max-sentences)" in refused(stub.Score, pairs)
    request = TranslateRequest(model="ende", sentences=["x", "x" * 11])
    (error,) = stub.Translate(request).errors
    assert error.position == 1
    assert "at most 10 (--max-characters)" in error.reason


def test_a_description_tells_the_limits(limited):
    """So that clients cut what they send by them."""
    stub = ModelsStub(limited)
    told = stub.Describe(DescribeModelRequest(model="demand")).forecaster
    assert (told.max_series, told.max_steps, told.max_horizon) == (3, 5, 7)
    told = stub.Describe(DescribeModelRequest(model="ende")).translator
    assert (told.max_sentences, told.max_characters, told.max_beam_size) == (2, 10, 4)


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_message_above_its_limit_is_refused_and_the_connection_lives(
    serving, make_forecaster, make_request, compression
):
    """Also one that is small on the way: 64 MiB of zeros are 64 KiB compressed."""
    options = ServerOptions(listen="127.0.0.1:0", max_message_bytes=100_000)
    with serving(options=options, demand=make_forecaster()) as channel:
        stub = ForecasterStub(channel)
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as caught:
                stub.Forecast(
                    make_request({"a": np.zeros(100_000)}, raw=True), compression=compression
                )
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "larger than max" in caught.value.details()
        good = make_request({"a": np.zeros(1000)}, raw=True)
        assert stub.Forecast(good, compression=compression).horizon == 3


def test_clients_may_ping_every_ten_seconds(serving, make_forecaster, monkeypatch):
    """gRPC by itself hangs up on them after half a minute (too_many_pings), calls or none.

    That takes too long to be waited for here, so this looks at what gRPC is told.
    """
    made = grpc.aio.server
    told = {}

    def make(**arguments):
        told.update(arguments["options"])
        return made(**arguments)

    monkeypatch.setattr(grpc.aio, "server", make)
    with serving(demand=make_forecaster()):
        pass
    assert told["grpc.http2.min_ping_interval_without_data_ms"] <= 10_000
    assert told["grpc.keepalive_permit_without_calls"] == 1
