"""Who may call what: every method, with every kind of token, before a payload is looked at."""

import hashlib
import logging
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from foretell.data.errors import OptionError
from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import forecaster_pb2, models_pb2, models_pb2_grpc, translator_pb2
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import DescribeModelRequest, ListModelsRequest
from foretell.protos.v1.translator_pb2 import TranslateRequest, TranslateStreamRequest
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.server.access.authorisation import groups_of
from foretell.server.access.tokens import GROUPS
from foretell.server.application import SERVICES
from foretell.server.errors import TokenFileError
from foretell.server.options import ServerOptions
from foretell.server.security import SecurityOptions

TOKEN = "k3yX-of_the.house~42"
EXPIRED = "0ld-and-gone-since-a-year"
ALL = ",".join(GROUPS)
SERVING = health_pb2.HealthCheckResponse.SERVING


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def line(name, token, groups=ALL, *until):
    return " ".join([name, digest(token), groups, *until]) + "\n"


def bearer(token):
    return (("authorization", f"Bearer {token}"),)


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(
        "# who may ask\n\n"
        + line("good", TOKEN)
        + line("gone", EXPIRED, "inference", "2020-01-01T00:00:00Z")
        + line("asks", "asks-only", "inference")
        + line("reads", "reads-only", "metadata")
        + line("deploys", "deploys-only", "repository")
    )
    return path


@pytest.fixture
def guarded(serving, make_forecaster, make_translator, token_file):
    """A channel to a server that asks for tokens."""
    options = ServerOptions(listen="127.0.0.1:0", security=SecurityOptions(tokens=token_file))
    models = {"demand": make_forecaster(), "ende": make_translator()}
    with serving(options=options, **models) as channel:
        yield channel


def call_list(channel, metadata, _):
    models_pb2_grpc.ModelsStub(channel).List(ListModelsRequest(), metadata=metadata)


def call_describe(channel, metadata, _):
    request = DescribeModelRequest(model="ende")
    models_pb2_grpc.ModelsStub(channel).Describe(request, metadata=metadata)


def call_forecast(channel, metadata, make_request):
    request = make_request({"a": [1, 2]}, model="demand")
    ForecasterStub(channel).Forecast(request, metadata=metadata)


def call_forecast_stream(channel, metadata, make_request):
    request = make_request({"a": [1, 2]}, model="demand")
    list(ForecasterStub(channel).ForecastStream(iter([request]), metadata=metadata))


def call_translate(channel, metadata, _):
    request = TranslateRequest(model="ende", sentences=["one"])
    TranslatorStub(channel).Translate(request, metadata=metadata)


def call_translate_stream(channel, metadata, _):
    request = TranslateStreamRequest(model="ende", sentence="one")
    list(TranslatorStub(channel).TranslateStream(request, metadata=metadata))


def call_reflection(channel, metadata, _):
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    list(stub.ServerReflectionInfo(iter([request]), metadata=metadata))


CALLS = {
    "list": call_list,
    "describe": call_describe,
    "forecast": call_forecast,
    "forecast stream": call_forecast_stream,
    "translate": call_translate,
    "translate stream": call_translate_stream,
    "reflection": call_reflection,
}
BAD = {
    "none": (),
    "empty": (("authorization", ""),),
    "no scheme": (("authorization", TOKEN),),
    "other scheme": (("authorization", f"Basic {TOKEN}"),),
    "no token": (("authorization", "Bearer "),),
    "two": (*bearer(TOKEN), *bearer(TOKEN)),
    "other key": (("x-token", TOKEN),),
    "wrong": bearer("wrong-token-of-nobody"),
    "longer": bearer(TOKEN + "x"),
    "shorter": bearer(TOKEN[:-1]),
    "expired": bearer(EXPIRED),
    "hash": bearer(digest(TOKEN)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_only_a_good_token_is_let_in(guarded, make_request, call):
    for metadata in BAD.values():
        with pytest.raises(grpc.RpcError) as caught:
            call(guarded, metadata, make_request)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, metadata
        assert "token" in caught.value.details().lower()
    call(guarded, bearer(TOKEN), make_request)
    call(guarded, (("authorization", f"bearer  {TOKEN}"),), make_request)


@pytest.mark.parametrize(
    ("token", "allowed"),
    [
        (
            "asks-only",
            {"describe", "forecast", "forecast stream", "translate", "translate stream",
             "reflection"},
        ),
        ("reads-only", {"list", "describe", "reflection"}),
        ("deploys-only", {"list", "reflection"}),
    ],
)  # fmt: skip
def test_a_token_does_what_its_groups_say(guarded, make_request, token, allowed):
    """A token for one thing must not do another; what asks a model may also ask what it takes."""
    for name, call in CALLS.items():
        if name in allowed:
            call(guarded, bearer(token), make_request)
            continue
        with pytest.raises(grpc.RpcError) as caught:
            call(guarded, bearer(token), make_request)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "needs a token of the group" in caught.value.details()
        assert token not in caught.value.details()


def test_health_is_open_to_all(guarded):
    """Those who watch a server have no tokens; and it tells nothing but that it serves."""
    stub = health_pb2_grpc.HealthStub(guarded)
    request = health_pb2.HealthCheckRequest(service="demand")
    for metadata in BAD.values():
        assert stub.Check(request, metadata=metadata).status == SERVING
        watch = stub.Watch(request, metadata=metadata)
        assert next(watch).status == SERVING
        watch.cancel()


def test_health_may_be_closed(serving, make_forecaster, token_file):
    security = SecurityOptions(tokens=token_file, health_needs_token=True)
    options = ServerOptions(listen="127.0.0.1:0", security=security)
    with serving(options=options, demand=make_forecaster()) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest())
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.Watch(health_pb2.HealthCheckRequest()))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        for token in ("asks-only", "reads-only", "deploys-only"):
            request = health_pb2.HealthCheckRequest()
            assert stub.Check(request, metadata=bearer(token)).status == SERVING


