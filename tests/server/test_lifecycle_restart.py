"""A rolling restart under load: servers are exchanged one after another, and no request is lost."""

import json
import runpy
import threading
from functools import partial
from pathlib import Path

import grpc
import pytest

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub

PROCESSES = runpy.run_path(str(Path(__file__).with_name("server_process.py")))
ServerProcess = PROCESSES["ServerProcess"]

# What a load balancer does: it asks whoever says SERVING, in turn. Retries would hide a loss.
BALANCED = [
    (
        "grpc.service_config",
        json.dumps(
            {
                "loadBalancingConfig": [{"round_robin": {}}],
                "healthCheckConfig": {"serviceName": "demand"},
            }
        ),
    ),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]


@pytest.fixture
def start(tmp_path):
    (tmp_path / "models/demand/1").mkdir(parents=True)
    # The delay must be longer than it takes until the last caller knows, on a busy machine too.
    return partial(ServerProcess, tmp_path / "models", delay_s=0.05, drain_delay_s=8.0)


class Load:
    """Callers that ask one request after another until they are stopped."""

    def __init__(self, channel, request, callers=4):
        self.stub = ForecasterStub(channel)
        self.request = request
        self.errors, self.answers = [], 0
        self.lately = set()  # who answered since the set was emptied
        self.is_over = threading.Event()
        self.heard = threading.Condition()
        self.threads = [threading.Thread(target=self._ask) for _ in range(callers)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def wait_for(self, process):
        """Wait until a process has answered."""
        with self.heard:
            assert self.heard.wait_for(lambda: process in self.lately, timeout=120)

    def _ask(self):
        while not self.is_over.is_set():
            try:
                answer = self.stub.Forecast(self.request, timeout=120)
            except grpc.RpcError as error:
                self.errors.append(f"{error.code()}: {error.details()}")
                continue
            with self.heard:
                self.answers += 1
                self.lately.add(int(answer.provider.removeprefix("pid-")))
                self.heard.notify_all()


def test_a_rolling_restart_loses_no_request(start, make_request):
    with start() as first, start() as second:
        addresses = [first.wait_until_it_listens(), second.wait_until_it_listens()]
        with grpc.insecure_channel(f"ipv4:{','.join(addresses)}", options=BALANCED) as channel:
            grpc.channel_ready_future(channel).result(timeout=120)
            with Load(channel, make_request({"a": [1, 2]})) as load:
                load.wait_for(first.process.pid)
                load.wait_for(second.process.pid)
                first.signal()
                assert first.end() == 0
                with start(listen=addresses[0]) as third:
                    third.wait_until_it_listens()
                    load.wait_for(third.process.pid)
                    second.signal()
                    assert second.end() == 0
                    load.lately.clear()
                    load.wait_for(third.process.pid)
                    load.stop()
    assert load.errors == []
    assert load.answers > 10
