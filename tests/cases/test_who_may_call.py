"""HD08: every method of every service, with every kind of token, at a server started by hand."""

import contextlib
import csv
import hashlib
import re
import runpy
import shutil
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pandas as pd
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from foretell.client import Client
from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import forecaster_pb2, models_pb2, translator_pb2
from foretell.server.access.tokens import CLOCK_DRIFT_S

CASES = Path(__file__).parent
PROCESSES = runpy.run_path(str(CASES.parent / "server" / "server_process.py"))
TABLE = {
    row["method"]: row for row in csv.DictReader((CASES / "HD08.csv").read_text().splitlines())
}
TOKENS = ("no_token", "malformed_token", "wrong_token", "expired_token", "good_token")
FILES = (forecaster_pb2, translator_pb2, models_pb2, inference_pb2, reflection_pb2)
GARBAGE = b"\xff" * 100  # whoever decodes it says INVALID_ARGUMENT
DAYS = pd.date_range("2024-01-01", periods=40)
SALES = pd.DataFrame({"unique_id": "a", "ds": DAYS, "y": range(40)})
# What stands open to all; see the groups in server/README.md.
OPEN = {
    f"/inference.GRPCInferenceService/{name}"
    for name in ("ServerLive", "ServerReady", "ModelReady")
}


def methods():
    """Every method that the server has, and the row of the table that it belongs to."""
    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                if "Reflection" in service.name:
                    row = "reflection (if served)"
                elif re.search("(Load|Unload)$", method.name):
                    row = "model reload or admin call"
                elif method.client_streaming:
                    row = "client-streaming or two-way call"
                elif method.server_streaming:
                    row = "server-streaming call"
                elif service.name == "Forecaster":
                    row = "unary forecast"
                else:
                    row = "unary translate"
                if path not in OPEN:
                    yield path, row


METHODS = dict(methods())


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture(scope="module")
def guarded(bundle_path, translator_bundle_path, tmp_path_factory):
    """A server that asks for tokens, and metadata with each kind of token."""
    folder = tmp_path_factory.mktemp("guarded")
    shutil.copytree(bundle_path, folder / "models" / "demand" / "1")
    shutil.copytree(translator_bundle_path, folder / "models" / "ende" / "1")
    good, expired, wrong = (f"{name}-token-0123456789abcdefghijkl" for name in ("g", "e", "w"))
    ended = datetime.now(UTC) - timedelta(seconds=CLOCK_DRIFT_S + 1)
    groups = "inference,metadata,repository"
    tokens = folder / "tokens"
    tokens.write_text(
        f"good {digest(good)} {groups}\n"
        f"expired {digest(expired)} {groups} {ended.strftime('%Y-%m-%dT%H:%M:%SZ')}\n"
    )
    flags = ("--tokens", tokens, "--model-control", "explicit", "--log-calls", "all")
    with PROCESSES["CommandProcess"](folder / "models", *flags) as server:
        address = server.wait_until_it_listens()
        http = server.wait_for(r"metrics at http://(\S+)$")[1]
        shown = {
            "no_token": (),
            "malformed_token": (("authorization", good),),
            "wrong_token": (("authorization", f"Bearer {wrong}"),),
            "expired_token": (("authorization", f"Bearer {expired}"),),
            "good_token": (("authorization", f"Bearer {good}"),),
        }
        with grpc.insecure_channel(address) as channel:
            yield channel, shown
            with Client(address, token=good) as client:
                every_call_is_answered(client)
        request = urllib.request.Request(
            f"http://{http}/metrics", headers=dict(shown["good_token"])
        )
        with urllib.request.urlopen(request, timeout=60) as page:
            metrics = page.read().decode()
        server.signal()
        server.signal()
        server.end()
        assert "UNAUTHENTICATED" in server.log
        for token in (good, expired, wrong):
            for secret in (token, digest(token)):
                assert secret not in server.log
                assert secret not in metrics


def every_call_is_answered(client):
    """With the good token, by our own client: each row of the table that says OK."""
    assert len(client.forecast(SALES, 3, model="demand")) == 3
    assert client.translate(["seven"], model="ende")[0].text
    assert list(client.translate_stream("seven", model="ende"))
    assert {model.name for model in client.models()} == {"demand", "ende"}
    assert client.load_model("ende").name == "ende"


def answer(channel, path, metadata):
    """The status that a call of any kind gets: one message is sent, all that comes is read."""
    call = channel.stream_stream(path)(iter([GARBAGE]), metadata=metadata, timeout=60)
    with contextlib.suppress(grpc.RpcError):
        list(call)
    told = f"{call.code()} {call.details()} {call.trailing_metadata()}"
    return call.code(), told


@pytest.mark.parametrize("path", METHODS)
def test_hd08_a_method_is_for_those_with_a_good_token(guarded, path):
    channel, shown = guarded
    row = TABLE[METHODS[path]]
    for kind in TOKENS[:-1]:
        assert row[kind] == "UNAUTHENTICATED"
        code, told = answer(channel, path, shown[kind])
        assert code is grpc.StatusCode.UNAUTHENTICATED, (kind, told)
        for _, value in shown[kind]:
            assert value.removeprefix("Bearer ") not in told
    code, told = answer(channel, path, shown["good_token"])
    assert row["good_token"].startswith("OK")
    assert code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}, told


def test_hd08_health_is_the_same_for_all(guarded):
    channel, shown = guarded
    stub = health_pb2_grpc.HealthStub(channel)
    for kind in TOKENS:
        request = health_pb2.HealthCheckRequest(service="ende")
        status = stub.Check(request, metadata=shown[kind], timeout=60).status
        assert status == health_pb2.HealthCheckResponse.SERVING
        watch = stub.Watch(request, metadata=shown[kind], timeout=60)
        assert next(watch).status == status
        watch.cancel()


def test_hd08_an_unknown_method_is_told_as_one(guarded):
    channel, shown = guarded
    row = TABLE["unknown method"]
    for kind in TOKENS:
        assert "UNIMPLEMENTED" in row[kind] or row[kind] == "same"
        for path in ("/foretell.v1.Models/Drop", "/nobody.Knows/This"):
            assert answer(channel, path, shown[kind])[0] is grpc.StatusCode.UNIMPLEMENTED
