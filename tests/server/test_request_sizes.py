"""How large requests may be, by method and all together, and who may send them compressed."""

import asyncio
import runpy
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2

from foretell.data.errors import OptionError
from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.models_pb2 import ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.runtime.queues.work import QueueFullError
from foretell.server.background import serve_in_background
from foretell.server.calls.receiving import _until_over
from foretell.server.calls.request_sizes import RequestSizes
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import MIB, ServerOptions
from foretell.server.security import SecurityOptions, takes_compressed

ClosedWindow = runpy.run_path(str(Path(__file__).with_name("closed_window.py")))["ClosedWindow"]
STREAM = "/foretell.v1.Translator/TranslateStream"


def unknown_field(size_bytes):
    """Bytes that every message takes, in a field that none has."""
    size = bytes([size_bytes & 127 | 128, size_bytes >> 7 & 127 | 128, size_bytes >> 14])
    return b"\xc2\x3e" + size + bytes(size_bytes)


@pytest.mark.parametrize(
    "method",
    [
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/List",
        "/foretell.v1.Models/List",
        "/foretell.v1.Models/Describe",
        "/inference.GRPCInferenceService/ServerLive",
        "/inference.GRPCInferenceService/ModelReady",
        "/inference.GRPCInferenceService/RepositoryIndex",
    ],
)
def test_who_asks_little_sends_little(serving, make_forecaster, method):
    with serving(demand=make_forecaster()) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(method)(unknown_field(200_000))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"the request has 200,005 bytes; {method} takes " in caught.value.details()


def test_streams_that_anybody_keeps_open_take_little(serving, make_forecaster):
    with serving(demand=make_forecaster()) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(unknown_field(20_000))
        stream = channel.unary_stream(STREAM)(unknown_field(2**20))
        for answers in (watch, stream):
            with pytest.raises(grpc.RpcError) as caught:
                next(answers)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_every_method_takes_what_fits_its_limits():
    options = ServerOptions()
    sizes = RequestSizes(options)
    assert sizes.most_bytes("/foretell.v1.Forecaster/Forecast") == options.max_message_bytes
    assert sizes.most_bytes(STREAM) > 2 * 4 * options.max_characters
    assert sizes.most_bytes("/a.Method/OfLater") == 64 * 1024


def is_answered(ask, request):
    try:
        return bool(ask(request).translations)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False


def test_a_caller_who_takes_no_answer_keeps_others_from_no_memory_but_his_own(
    make_translator, monkeypatch
):
    """What all requests in work hold has a bound; when he goes, there is room again."""
    monkeypatch.setattr(ServerOptions, "max_held_bytes", 1500)
    request = wire.TranslateRequest(sentences=["x" * 800])
    repository = Repository([Model("ende", 1, make_translator())])
    with (
        serve_in_background(repository, ServerOptions(listen="127.0.0.1:0")) as address,
        grpc.insecure_channel(address) as channel,
    ):
        ask = TranslatorStub(channel).Translate
        with ClosedWindow(address) as stuck:
            stuck.call(STREAM, wire.TranslateStreamRequest(sentence="x" * 1000))
            stuck.wait_for_answers()
            with pytest.raises(grpc.RpcError) as caught:
                ask(request)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "Exceeds maximum queue size: the requests in work hold" in caught.value.details()
            assert len(ModelsStub(channel).List(ListModelsRequest()).models) == 1
        assert any(is_answered(ask, request) for _ in range(10_000)), "nothing is given back"


def test_one_request_alone_is_always_let_in(monkeypatch):
    monkeypatch.setattr(ServerOptions, "max_held_bytes", 100)
    sizes = RequestSizes(ServerOptions())
    with sizes.held(1000):
        assert sizes.held_bytes == 1000
        with pytest.raises(QueueFullError), sizes.held(1):
            pass
    assert sizes.held_bytes == 0


def test_a_call_that_is_over_is_read_no_more():
    """gRPC may have destroyed it, and who reads then ends the process."""

    async def read():
        over = asyncio.Event()
        call = asyncio.create_task(over.wait())
        taken = []

        async def contents():
            for number in range(3):
                taken.append(number)
                yield b"%d" % number

        requests = _until_over(contents(), call)
        first = await anext(requests)
        over.set()
        await call
        return first, [one async for one in requests], taken

    assert asyncio.run(read()) == (b"0", [], [0])


def test_compressed_requests_are_taken_where_no_stranger_can_send_them(tmp_path):
    """60 KiB unpack to 60 MiB before anyone can look at them, also where a token is missing."""
    default = SecurityOptions()
    assert takes_compressed("127.0.0.1:8001", default)
    assert takes_compressed("unix:/tmp/socket", default)
    assert not takes_compressed("0.0.0.0:8001", default)
    assert not takes_compressed("0.0.0.0:8001", SecurityOptions(tokens=tmp_path))
    pem = dict.fromkeys(("tls_cert", "tls_key", "tls_client_ca"), tmp_path)
    assert takes_compressed("0.0.0.0:8001", SecurityOptions(**pem))
    assert takes_compressed("0.0.0.0:8001", SecurityOptions(compressed_requests="accept"))
    assert not takes_compressed("127.0.0.1:8001", SecurityOptions(compressed_requests="refuse"))
    with pytest.raises(OptionError, match="it must be auto, accept or refuse"):
        SecurityOptions(compressed_requests="yes")


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_server_that_takes_none_says_so_before_it_unpacks(serving, make_translator, compression):
    options = ServerOptions(
        listen="127.0.0.1:0", security=SecurityOptions(compressed_requests="refuse")
    )
    with serving(options=options, ende=make_translator()) as channel:
        ask = TranslatorStub(channel).Translate
        request = wire.TranslateRequest(sentences=["x" * 80_000])
        with pytest.raises(grpc.RpcError) as caught:
            ask(request, compression=compression)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "is disabled" in caught.value.details()
        assert ask(request).translations


def test_the_bounds_follow_the_limits():
    assert ServerOptions().max_held_bytes == 512 * MIB
    assert ServerOptions(max_queue_bytes=2**30).max_held_bytes == 2**31
    assert ServerOptions(max_message_bytes=256 * MIB).max_held_bytes == 2048 * MIB
    assert ServerOptions().max_streams == 512
    assert ServerOptions(max_queue=1).max_streams == 256


def test_health_stays_small():
    longest = health_pb2.HealthCheckRequest(service="x" * 1024)
    sizes = RequestSizes(ServerOptions())
    assert longest.ByteSize() < sizes.most_bytes("/grpc.health.v1.Health/Watch") < 4096
