"""A wall clock that jumps: deadlines, the queue, polling, leases and draining don't care.

The server's process alone sees it jump, by a small library that is put before the system's own; the
machine's clock stays as it is.
"""

import runpy
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import grpc
import numpy as np
import pytest

from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub

FOLDER = Path(__file__).parent
CLOCK = FOLDER.parent / "benchmarks" / "jumping_clock.c"
ServerProcess = runpy.run_path(str(FOLDER / "server_process.py"))["ServerProcess"]
ask = runpy.run_path(str(FOLDER / "inference_requests.py"))["ask"]

HOUR_NS = 3600 * 10**9
SHOW = "import time; print(time.time_ns(), time.monotonic_ns())"


@pytest.fixture
def jump(tmp_path, monkeypatch):
    """Moves the wall clock of processes that are started from now on, by so many hours in all."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("it takes a C compiler, and Linux")
    library, clock = tmp_path / "jumping_clock.so", tmp_path / "clock"
    command = [compiler, "-shared", "-fPIC", "-o", library, CLOCK, "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"the library can't be compiled here: {made.stderr}")
    clock.write_bytes(bytes(8))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("JUMPING_CLOCK", str(clock))

    def jump(hours):
        with clock.open("r+b") as file:
            file.write((hours * HOUR_NS).to_bytes(8, "little", signed=True))

    return jump


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models/demand/1").mkdir(parents=True)
    return tmp_path / "models"


def waiting(address):
    """Requests that wait, and those let in."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=120) as page:
        lines = page.read().decode().splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith("nv_inference_pending_request_count{")
    )


def forecast(stub, timeout_s):
    """A call under way, with a timeout that the server alone has to see to."""
    request = ask(
        "demand",
        context=np.array([[1.0, 2.0]]),
        parameters={"timeout": int(timeout_s * 1e6), "horizon": 3},
    )
    return stub.ModelInfer.future(request, timeout=300)


def test_the_clock_that_a_server_sees_can_jump(jump):
    """Else all tests below would hold for nothing."""
    jump(5)
    shown = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, check=True).stdout
    wall, monotonic = map(int, shown.split())
    assert abs(wall - time.time_ns() - 5 * HOUR_NS) < HOUR_NS
    assert monotonic < time.monotonic_ns()


def test_deadlines_do_not_follow_the_wall_clock(jump, models):
    """Backwards, nothing would end in time; forwards, everything at once."""
    with ServerProcess(models, delay_s=2.0, instances=1, metrics="127.0.0.1:0") as server:
        address = server.wait_until_it_listens()
        status = server.wait_for(r"metrics at http://(\S+)")[1]
        with grpc.insecure_channel(address) as channel:
            stub = GRPCInferenceServiceStub(channel)
            running = forecast(stub, 200)
            server.wait_for("computing")
            patient, hasty = forecast(stub, 200), forecast(stub, 0.5)
            while waiting(status) < 2 and not hasty.done():
                time.sleep(0.01)
            jump(-6)
            assert hasty.exception().code() is grpc.StatusCode.DEADLINE_EXCEEDED
            jump(+6)
            for call in (running, patient):
                assert call.result().model_version == "1"


def test_versions_come_and_go_and_servers_stop_whatever_the_clock_shows(jump, models):
    """The folder is looked at as ever, what is in work is finished, and the delay ends."""
    control = {"mode": "poll", "poll_s": 0.05}
    with (
        ServerProcess(models, delay_s=1.0, control=control, drain_delay_s=1.0) as server,
        grpc.insecure_channel(server.wait_until_it_listens()) as channel,
    ):
        stub = GRPCInferenceServiceStub(channel)
        jump(-6)
        (models / "demand/2").mkdir()
        asked = 1
        while forecast(stub, 200).result().model_version != "2":
            asked += 1
        server.wait_for("computing", asked)
        jump(+6)
        running = forecast(stub, 200)
        server.wait_for("computing")
        server.signal()
        server.wait_for("new requests are answered for 1 s more")
        jump(-6)
        assert running.result().model_version == "2"
        assert server.end() == 0
    assert "cut off" not in server.log