def test_nothing_of_a_refused_call_is_decoded(guarded):
    """Bytes that are no message would be an INVALID_ARGUMENT if anybody looked at them."""
    with pytest.raises(grpc.RpcError) as caught:
        guarded.unary_unary("/foretell.v1.Forecaster/Forecast")(b"\xff" * 1000)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(grpc.RpcError) as caught:
        guarded.unary_unary("/foretell.v1.Forecaster/Forecast")(
            b"\xff" * 1000, metadata=bearer(TOKEN)
        )
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_stream_that_sends_nothing_is_refused_as_well(guarded):
    """The check must not wait for a first request, or it holds a place that nobody paid for."""

    over = threading.Event()

    def never():
        over.wait()
        yield b""

    call = guarded.stream_stream("/foretell.v1.Forecaster/ForecastStream")
    with pytest.raises(grpc.RpcError) as caught:
        next(call(never(), timeout=60))
    over.set()
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_an_unknown_method_tells_no_more_than_that(guarded):
    for metadata in (*BAD.values(), bearer(TOKEN)):
        with pytest.raises(grpc.RpcError) as caught:
            guarded.unary_unary("/foretell.v1.Models/Format")(b"", metadata=metadata)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def outcome(call, *arguments):
    """All that a caller gets to see of a refusal."""
    try:
        call(*arguments)
    except grpc.RpcError as error:
        return f"{error} {error.trailing_metadata()}"
    return ""


def test_tokens_and_hashes_stand_in_no_log(guarded, make_request, caplog):
    caplog.set_level(logging.DEBUG)
    secrets = [TOKEN, EXPIRED, "wrong-token-of-nobody", "asks-only", "deploys-only"]
    for token in secrets:
        for call in CALLS.values():
            told = outcome(call, guarded, bearer(token), make_request)
            assert token not in told
            assert digest(token) not in told
    assert "UNAUTHENTICATED" in caplog.text
    for token in secrets:
        assert token not in caplog.text
        assert digest(token) not in caplog.text


def test_a_method_of_ours_has_its_groups_and_any_other_the_strongest():
    """A method that somebody adds is closed until somebody decides; see `authorisation.py`."""
    files = (forecaster_pb2, translator_pb2, models_pb2, inference_pb2)
    found = {
        service.full_name: service
        for file in files
        for service in file.DESCRIPTOR.services_by_name.values()
    }
    assert found.keys() == set(SERVICES)
    for service, descriptor in found.items():
        for method in descriptor.methods:
            groups = groups_of(f"/{service}/{method.name}")
            changes = method.name.removeprefix("RepositoryModel") in {"Load", "Unload"}
            assert (groups == {"repository"}) == changes, method.full_name
    assert groups_of("/foretell.v1.Models/Delete") == {"repository"}
    assert groups_of("/other/Method") == {"repository"}


def test_a_server_without_its_tokens_does_not_start(serving, make_forecaster, tmp_path):
    """Or it would serve everybody, or nobody."""
    security = SecurityOptions(tokens=tmp_path / "missing")
    options = ServerOptions(listen="127.0.0.1:0", security=security)
    with (
        pytest.raises(TokenFileError, match="can't be read"),
        serving(options=options, demand=make_forecaster()),
    ):
        pass


def test_options_that_contradict_are_all_told(tmp_path):
    with pytest.raises(OptionError) as caught:
        SecurityOptions(tls_key=tmp_path, tls_client_ca=tmp_path, health_needs_token=True)
    assert len(caught.value.problems) == 3
    assert caught.value.problems[0] == "tls_key is given without tls_cert; TLS needs both."
    with pytest.raises(OptionError, match="tls_cert is given without tls_key"):
        SecurityOptions(tls_cert=tmp_path)
