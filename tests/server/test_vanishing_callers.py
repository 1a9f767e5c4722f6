"""Callers that take no answer, and go: the server goes on, for everybody else, and to its end."""

import logging
import runpy
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import ListModelsRequest, UnloadModelRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.server.calls.call import Call
from foretell.server.errors import told_status
from foretell.server.telemetry.call_notes import CallNotes, begin_notes
from foretell.server.telemetry.logs import log_to_stderr

FOLDER = Path(__file__).parent
ClosedWindow = runpy.run_path(str(FOLDER / "closed_window.py"))["ClosedWindow"]
PROCESSES = runpy.run_path(str(FOLDER / "server_process.py"))
ServerProcess, SERVING, NOT_SERVING = (
    PROCESSES[name] for name in ("ServerProcess", "SERVING", "NOT_SERVING")
)
wait_for_health, watch_health = PROCESSES["wait_for_health"], PROCESSES["watch_health"]
WATCH = "/grpc.health.v1.Health/Watch"
LIST = "/foretell.v1.Models/List"
MANY = 20


@pytest.fixture
def process(tmp_path):
    (tmp_path / "demand" / "1").mkdir(parents=True)
    with ServerProcess(tmp_path, control={"mode": "explicit"}) as server:
        server.wait_until_it_listens()
        yield server


def watch(name=""):
    return WATCH, health_pb2.HealthCheckRequest(service=name)


def check(channel, name=""):
    request = health_pb2.HealthCheckRequest(service=name)
    return health_pb2_grpc.HealthStub(channel).Check(request, timeout=60).status


@pytest.mark.parametrize("call", [watch(), watch("demand"), (LIST, ListModelsRequest())])
def test_callers_that_vanish_while_gRPC_writes_leave_the_server_alive(process, make_request, call):
    """gRPC may have destroyed a call before it tells of its end: a look at it ended the process."""
    for _ in range(5):
        waiting = ClosedWindow(process.address)
        for _ in range(MANY):
            waiting.call(*call)
        waiting.wait_for_answers()
        waiting.vanish()
    if call[0] == WATCH:
        process.wait_for(rf"{WATCH} code=CANCELLED .*peer=ipv4:127\.0\.0\.1:", count=5 * MANY)
    with grpc.insecure_channel(process.address) as channel:
        request = make_request({"a": [1, 2]}, model="demand")
        assert ForecasterStub(channel).Forecast(request, timeout=60).horizon == 3
        assert check(channel) == SERVING
    process.signal()
    assert process.end() == 0
    assert "INTERNAL" not in process.log
    assert "Traceback" not in process.log


def test_a_watcher_that_takes_nothing_holds_up_no_other(process):
    """Nor the server's end: it waits for no watcher."""
    with ClosedWindow(process.address) as stuck, grpc.insecure_channel(process.address) as channel:
        for name in ("", "demand"):
            stuck.call(*watch(name))
        stuck.wait_for_answers()
        told = watch_health(channel, "demand")
        assert next(told) == SERVING
        ModelsStub(channel).Unload(UnloadModelRequest(model="demand"), timeout=60)
        assert next(told) == NOT_SERVING
        assert check(channel, "demand") == NOT_SERVING
        wait_for_health(channel, NOT_SERVING)
        process.signal()
        assert process.end() == 0


def test_a_request_that_outlives_its_call_asks_gRPC_for_nothing():
    """Requests of a stream are in work beside the call, and may see its end late."""
    call = Call(SimpleNamespace(time_remaining=lambda: None))
    assert call.caller == ""
    begin_notes(CallNotes("/a.Service/Method", "id", "", 0.0, peer="ipv4:127.0.0.1:1"))
    assert call.caller == "ipv4:127.0.0.1:1"
    assert told_status(RuntimeError("x"), "/a.Service/Method")[0] is grpc.StatusCode.INTERNAL


def test_a_write_to_nobody_is_no_news(monkeypatch, capsys):
    """gRPC logs a traceback of it where it hears of the caller's end a moment too late."""
    root, ours = logging.getLogger(), logging.getLogger("foretell")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(ours, "handlers", [])
    monkeypatch.setattr(ours, "level", ours.level)
    log_to_stderr()
    grpc_log = logging.getLogger("grpc._cython.cygrpc")
    for error in (grpc.aio.InternalError("failed to write"), ValueError("a fault")):
        grpc_log.error("raised by a method", exc_info=error)
    told = capsys.readouterr().err
    assert "ValueError: a fault" in told
    assert "InternalError" not in told
