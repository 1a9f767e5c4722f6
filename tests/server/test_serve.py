"""A server process from start to end: how it starts, how it refuses to, how it stops."""

import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

# Serves a fake model through the real `serve`, as the command line does.
PROGRAM = """
import runpy, sys
import foretell.server.serve as module
from foretell.data.errors import ForetellError
fake, models, listen, delay_s, grace_s = sys.argv[1:]
Fake = runpy.run_path(fake)["FakeForecaster"]
module.load_warm = lambda path, device, threads: Fake(delay_s=float(delay_s))
try:
    module.serve(models, listen, instances=4, drain_delay_s=0, grace_s=float(grace_s))
except ForetellError as error:
    sys.exit(f"error: {error}")
"""


class Server:
    """A running server process; `address` once it listens, `log` so far."""

    def __init__(self, process):
        self.process = process
        self.log = ""
        self.address = None
        while self.address is None:
            line = process.stderr.readline()
            self.log += line
            assert line, self.log
            if match := re.search(r"listening on (\S+)", line):
                self.address = match[1]

    def end(self, timeout_s=20):
        """Wait for the process; its exit code."""
        self.log += self.process.communicate(timeout=timeout_s)[1]
        return self.process.returncode


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models/demand/1").mkdir(parents=True)
    return tmp_path / "models"


@pytest.fixture
def start(models):
    @contextmanager
    def start(delay_s=0.0, grace_s=10.0, listen="127.0.0.1:0"):
        fake = Path(__file__).with_name("fake_forecaster.py")
        command = [sys.executable, "-c", PROGRAM, fake, models, listen, delay_s, grace_s]
        with subprocess.Popen(
            [str(part) for part in command], stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    return start


class Calls:
    """Calls under way, each in a thread of its own."""

    def __init__(self, address, request, count):
        self.outcomes = [None] * count
        self.channel = grpc.insecure_channel(address)
        self.stub = ForecasterStub(self.channel)
        self.threads = [
            threading.Thread(target=self._call, args=(i, request)) for i in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def _call(self, at, request):
        try:
            self.outcomes[at] = self.stub.Forecast(request, timeout=30)
        except grpc.RpcError as error:
            self.outcomes[at] = error

    def join(self):
        for thread in self.threads:
            thread.join()
        self.channel.close()
        return self.outcomes


def health(address, service=""):
    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        return health_pb2_grpc.HealthStub(channel).Check(request, timeout=5).status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_calls_in_work_finish(start, make_request, number):
    """A rolling restart must lose no request: those in work finish, new ones go elsewhere."""
    request = make_request({"a": [1, 2]})
    with start(delay_s=1.5) as process:
        server = Server(process)
        calls = Calls(server.address, request, 4)
        time.sleep(0.5)
        process.send_signal(number)
        time.sleep(0.3)
        assert health(server.address) == NOT_SERVING
        assert health(server.address, "demand") == NOT_SERVING
        with pytest.raises(grpc.RpcError, match="the server is stopping") as caught:
            calls.stub.Forecast(request, timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        outcomes = calls.join()
        assert server.end() == 0
    assert [list(outcome.forecast.values) for outcome in outcomes] == [[2, 2, 2]] * 4
    assert "Traceback" not in server.log
    assert "stopped" in server.log


def test_a_health_watcher_hears_the_news_and_holds_nothing_up(start):
    with start() as process:
        server = Server(process)
        with grpc.insecure_channel(server.address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            process.send_signal(signal.SIGTERM)
            assert next(watch).status == NOT_SERVING
            assert server.end(timeout_s=5) == 0


def test_what_nobody_waits_for_holds_nothing_up(start, make_request):
    with start(delay_s=20) as process:
        server = Server(process)
        with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError):
            ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}), timeout=0.5)
        process.send_signal(signal.SIGTERM)
        assert server.end(timeout_s=8) == 0
    assert "nobody waits for what is still being computed" in server.log


@pytest.mark.parametrize("how", ["second signal", "grace over"])
def test_who_can_not_wait_cuts_the_rest_off(start, make_request, how):
    grace_s = 0.5 if how == "grace over" else 30.0
    with start(delay_s=20, grace_s=grace_s) as process:
        server = Server(process)
        calls = Calls(server.address, make_request({"a": [1, 2]}), 2)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        if how == "second signal":
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
        outcomes = calls.join()
        assert server.end(timeout_s=5) == 1
    for outcome in outcomes:
        assert outcome.code() is grpc.StatusCode.UNAVAILABLE
        assert "the server stopped before this call was done" in outcome.details()
    assert "some requests were cut off" in server.log


def test_a_second_server_on_a_port_is_refused_and_hurts_nobody(start, make_request):
    with start() as first:
        server = Server(first)
        with start(listen=server.address) as second:
            log = second.communicate(timeout=20)[1]
            assert second.returncode == 1
        port = server.address.rpartition(":")[2]
        assert f":{port}: the port is in use" in log
        assert "Traceback" not in log
        with grpc.insecure_channel(server.address) as channel:
            stub = ForecasterStub(channel)
            for _ in range(20):
                assert stub.Forecast(make_request({"a": [1, 2]})).model == "demand"


def test_nothing_to_serve_is_one_clear_error(start, models):
    (models / "demand/1").rmdir()
    with start() as process:
        log = process.communicate(timeout=20)[1]
        assert process.returncode == 1
    assert log == f"error: {models} holds no models; expected models/NAME/VERSION in it.\n"


def test_the_log_names_models_and_providers(start):
    with start() as process:
        server = Server(process)
        process.send_signal(signal.SIGTERM)
        assert server.end() == 0
    assert "model=demand version=1 provider=FakeExecutionProvider" in server.log
