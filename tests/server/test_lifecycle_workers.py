"""Several processes on one port: who answers, who dies, and who is left."""

import os
import re
import runpy
import signal
import threading
import time
from functools import partial
from pathlib import Path

import grpc
import pytest

from foretell.data.errors import OptionError
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.server.models.repository import ModelControl
from foretell.server.serve import serve
from foretell.server.workers import Supervisor

PROCESSES = runpy.run_path(str(Path(__file__).with_name("server_process.py")))
ServerProcess, wait_for_health = PROCESSES["ServerProcess"], PROCESSES["wait_for_health"]
NOT_SERVING = PROCESSES["NOT_SERVING"]


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models/demand/1").mkdir(parents=True)
    return tmp_path / "models"


@pytest.fixture
def start(models):
    return partial(ServerProcess, models, workers=2)


@pytest.fixture
def ask(make_request):
    """Asks over a connection of its own, and tells the process that answered."""

    def ask(address):
        # Channels of the same address share a connection unless their options differ.
        with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as to:
            stub = ForecasterStub(to)
            request = make_request({"a": [1, 2]})
            response = stub.Forecast(request, timeout=120, wait_for_ready=True)
        return int(response.provider.removeprefix("pid-"))

    return ask


def workers_of(server):
    return {int(pid) for pid in re.findall(r"worker=\d+ pid=(\d+) answers", server.log)}


def test_connections_are_spread_over_the_workers(start, ask):
    with start() as server:
        address = server.wait_until_it_listens()
        pids = workers_of(server)
        assert len(pids) == 2
        assert server.process.pid not in pids
        answered = set()
        while answered != pids:  # the kernel deals connections out by chance
            answered.add(ask(address))
        server.signal()
        assert server.end() == 0
    assert "Traceback" not in server.log


def test_a_worker_that_is_killed_is_replaced_and_the_other_answers(start, ask):
    with start() as server:
        address = server.wait_until_it_listens()
        victim, survivor = sorted(workers_of(server))
        os.kill(victim, signal.SIGKILL)
        server.wait_for(rf"pid={victim} ended by itself \(signal 9\)")
        assert ask(address) == survivor
        replacement = int(server.wait_for(r"worker=\d pid=(\d+) answers")[1])
        answered = set()
        while answered != {survivor, replacement}:
            answered.add(ask(address))
        server.signal()
        assert server.end() == 0
    assert "replaced so far: 1" in server.log


def test_a_worker_that_stands_still_is_replaced(start, ask):
    """The kernel goes on giving it connections, and nobody ever answers them."""
    with start(max_hang_s=6.0) as server:
        address = server.wait_until_it_listens()
        hung, other = sorted(workers_of(server))
        os.kill(hung, signal.SIGSTOP)
        server.wait_for(rf"pid={hung} has stood still for 6 s \(--max-hang-s\); killed")
        server.wait_for(rf"pid={hung} ended by itself \(signal 9\)")
        replacement = int(server.wait_for(r"worker=\d pid=(\d+) answers")[1])
        answered = set()
        while answered != {other, replacement}:
            answered.add(ask(address))
        server.signal()
        assert server.end() == 0
    assert server.log.count("stood still") == 1


def test_a_pause_of_all_processes_kills_no_worker(start, ask):
    """A machine sleeps, a container is frozen: the clock goes on, and nobody is at fault."""
    with start(max_hang_s=4.0) as server:
        address = server.wait_until_it_listens()
        workers = workers_of(server)
        everybody = [server.process.pid, *workers]
        for process in everybody:
            os.kill(process, signal.SIGSTOP)
        time.sleep(6)  # there is no event in a pause
        for process in everybody:
            os.kill(process, signal.SIGCONT)
        answered = set()
        while answered != workers:
            answered.add(ask(address))
        server.signal()
        assert server.end() == 0
    assert "stood still" not in server.log


def test_a_signal_to_the_supervisor_drains_all_of_them(start, make_request):
    with start(delay_s=3.0) as server:
        address = server.wait_until_it_listens()
        channels = [
            grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
            for _ in range(6)
        ]
        request = make_request({"a": [1, 2]})
        calls = [
            ForecasterStub(channel).Forecast.future(request, timeout=120, wait_for_ready=True)
            for channel in channels
        ]
        server.wait_for("computing", len(calls))
        server.signal()
        assert [list(call.result().forecast.values) for call in calls] == [[2, 2, 2]] * len(calls)
        assert server.end() == 0
        for channel in channels:
            channel.close()


def test_a_signal_to_all_of_them_is_not_a_second_one(start):
    """A terminal and systemd signal every process of a group: nothing may be cut off by that."""
    with start(drain_delay_s=1000.0) as server:
        with grpc.insecure_channel(server.wait_until_it_listens()) as channel:
            for process in (*workers_of(server), server.process.pid):
                os.kill(process, signal.SIGTERM)
            server.wait_for("new requests are answered for 1000 s more", 2)
            wait_for_health(channel, NOT_SERVING)
        server.signal()
        assert server.end() == 0


def test_a_worker_that_hangs_is_killed_when_a_second_signal_says_at_once(start):
    """Else whoever stops the server in a hurry would wait for its grace of a minute."""
    with start() as server:
        server.wait_until_it_listens()
        hung, other = sorted(workers_of(server))
        os.kill(hung, signal.SIGSTOP)
        server.signal()
        server.wait_for(rf"pid={other} ended")
        server.signal()
        server.wait_for(rf"pid={hung} doesn't end; killed")
        assert server.end() == 1


def test_no_worker_outlives_its_supervisor(start):
    """The block ends when all of them have closed their common log."""
    with start() as server:
        server.wait_until_it_listens()
        server.process.kill()


def test_workers_that_can_not_start_are_one_error(start, models):
    (models / "demand/1/bad").touch()
    with start() as server:
        assert server.end() == 1
    assert f"error: no model under {models} can be served." in server.log
    assert "Traceback" not in server.log


def test_workers_are_refused_where_they_can_not_be(models):
    with pytest.raises(OptionError, match="a caller who loads a model reaches one worker only"):
        serve(models, workers=2, model_control=ModelControl(mode="explicit"))
    with pytest.raises(OptionError, match="processes can't share unix:"):
        serve(models, "unix:/tmp/foretell.sock", workers=2)


def test_a_process_with_threads_is_never_forked():
    """gRPC and onnxruntime hang or crash in a child of a process that has used them."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with pytest.raises(OptionError, match="a process with threads can't be forked safely"):
            Supervisor(2, lambda *_: 0, 1.0)
    finally:
        over.set()
        thread.join()
