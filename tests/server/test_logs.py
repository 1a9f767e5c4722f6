"""The log: a line a failed call, one id through all of it, and JSON that machines can read."""

import contextvars
import json
import logging
import random
import re
import runpy
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.client import Client
from foretell.data.errors import BundleError, ForetellError, OptionError
from foretell.protos.inference import inference_pb2
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.server.access.tokens import add_token
from foretell.server.background import serve_in_background
from foretell.server.calls.telemetry import Telemetry, _code_of
from foretell.server.models.repository import ModelControl, Repository
from foretell.server.options import ServerOptions
from foretell.server.security import SecurityOptions
from foretell.server.telemetry.call_lines import _printable
from foretell.server.telemetry.call_notes import CallNotes, begin_notes
from foretell.server.telemetry.call_statistics import Method
from foretell.server.telemetry.logs import CALLS, JsonLines, TextLines, log_to_stderr
from foretell.server.telemetry.observing import Observer
from foretell.server.telemetry.request_id import current_request_id, new_request_id
from foretell.server.telemetry.tracing import Tracing

ServerProcess = runpy.run_path(str(Path(__file__).with_name("server_process.py")))["ServerProcess"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def lines():
    """What the log of the block says, as JSON; awaited as calls end after their answer is sent."""

    class Lines(logging.Handler):
        def __init__(self):
            super().__init__()
            self.found = []
            self.setFormatter(JsonLines())

        def emit(self, record):
            self.found.append(json.loads(self.format(record)))

        def of_calls(self):
            return [line for line in self.found if line["logger"] == CALLS]

    handler = Lines()
    logger = logging.getLogger("foretell")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_every_call_has_a_line_with_all_that_is_known(
    serving, make_forecaster, make_request, lines
):
    with serving(demand=make_forecaster()) as channel:
        stub = ForecasterStub(channel)
        stub.Forecast(make_request({"a": [1, 2]}))
        with pytest.raises(grpc.RpcError):
            stub.Forecast(make_request({"a": [1, 2]}, model="x"))
    good, bad = lines.of_calls()
    assert good["method"] == bad["method"] == "/foretell.v1.Forecaster/Forecast"
    assert (good["code"], bad["code"]) == ("OK", "NOT_FOUND")
    assert (good["level"], bad["level"]) == ("DEBUG", "INFO")
    assert (good["model"], good["version"]) == ("demand", 1)
    assert "model" not in bad  # what the caller wrote is no model's name
    assert "there is no model 'x'" in bad["message"]
    parts = good["read_s"], good["queue_s"], good["compute_s"]
    assert 0 < sum(parts) <= good["seconds"] + 1e-5
    assert good["peer"].startswith("ipv4:127.0.0.1:")
    assert re.fullmatch("[0-9a-f]{16}", good["request_id"])
    assert good["request_id"] != bad["request_id"]


def test_a_fault_has_one_id_for_the_caller_and_in_every_line(
    serving, make_forecaster, make_request, lines
):
    forecaster = make_forecaster(error=RuntimeError("secret"))
    with serving(demand=forecaster) as channel, pytest.raises(grpc.RpcError) as caught:
        ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}))
    told = caught.value.details().rpartition(" ")[2]
    (fault,) = [line for line in lines.found if line["level"] == "ERROR"]
    (call,) = lines.of_calls()
    assert told == fault["request_id"] == call["request_id"]
    assert "RuntimeError: secret" in fault["exception"]
    assert call["code"] == "INTERNAL"
    assert "secret" not in call["message"]


@pytest.fixture
def changing(tmp_path, make_forecaster):
    """Serves models that callers may change; yields where, and the token of one who may."""
    (tmp_path / "models/demand/1").mkdir(parents=True)
    (tmp_path / "models/demand/2/bad").mkdir(parents=True)
    token = add_token(tmp_path / "tokens", "deployer", "repository")

    def load(path):
        if (path / "bad").exists():
            raise BundleError("it is damaged.")
        return make_forecaster()

    @contextmanager
    def serve():
        control = ModelControl(mode="explicit")
        repository = Repository.load(tmp_path / "models", load, control=control)
        security = SecurityOptions(tokens=tmp_path / "tokens")
        options = ServerOptions(listen="127.0.0.1:0", security=security)
        with serve_in_background(repository, options) as address:
            yield address, token

    return serve


