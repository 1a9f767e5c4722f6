"""A server's numbers as Prometheus reads them: Triton's names, gRPC's usual ones, and our own.

Triton's counters have no `_total` in their names, and dashboards know them so. Labels hold only
names of loaded models and of methods that the server has, else "other"; so no caller can make
their number grow.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from foretell.server.http.model_states import ModelState, ReadStates
from foretell.server.telemetry.call_statistics import MethodStatistics
from foretell.server.telemetry.histograms import Histogram
from foretell.server.telemetry.observing import Observer
from foretell.server.telemetry.statistics import ModelStatistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_MODEL = ("model", "version")
_METHOD = ("grpc_type", "grpc_service", "grpc_method")
_EVERY = 4  # bounds of seconds told: each is twice the one before
_REASONS = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
_TRITON_TOTAL = re.compile(rb"^(# (?:HELP|TYPE) nv_\w+?)_total ", re.MULTILINE)


class Metrics:
    """Writes all of a server's metrics; may be called from any thread."""

    def __init__(self, observer: Observer, read_states: ReadStates) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(_Collector(observer, read_states))

    def write(self) -> bytes:
        """All metrics in Prometheus' text format, version 0.0.4."""
        return _TRITON_TOTAL.sub(rb"\1 ", generate_latest(self._registry))


class _Collector(Collector):
    def __init__(self, observer: Observer, read_states: ReadStates) -> None:
        self._observer = observer
        self._read_states = read_states

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        models = self._observer.statistics.all()
        states = self._read_states()
        yield from _triton(models)
        yield from _own(models, states)
        yield from _grpc(self._observer.calls.all())
        restarts = CounterMetricFamily(
            "foretell_worker_restarts", "Workers that took the place of one that died."
        )
        restarts.add_metric((), self._observer.read_restarts())
        yield restarts


def _triton(models: Sequence[ModelStatistics]) -> Iterator[Metric]:
    us = "added up over requests, in microseconds."
    counters: tuple[tuple[str, str, Callable[[ModelStatistics], int]], ...] = (
        ("request_success", "Requests that got their answer.", lambda m: m.success.count),
        ("count", "Requests computed, in batches or alone.", lambda m: m.inference_count),
        ("exec_count", "Batches computed.", lambda m: m.execution_count),
        ("request_duration_us", f"Admission to answer, {us}", lambda m: m.success.ns // 1000),
        ("queue_duration_us", f"Waiting, {us}", lambda m: m.queue.ns // 1000),
        (
            "compute_input_duration_us",
            f"Reading requests and laying out batches, {us}",
            lambda m: m.compute_input.ns // 1000,
        ),
        ("compute_infer_duration_us", f"Computing, {us}", lambda m: m.compute_infer.ns // 1000),
        (
            "compute_output_duration_us",
            f"Making answers of what was computed, {us}",
            lambda m: m.compute_output.ns // 1000,
        ),
    )
    for name, told, read in counters:
        family = Metric(f"nv_inference_{name}", told, "counter")
        for model in models:
            family.add_sample(family.name, _labels(model), read(model))
        yield family
    failure = Metric("nv_inference_request_failure", "Requests without an answer.", "counter")
    for model in models:
        for reason in _REASONS:
            labels = {**_labels(model), "reason": reason}
            failure.add_sample(failure.name, labels, model.failures.get(reason, 0))
    yield failure
    pending = GaugeMetricFamily(
        "nv_inference_pending_request_count", "Requests that wait.", labels=_MODEL
    )
    for model in models:
        pending.add_metric(tuple(_labels(model).values()), model.waiting)
    yield pending
    loading = GaugeMetricFamily(
        "nv_model_load_duration_secs", "Loading and warming.", labels=_MODEL
    )
    for model in models:
        loading.add_metric(tuple(_labels(model).values()), model.load_s)
    yield loading


def _own(models: Sequence[ModelStatistics], states: Sequence[ModelState]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "foretell_model_state",
        "1 for the state that a version is in, and the provider that computes.",
        labels=(*_MODEL, "state", "provider"),
    )
    for state in states:
        labels = (state.name, str(state.version), state.state, state.provider)
        info.add_metric(labels, 1)
    yield info
    in_work = GaugeMetricFamily(
        "foretell_requests_in_work", "Requests let in and not yet over.", labels=_MODEL
    )
    for model in models:
        in_work.add_metric(tuple(_labels(model).values()), model.in_work)
    yield in_work
    held = GaugeMetricFamily("foretell_queue_bytes", "Bytes of those requests.", labels=_MODEL)
    for model in models:
        held.add_metric(tuple(_labels(model).values()), model.held_bytes)
    yield held
    counters: tuple[tuple[str, str, Callable[[ModelStatistics], int]], ...] = (
        ("tokens", "Tokens that translators wrote.", lambda m: m.tokens),
        ("items", "Items computed, without padding.", lambda m: m.items),
        ("padded_items", "Items computed, with padding.", lambda m: m.padded_items),
    )
    for name, told, read in counters:
        family = CounterMetricFamily(f"foretell_{name}", told, labels=_MODEL)
        for model in models:
            family.add_metric(tuple(_labels(model).values()), read(model))
        yield family
    histograms: tuple[tuple[str, str, int, Callable[[ModelStatistics], Histogram]], ...] = (
        ("request_seconds", "Admission to end.", _EVERY, lambda m: m.request_seconds),
        ("queue_seconds", "Waiting, by request.", _EVERY, lambda m: m.queue_seconds),
        ("compute_seconds", "Computing, by batch.", _EVERY, lambda m: m.compute_seconds),
        ("batch_requests", "Requests of a batch.", 1, lambda m: m.batch_requests),
        ("padding_ratio", "Share of a batch that was padding.", 1, lambda m: m.padding),
    )
    for name, told, every, read_histogram in histograms:
        histogram = HistogramMetricFamily(f"foretell_{name}", told, labels=_MODEL)
        for model in models:
            _add(histogram, tuple(_labels(model).values()), read_histogram(model), every)
        yield histogram


def _grpc(methods: Sequence[MethodStatistics]) -> Iterator[Metric]:
    started = CounterMetricFamily("grpc_server_started", "Calls that came.", labels=_METHOD)
    handled = CounterMetricFamily(
        "grpc_server_handled", "Calls that ended.", labels=(*_METHOD, "grpc_code")
    )
    seconds = HistogramMetricFamily(
        "grpc_server_handling_seconds", "From a call's start to its last message.", labels=_METHOD
    )
    for one in methods:
        labels = (one.method.kind, one.method.service, one.method.name)
        started.add_metric(labels, one.started)
        for code, count in one.handled.items():
            handled.add_metric((*labels, code), count)
        _add(seconds, labels, one.seconds, _EVERY)
    yield from (started, handled, seconds)


def _add(
    family: HistogramMetricFamily, labels: tuple[str, ...], histogram: Histogram, every: int
) -> None:
    buckets = [
        ("+Inf" if bound == float("inf") else f"{bound:.10g}", count)
        for bound, count in histogram.cumulated(every)
    ]
    family.add_metric(labels, buckets=buckets, sum_value=histogram.total)


def _labels(model: ModelStatistics) -> dict[str, str]:
    return {"model": model.name, "version": str(model.version)}
