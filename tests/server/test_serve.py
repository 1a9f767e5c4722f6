"""A server process from start to end: how it starts, how it refuses to, how it stops."""

import runpy
import signal
import threading
from functools import partial
from pathlib import Path

import grpc
import pytest

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.server.services.model_health import LIVENESS

PROCESSES = runpy.run_path(str(Path(__file__).with_name("server_process.py")))
ServerProcess = PROCESSES["ServerProcess"]
NOT_SERVING, SERVING = PROCESSES["NOT_SERVING"], PROCESSES["SERVING"]
wait_for_health, watch_health = PROCESSES["wait_for_health"], PROCESSES["watch_health"]


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models/demand/1").mkdir(parents=True)
    return tmp_path / "models"


@pytest.fixture
def start(models):
    return partial(ServerProcess, models)


class Calls:
    """Calls under way, each in a thread of its own."""

    def __init__(self, channel, request, count):
        self.outcomes = [None] * count
        self.stub = ForecasterStub(channel)
        self.threads = [
            threading.Thread(target=self._call, args=(i, request)) for i in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def _call(self, at, request):
        try:
            self.outcomes[at] = self.stub.Forecast(request, timeout=120, wait_for_ready=True)
        except grpc.RpcError as error:
            self.outcomes[at] = error

    def join(self):
        for thread in self.threads:
            thread.join()
        return self.outcomes


@pytest.fixture
def request_of_a(make_request):
    return make_request({"a": [1, 2]})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_calls_in_work_finish(start, request_of_a, number):
    """A rolling restart must lose no request: those in work finish, new ones go elsewhere."""
    with start(delay_s=3.0) as server, grpc.insecure_channel(server.wait_until_it_listens()) as to:
        calls = Calls(to, request_of_a, 4)
        server.wait_for("computing", 4)
        server.signal(number)
        wait_for_health(to, NOT_SERVING)
        wait_for_health(to, NOT_SERVING, "demand")
        assert next(watch_health(to, LIVENESS)) == SERVING, "or whoever restarts it cuts calls off"
        with pytest.raises(grpc.RpcError, match="the server is stopping") as caught:
            calls.stub.Forecast(request_of_a, timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        outcomes = calls.join()
        assert server.end() == 0
    assert [list(outcome.forecast.values) for outcome in outcomes] == [[2, 2, 2]] * 4
    assert "Traceback" not in server.log
    assert "stopped" in server.log


def test_new_calls_are_answered_until_everybody_knows(start, request_of_a):
    """A load balancer sends calls for some seconds more: it hears of the end by health alone."""
    with (
        start(drain_delay_s=100.0) as server,
        grpc.insecure_channel(server.wait_until_it_listens()) as to,
    ):
        server.signal()
        wait_for_health(to, NOT_SERVING)
        assert ForecasterStub(to).Forecast(request_of_a, timeout=60).model == "demand"
        server.signal()  # a second one ends the delay, and nothing is in work
        assert server.end() == 0
    assert "new requests are answered for 100 s more" in server.log


def test_an_interruption_by_hand_has_no_delay(start):
    with start(drain_delay_s=1000.0) as server:
        server.wait_until_it_listens()
        server.signal(signal.SIGINT)
        assert server.end() == 0


def test_a_delay_ends_by_itself(start):
    with start(drain_delay_s=0.5) as server:
        server.wait_until_it_listens()
        server.signal()
        assert server.end() == 0


def test_a_health_watcher_hears_the_news_and_holds_nothing_up(start):
    with start() as server, grpc.insecure_channel(server.wait_until_it_listens()) as channel:
        watch = watch_health(channel)
        assert next(watch) == SERVING
        server.signal()
        assert next(watch) == NOT_SERVING
        assert server.end() == 0


def test_what_nobody_waits_for_holds_nothing_up(start, request_of_a):
    with (
        start(delay_s=1000) as server,
        grpc.insecure_channel(server.wait_until_it_listens()) as channel,
    ):
        call = ForecasterStub(channel).Forecast.future(request_of_a)
        server.wait_for("computing")
        call.cancel()
        server.signal()
        assert server.end() == 0
    assert "nobody waits for what is still being computed" in server.log


@pytest.mark.parametrize("how", ["second signal", "grace over"])
def test_who_can_not_wait_cuts_the_rest_off(start, request_of_a, how):
    grace_s = 0.5 if how == "grace over" else 1000.0
    with (
        start(delay_s=1000, grace_s=grace_s) as server,
        grpc.insecure_channel(server.wait_until_it_listens()) as channel,
    ):
        calls = Calls(channel, request_of_a, 2)
        server.wait_for("computing", 2)
        server.signal()
        if how == "second signal":
            wait_for_health(channel, NOT_SERVING)
            server.signal()
        outcomes = calls.join()
        assert server.end() == 1
    for outcome in outcomes:
        assert outcome.code() is grpc.StatusCode.UNAVAILABLE
        assert "the server stopped before this call was done" in outcome.details()
    assert "some requests were cut off" in server.log


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_server_on_a_port_is_refused_and_hurts_nobody(start, request_of_a, workers):
    with start(workers=workers) as first:
        address = first.wait_until_it_listens()
        for others in (1, 2):
            with start(listen=address, workers=others) as second:
                assert second.end() == 1
            assert f":{address.rpartition(':')[2]}: the port is in use" in second.log
            assert "Traceback" not in second.log
        for _ in range(10):
            with grpc.insecure_channel(address) as channel:
                assert ForecasterStub(channel).Forecast(request_of_a).model == "demand"


def test_nothing_to_serve_is_one_clear_error(start, models):
    (models / "demand/1").rmdir()
    with start() as server:
        assert server.end() == 1
    settings, *told = server.log.splitlines()
    assert " INFO options: " in settings
    assert told == [f"error: {models} holds no models; expected models/NAME/VERSION in it."]


def test_the_log_names_models_and_providers(start):
    with start() as server:
        server.wait_until_it_listens()
        server.signal()
        assert server.end() == 0
    assert f"model=demand version=1 provider=pid-{server.process.pid}" in server.log