def test_who_changes_the_models_is_always_told(changing, lines):
    """A model that is gone in the morning: somebody did it, and his call went well."""
    logging.getLogger("foretell").setLevel(logging.INFO)  # as a server has it
    with changing() as (address, token), grpc.insecure_channel(address) as channel:
        with Client(address, token=token) as client:
            client.load_model("demand", 1)
            for name, version in (("demand", 2), ("demand", 9), ("demnd", 1)):
                with pytest.raises(ForetellError):
                    client.load_model(name, version)
            client.unload_model("demand")
        load = inference_pb2.RepositoryModelLoadRequest(model_name="demand")
        with pytest.raises(grpc.RpcError):
            GRPCInferenceServiceStub(channel).RepositoryModelLoad(
                load, metadata=[("authorization", f"Bearer {token}")]
            )
    told = [
        (line["method"].rpartition("/")[2], line["code"], line.get("model"), line.get("version"))
        for line in lines.of_calls()
    ]
    assert told == [
        ("Load", "OK", "demand", 1),
        ("Load", "FAILED_PRECONDITION", "demand", 2),
        ("Load", "NOT_FOUND", "demand", 9),
        ("Load", "NOT_FOUND", None, None),
        ("Unload", "OK", "demand", 1),
        ("RepositoryModelLoad", "FAILED_PRECONDITION", "demand", None),
    ]
    assert {line["token"] for line in lines.of_calls()} == {"deployer"}
    assert all(line["peer"].startswith("ipv4:") for line in lines.of_calls())


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("order-66.a_B", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("", False)],
)
def test_a_callers_own_id_is_kept_where_it_breaks_no_line(
    serving, make_forecaster, lines, given, is_kept
):
    with serving(demand=make_forecaster()) as channel:
        ModelsStub(channel).List(ListModelsRequest(), metadata=[("x-request-id", given)])
    (line,) = lines.of_calls()
    assert (line["request_id"] == given) is is_kept
    assert is_kept or re.fullmatch("[0-9a-f]{16}", line["request_id"])


@pytest.mark.parametrize(
    ("traceparent", "trace_id"),
    [
        (TRACEPARENT, TRACE),
        (f"cc{TRACEPARENT[2:]}-what-comes-later", TRACE),
        (TRACEPARENT.upper(), None),
        (TRACEPARENT.replace(TRACE, "0" * 32), None),
        ("nonsense", None),
    ],
)
def test_a_callers_trace_stands_in_its_lines(
    serving, make_forecaster, lines, traceparent, trace_id
):
    with serving(demand=make_forecaster()) as channel:
        ModelsStub(channel).List(ListModelsRequest(), metadata=[("traceparent", traceparent)])
    (line,) = lines.of_calls()
    assert line.get("trace_id") == trace_id


@pytest.mark.parametrize("how", ["cancelled", "too late"])
def test_callers_that_leave_are_told_apart(serving, make_forecaster, make_request, lines, how):
    forecaster = make_forecaster(delay_s=1.0)
    with serving(demand=forecaster) as channel:
        grpc.channel_ready_future(channel).result(60)  # the call must get there in its time
        timeout_s = 0.7 if how == "too late" else None
        call = ForecasterStub(channel).Forecast.future(
            make_request({"a": [1, 2]}), timeout=timeout_s
        )
        if how == "cancelled":
            while not forecaster.calls:
                time.sleep(0.01)
            call.cancel()
        call.code()
        ForecasterStub(channel).Forecast(make_request({"b": [1, 2]}))
    (left,) = [line for line in lines.of_calls() if line["code"] != "OK"]
    assert left["code"] == ("CANCELLED" if how == "cancelled" else "DEADLINE_EXCEEDED")


def test_a_call_that_is_over_before_it_begins_says_so_of_its_caller(lines):
    """gRPC has forgotten him; a line without a peer looks as if one had to be looked for."""
    ends = []
    context = SimpleNamespace(
        peer=lambda: "",
        invocation_metadata=tuple,
        add_done_callback=ends.append,
        code=lambda: grpc.StatusCode.DEADLINE_EXCEEDED,
        details=str,
    )
    method = Method("a", "B", "unary")
    run = contextvars.copy_context().run
    run(Telemetry(Observer(), Tracing())._begin, "/a/B", method, context)
    ends[0](context)
    (line,) = lines.of_calls()
    assert line["peer"] == "unknown"


def test_an_unknown_name_that_health_is_asked_for_is_told(serving, make_forecaster, lines):
    """A probe with a typing error says in its line what it asks for."""
    with serving(demand=make_forecaster()) as channel, pytest.raises(grpc.RpcError):
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="demnd"))
    (line,) = lines.of_calls()
    assert line["code"] == "NOT_FOUND"
    assert "health knows no service of this name, 'demnd'" in line["message"]


