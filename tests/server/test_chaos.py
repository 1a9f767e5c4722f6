"""Real servers under load, and what goes wrong around them: damaged models, callers who vanish."""

import runpy
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import grpc
import pytest

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub

PROCESSES = runpy.run_path(str(Path(__file__).with_name("server_process.py")))
ServerProcess = PROCESSES["ServerProcess"]

OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
# Each has had an answer of its stream, and more is on the way to it, when the process is killed.
VANISHING = """
import sys, threading
import grpc

address, count, content = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])

def requests():
    yield content
    yield content
    threading.Event().wait()

held = []
for _ in range(count):
    channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
    answers = channel.stream_stream("/foretell.v1.Forecaster/ForecastStream")(requests())
    next(answers)
    held.append((channel, answers))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models/demand/1").mkdir(parents=True)
    return tmp_path / "models"


class Callers:
    """Ask over connections of their own, each until its first error or the end of the block."""

    def __init__(self, address, request, count=8):
        self.errors, self.versions = [], []
        self._address, self._request = address, request
        self._is_over = threading.Event()
        self._heard = threading.Condition()
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        self.wait_for_version(1)
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self.join()

    def join(self):
        for thread in self._threads:
            thread.join()

    def wait_for_version(self, version):
        """Wait until a version alone has answered lately."""
        start, most = len(self.versions), 5 * len(self._threads)

        def is_there():
            return self.errors or self.versions[start:][-most:] == [version] * most

        with self._heard:
            assert self._heard.wait_for(is_there, timeout=120)

    def _ask(self):
        with grpc.insecure_channel(self._address, options=OWN_CONNECTION) as channel:
            stub = ForecasterStub(channel)
            while not self._is_over.is_set():
                try:
                    answer = stub.Forecast(self._request, timeout=120)
                except grpc.RpcError as error:
                    with self._heard:
                        self.errors.append((error.code(), error.details()))
                        self._heard.notify_all()
                    return
                with self._heard:
                    assert list(answer.forecast.values) == [2, 2, 2]
                    self.versions.append(answer.version)
                    self._heard.notify_all()


def place(models, version, *files):
    """Let a version appear whole, as a copy that is renamed does."""
    draft = models.parent / f"draft-{version}"
    draft.mkdir()
    for name in files:
        (draft / name).touch()
    draft.rename(models / "demand" / str(version))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_damaged_version_under_load_is_noticed_by_nobody(models, make_request, workers):
    """Each process follows the folder by itself, and finds by itself what is damaged."""
    control = {"mode": "poll", "poll_s": 0.05}
    with ServerProcess(models, workers=workers, control=control) as server:
        address = server.wait_until_it_listens()
        with Callers(address, make_request({"a": [1, 2]})) as callers:
            place(models, 2, "bad")
            reason = r"model=demand version=2 is not served: .*forecaster.onnx is damaged"
            server.wait_for(reason, workers)
            callers.wait_for_version(1)
            assert set(callers.versions) == {1}
            place(models, 3)
            callers.wait_for_version(3)
        assert callers.errors == []
        assert set(callers.versions) == {1, 3}
        server.signal()
        assert server.end() == 0
    assert "Traceback" not in server.log


def test_whoever_asks_while_a_server_stops_is_told_to_ask_another(models, make_request):
    """Not CANCELLED, by which gRPC ends what it has not handed over: no client tries again then."""
    with (
        ServerProcess(models) as server,
        Callers(server.wait_until_it_listens(), make_request({"a": [1, 2]})) as callers,
    ):
        server.signal()
        assert server.end() == 0
        callers.join()
    assert {code for code, _ in callers.errors} == {grpc.StatusCode.UNAVAILABLE}, callers.errors


def in_work(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=120) as page:
        lines = page.read().decode().splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith(("foretell_requests_in_work", "nv_inference_pending_request_count"))
    )


def test_clients_that_vanish_in_mid_stream_leave_nothing(models, make_request):
    """Killed with their connections open: no call stays, and the server can be stopped at once."""
    request = make_request({"a": [1, 2]})
    with ServerProcess(models, metrics="127.0.0.1:0", log_calls="all") as server:
        address = server.wait_until_it_listens()
        status = server.wait_for(r"metrics at http://(\S+)")[1]
        content = request.SerializeToString().hex()
        command = [sys.executable, "-c", VANISHING, address, "20", content]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as clients:
            assert clients.stdout.readline() == "ready\n"
            clients.kill()
        server.wait_for("ForecastStream .*code=", 20)  # none had an end before
        end = time.monotonic() + 60
        while in_work(status) and time.monotonic() < end:
            time.sleep(0.02)
        assert in_work(status) == 0
        with grpc.insecure_channel(address) as channel:
            answer = ForecasterStub(channel).Forecast(request, timeout=120)
            assert list(answer.forecast.values) == [2, 2, 2]
        server.signal()
        assert server.end() == 0
    assert "cut off" not in server.log
    assert "Traceback" not in server.log
