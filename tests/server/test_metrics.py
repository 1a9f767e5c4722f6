"""Metrics as Prometheus reads them: names that dashboards know, true numbers, bounded labels."""

import queue
import re
import runpy
import signal
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.server.http.metrics import Metrics
from foretell.server.telemetry.observing import Observer
from foretell.server.telemetry.peers import Peers

PROCESSES = runpy.run_path(str(Path(__file__).with_name("server_process.py")))
ServerProcess = PROCESSES["ServerProcess"]
OURS = {"model": "demand", "version": "1"}
FORECAST = {
    "grpc_type": "unary",
    "grpc_service": "foretell.v1.Forecaster",
    "grpc_method": "Forecast",
}


class Scrape:
    """What one reading of the metrics says."""

    def __init__(self, text):
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        # This parser, unlike Prometheus, gives every counter the name that OpenMetrics wants.
        self.samples = [
            sample._replace(name=re.sub("^(nv_.*)_total$", r"\1", sample.name))
            for family in self.families
            for sample in family.samples
        ]

    def get(self, name, **labels):
        """The one sample of a name with these labels; 0 where there is none."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) <= 1
        return found[0] if found else 0

    def labels(self, label):
        return {sample.labels[label] for sample in self.samples if label in sample.labels}


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return Scrape(answer.read().decode())


def scrape_until(address, name, value, **labels):
    """Calls count once gRPC has sent their answer, which a caller may have a moment before."""
    end = time.monotonic() + 60
    while (found := scrape(address)).get(name, **labels) < value:
        assert time.monotonic() < end, found.samples
    return found


def test_what_is_counted_is_what_happened(watching, make_forecaster, make_request):
    forecaster = make_forecaster()
    with watching(demand=forecaster) as (channel, address):
        stub = ForecasterStub(channel)
        for _ in range(3):
            stub.Forecast(make_request({"a": [1, 2]}))
        with pytest.raises(grpc.RpcError):
            stub.Forecast(make_request({"a": [1, 2]}, model="x"))
        found = scrape_until(address, "grpc_server_handling_seconds_count", 4, **FORECAST)
    assert found.get("grpc_server_started_total", **FORECAST) == 4
    assert found.get("grpc_server_handled_total", **FORECAST, grpc_code="OK") == 3
    assert found.get("grpc_server_handled_total", **FORECAST, grpc_code="NOT_FOUND") == 1
    assert found.get("nv_inference_request_success", **OURS) == 3
    assert found.get("nv_inference_count", **OURS) == 3
    assert 1 <= found.get("nv_inference_exec_count", **OURS) <= 3
    assert found.get("nv_inference_request_duration_us", **OURS) > 0
    assert found.get("nv_inference_compute_infer_duration_us", **OURS) > 0
    assert found.get("nv_inference_pending_request_count", **OURS) == 0
    assert found.get("foretell_requests_in_work", **OURS) == 0
    assert found.get("foretell_request_seconds_count", **OURS) == 3
    assert found.get("foretell_queue_seconds_count", **OURS) == 3
    provider = {"state": "ready", "provider": "FakeExecutionProvider"}
    assert found.get("foretell_model_state", **OURS, **provider) == 1
    assert found.get("process_resident_memory_bytes") > 0


def test_what_waits_and_what_is_refused_is_told(watching, make_forecaster, make_request):
    """The two numbers that say a server has more to do than it can."""
    go_on = threading.Event()

    class Held(make_forecaster):
        def forecast_rows(self, rows, future, options):
            answer = super().forecast_rows(rows, future, options)
            assert go_on.wait(60)
            return answer

    forecaster = Held()
    with watching(demand=forecaster, options={"instances": 1, "max_queue": 2}) as watched:
        channel, address = watched
        stub = ForecasterStub(channel)
        calls = [stub.Forecast.future(make_request({"a": [1, 2]}))]
        while not forecaster.calls:
            time.sleep(0.01)
        calls += [stub.Forecast.future(make_request({"a": [1, 2]})) for _ in range(4)]
        refused = "nv_inference_request_failure"
        scrape_until(address, refused, 2, **OURS, reason="REJECTED")
        found = scrape(address)
        go_on.set()
        for call in calls:
            call.code()
        after = scrape_until(address, "nv_inference_request_success", 3, **OURS)
    assert found.get("nv_inference_pending_request_count", **OURS) == 2
    assert found.get("foretell_requests_in_work", **OURS) == 3
    size_bytes = make_request({"a": [1, 2]}).ByteSize()
    assert found.get("foretell_queue_bytes", **OURS) == 3 * size_bytes
    assert after.get("foretell_queue_bytes", **OURS) == 0
    assert after.get("nv_inference_pending_request_count", **OURS) == 0
    assert after.get(refused, **OURS, reason="REJECTED") == 2


def test_waiting_is_counted_of_the_same_requests_as_their_whole_time(
    watching, make_forecaster, make_request
):
    """The time of a request that failed counted as waiting alone, which was the longer one then."""

    def fail():
        raise RuntimeError("secret")

    class Failing(make_forecaster):
        def plan_forecast(self, rows, future, options, *, on_step=None):
            plan = super().plan_forecast(rows, future, options)
            return replace(plan, answer=fail) if len(rows.ids) > 1 else plan

    with watching(demand=Failing(delay_s=0.2), options={"instances": 1}) as (channel, address):
        stub = ForecasterStub(channel)
        good = make_request({"a": [1, 2]})
        bad = make_request({"a": [1, 2], "b": [1, 2]})
        calls = [stub.Forecast.future(request) for request in (good, bad, bad, bad)]
        assert [call.code().name for call in calls] == ["OK", *["INTERNAL"] * 3]
        found = scrape_until(address, "nv_inference_request_failure", 3, **OURS, reason="BACKEND")
    whole = found.get("nv_inference_request_duration_us", **OURS)
    assert found.get("nv_inference_queue_duration_us", **OURS) < whole
    assert found.get("foretell_queue_seconds_sum", **OURS) * 1e6 > whole, (
        "all of them waited longer"
    )


def test_a_stream_counts_when_its_last_message_is_sent(watching, make_forecaster, make_request):
    """A time that ends with the first answer tells nothing of a stream that stalls."""
    stream = {**FORECAST, "grpc_type": "bidi_stream", "grpc_method": "ForecastStream"}
    with watching(demand=make_forecaster()) as (channel, address):
        more = queue.SimpleQueue()
        answers = ForecasterStub(channel).ForecastStream(iter(more.get, None))
        for _ in range(2):
            more.put(make_request({"a": [1, 2]}))
            next(answers)
        found = scrape(address)
        assert found.get("grpc_server_started_total", **stream) == 1
        assert found.get("grpc_server_handling_seconds_count", **stream) == 0
        assert found.get("nv_inference_request_success", **OURS) >= 1
        more.put(None)
        assert not list(answers)
        found = scrape_until(address, "grpc_server_handling_seconds_count", 1, **stream)
    assert found.get("grpc_server_handled_total", **stream, grpc_code="OK") == 1
    assert found.get("nv_inference_request_success", **OURS) == 2


def test_the_names_that_dashboards_of_triton_know_are_there(watching, make_forecaster):
    """Written out as Triton documents them; its counters have no `_total`."""
    with watching(demand=make_forecaster()) as (_, address):
        found = scrape(address)
    kinds = {family.name: family.type for family in found.families}
    for name in (
        "nv_inference_request_success",
        "nv_inference_request_failure",
        "nv_inference_count",
        "nv_inference_exec_count",
        "nv_inference_request_duration_us",
        "nv_inference_queue_duration_us",
        "nv_inference_compute_infer_duration_us",
    ):
        assert kinds[name] == "counter"
        assert f'\n{name}{{model="demand",' in found.text
    assert not re.search(r"nv_\w+_total", found.text)
    assert kinds["nv_inference_pending_request_count"] == "gauge"
    assert kinds["nv_model_load_duration_secs"] == "gauge"
    reasons = {
        sample.labels["reason"]
        for sample in found.samples
        if sample.name == "nv_inference_request_failure"
    }
    assert reasons == {"REJECTED", "CANCELED", "BACKEND", "OTHER"}


def test_callers_can_not_make_labels(watching, make_forecaster, make_request):
    """Metrics of a name that a caller invents fill the memory of those who collect them."""
    with watching(demand=make_forecaster()) as (channel, address):
        for name in ("x" * 100, "demand\n", "../demand", "ä"):
            with pytest.raises(grpc.RpcError):
                ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}, model=name))
            with pytest.raises(grpc.RpcError):
                channel.unary_unary(f"/foretell.v1.Forecaster/{name.encode().hex()}")(b"")
        found = scrape_until(
            address, "grpc_server_handled_total", 4, grpc_service="other", grpc_method="other"
        )
    assert found.labels("model") == {"demand"}
    assert found.labels("grpc_method") == {"Forecast", "other"}
    assert found.labels("grpc_service") == {"foretell.v1.Forecaster", "other"}


def test_buckets_never_fall_and_end_with_all():
    observer = Observer()
    observer.on_loaded("demand", 1, 0.1)
    for seconds in (1e-5, 0.0001, 0.003, 0.2, 50, 1000):
        observer.on_admitted("demand", 1)
        observer.on_done("demand", 1, "ok", seconds)
    found = Scrape(Metrics(observer, list).write().decode())
    buckets = [
        (float(sample.labels["le"]), sample.value)
        for sample in found.samples
        if sample.name == "foretell_request_seconds_bucket"
    ]
    assert buckets == sorted(buckets)
    assert [count for _, count in buckets] == sorted(count for _, count in buckets)
    assert dict(buckets)[0.0001] == 2
    assert dict(buckets)[104.8576] == 5
    assert buckets[-1] == (float("inf"), 6)
    assert found.get("foretell_request_seconds_count") == 6


def count_one(observer, outcome="ok"):
    observer.on_admitted("demand", 1)
    observer.on_batch("demand", 1, 1, 10, 20, [0.1], 0.2)
    observer.on_done("demand", 1, outcome, 0.3)


@pytest.fixture
def make_worker(tmp_path):
    """The counts of a worker of this number, which may have had others before it."""

    def make(number):
        observer = Observer()
        observer.on_loaded("demand", 1, 1.0)
        return observer, Peers(tmp_path, number, observer)

    return make


def test_each_of_several_workers_tells_what_all_did(make_worker):
    """Whichever is asked: the numbers of one of them alone would jump from scrape to scrape."""
    (first, first_peers), (second, second_peers) = make_worker(0), make_worker(1)
    count_one(first)
    count_one(second)
    count_one(second, "error")
    for peers in (first_peers, second_peers):
        peers.tell()
    for observer in (first, second):
        told = observer.statistics.of("demand", 1)
        assert told == observer.statistics.all()[0]
        assert (told.success.count, told.fail.count, told.execution_count) == (2, 1, 3)
        assert told.batches[1].infer.count == 3
        assert told.failures == {"BACKEND": 1}
        assert told.request_seconds.count == 3
        assert told.load_s == 1.0


def test_no_count_falls_when_a_worker_dies_and_is_replaced(make_worker, monkeypatch):
    """Prometheus takes a fall for a restart, and counts all of it again."""
    (first, _), (second, second_peers) = make_worker(0), make_worker(1)
    count_one(second)
    second.on_admitted("demand", 1)  # dies with it
    second_peers.tell()
    assert first.statistics.of("demand", 1).in_work == 1
    monkeypatch.setattr("foretell.server.telemetry.peers._is_alive", lambda process: False)
    dead = first.statistics.of("demand", 1)
    assert (dead.success.count, dead.in_work) == (1, 0)
    third, third_peers = make_worker(1)
    count_one(third)
    third_peers.tell()
    monkeypatch.undo()
    for observer in (first, third):
        told = observer.statistics.of("demand", 1)
        assert (told.success.count, told.in_work) == (2, 0)
        assert observer.read_restarts() == 1


def test_a_worker_that_ended_as_it_should_is_no_restart(make_worker):
    """Somebody drained it: an alert on workers that die must not wake anybody for that."""
    (first, _), (second, second_peers) = make_worker(0), make_worker(1)
    count_one(second)
    second.on_admitted("demand", 1)
    second_peers.tell(is_over=True)
    second_peers.tell()  # a thread was late
    third, third_peers = make_worker(1)
    third_peers.tell()
    for observer in (first, third):
        told = observer.statistics.of("demand", 1)
        assert (told.success.count, told.in_work) == (1, 0)
        assert observer.read_restarts() == 0


def test_a_file_that_is_no_account_is_passed_over(make_worker, tmp_path):
    (tmp_path / "7.counts").write_bytes(b"")
    observer, peers = make_worker(0)
    count_one(observer)
    peers.tell()
    assert observer.statistics.of("demand", 1).success.count == 1


def test_several_processes_have_one_port_and_one_account(tmp_path, make_request):
    (tmp_path / "models/demand/1").mkdir(parents=True)
    with ServerProcess(tmp_path / "models", workers=2, metrics="next") as server:
        status = {server.wait_for(r"status page and metrics at http://(\S+)$")[1] for _ in range(2)}
        server.wait_until_it_listens()
        (address,) = status
        for _ in range(12):  # each call by a connection of its own, so both workers get some
            options = [("grpc.use_local_subchannel_pool", 1)]
            with grpc.insecure_channel(server.address, options=options) as channel:
                ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}), timeout=60)
        for _ in range(6):  # by whichever worker has the connection
            scrape_until(address, "nv_inference_request_success", 12, **OURS)
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    assert re.search("Traceback|Warning", server.log) is None