@pytest.mark.parametrize(
    ("left_s", "code"), [(None, "CANCELLED"), (5.0, "CANCELLED"), (0.01, "DEADLINE_EXCEEDED")]
)
def test_who_cancels_when_his_time_is_over_is_late(left_s, code):
    """Clients do so at their own deadline, and here it is a little later, by the way there."""
    context = SimpleNamespace(code=lambda: None, done=lambda: False, time_remaining=lambda: left_s)
    assert _code_of(context).name == code


def test_a_callers_text_breaks_no_line(serving, make_forecaster, make_request, lines):
    """Whoever can write lines of his own into a log can hide what he did."""
    name = "x\n2026-01-01 INFO all is well\x1b[2J\u2028"
    with serving(demand=make_forecaster()) as channel, pytest.raises(grpc.RpcError):
        ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}, model=name))
    (line,) = lines.of_calls()
    assert line["message"].isprintable()
    assert "all is well" in line["message"]


@pytest.mark.parametrize(
    ("details", "told"),
    [
        ("first\nsecond", "first; second"),
        ("\x1b[2Jgone\x00\u2028é ☃", "\\x1b[2Jgone\\x00; é ☃"),
        (b"bytes \xff", "bytes \ufffd"),
        (None, ""),
    ],
)
def test_a_status_text_is_one_line_that_steers_no_terminal(details, told):
    assert _printable(details) == told


def test_a_process_writes_json_and_nothing_else(tmp_path):
    """What collects logs reads line by line, also what comes before the first call."""
    (tmp_path / "models/demand/1").mkdir(parents=True)
    with ServerProcess(tmp_path / "models", log_format="json", metrics="next") as server:
        server.wait_for("status page and metrics at http://127.0.0.1:")
        server.signal()
        assert server.end() == 0
    lines = [json.loads(line) for line in server.log.splitlines()]
    assert {"time", "level", "logger", "message"} <= set.intersection(*map(set, lines))
    assert any(line["message"].startswith("listening on ") for line in lines)


@pytest.mark.parametrize(
    ("log_format", "log_calls", "problem"),
    [("xml", "all", "log_format is 'xml'"), ("text", "some", "log_calls is 'some'")],
)
def test_unknown_options_are_refused(log_format, log_calls, problem):
    with pytest.raises(OptionError, match=problem):
        log_to_stderr(log_format, log_calls)


def test_a_json_line_is_one_line_whatever_is_in_it():
    def write():
        begin_notes(CallNotes("/a/B", "5f", TRACE, 0.0))
        error = ValueError("several\nlines")
        caught = (ValueError, error, None)
        record = logging.LogRecord("foretell.x", 40, "f", 1, "a\n%s\x00\ud800", ("b",), caught)
        return JsonLines().format(record)

    (text,) = contextvars.copy_context().run(write).splitlines()
    line = json.loads(text)
    assert line["message"] == "a\nb\x00\ud800"
    assert line["time"].endswith("Z")
    assert (line["request_id"], line["trace_id"]) == ("5f", TRACE)
    assert "ValueError: several\nlines" in line["exception"]


@pytest.mark.parametrize("formatter", [TextLines, JsonLines])
def test_of_several_processes_each_line_says_which_wrote_it(formatter):
    record = logging.LogRecord("foretell.x", 40, "f", 1, "two\nlines", (), None)
    lines = formatter()
    assert "worker" not in lines.format(record)
    lines.worker = 3
    (line,) = lines.format(record).splitlines()
    if formatter is TextLines:
        assert line.endswith(" ERROR [worker 3] two; lines")
    else:
        assert json.loads(line)["worker"] == 3


def test_outside_of_calls_an_id_is_made_but_belongs_to_nothing():
    empty = contextvars.Context()
    assert empty.run(current_request_id) != empty.run(current_request_id)
    made = empty.run(new_request_id)
    assert empty.run(current_request_id) == made


def test_ids_and_seeds_of_a_program_know_nothing_of_each_other():
    """A server runs beside a notebook's work, too."""
    ids, numbers = set(), set()
    for _ in range(3):
        random.seed(5)
        ids.add(contextvars.Context().run(new_request_id))
        numbers.add(random.random())
    assert (len(ids), len(numbers)) == (3, 1)


def test_workers_that_are_forked_make_ids_of_their_own():
    forks = """
import os
from foretell.server.telemetry.request_id import new_request_id
for _ in range(3):
    if not os.fork():
        os.write(1, (new_request_id() + " ").encode())
        os._exit(0)
    os.wait()
"""
    told = subprocess.run([sys.executable, "-c", forks], capture_output=True, check=True).stdout
    assert len(set(told.split())) == 3
