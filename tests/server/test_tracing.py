"""Spans that follow the caller's trace, for those who have OpenTelemetry."""

import logging
import sys
import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.data.errors import OptionError
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.translator_pb2 import TranslateRequest
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.server import background
from foretell.server.application import Application
from foretell.server.options import ServerOptions
from foretell.server.telemetry.call_notes import CallNotes, Phase
from foretell.server.telemetry.call_statistics import Method
from foretell.server.telemetry.tracing import check_trace_endpoint, trace_to

sdk = pytest.importorskip("opentelemetry.sdk.trace.export", reason="needs the extra [tracing]")
pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason="needs the extra [tracing]")

from foretell.server.telemetry.spans import Spans  # noqa: E402

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{PARENT}-01")
UNRECORDED = ("traceparent", f"00-{TRACE}-{PARENT}-00")
WAIT_S = 60.0


class Kept(sdk.SpanExporter):
    """The spans that were sent, and what the traced server counts."""

    def __init__(self):
        self.spans = []
        self.statistics = None

    def export(self, spans):
        self.spans.extend(spans)
        return sdk.SpanExportResult.SUCCESS


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def spans(kept):
    return Spans(sdk.SimpleSpanProcessor(kept))


@pytest.fixture
def traced(serving, spans, kept, monkeypatch):
    """`serving` with spans."""

    def make(repository, options):
        kept.statistics = repository.observer.statistics
        return Application(repository, options, spans)

    monkeypatch.setattr(background, "Application", make)
    return serving


def test_a_calls_span_is_a_child_of_the_callers(traced, kept, make_forecaster, make_request):
    with traced(demand=make_forecaster()) as channel:
        ForecasterStub(channel).Forecast(
            make_request({"a": [1, 2]}), metadata=[TRACEPARENT, ("x-request-id", "mine")]
        )
    span = next(span for span in kept.spans if "/" in span.name)
    assert span.name == "foretell.v1.Forecaster/Forecast"
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT
    assert span.kind.name == "SERVER"
    assert span.attributes["rpc.grpc.status_code"] == 0
    assert span.attributes["foretell.model"] == "demand"
    assert span.attributes["foretell.request_id"] == "mine"
    parts = [one for one in kept.spans if one.parent and one.parent.span_id == span.context.span_id]
    assert [one.name for one in parts] == ["read", "queue", "compute", "write"]
    assert all(span.start_time <= one.start_time <= one.end_time for one in parts)
    assert span.resource.attributes["service.name"] == "foretell"


def test_a_call_without_a_trace_begins_one_that_the_log_names(
    traced, kept, make_forecaster, make_request, caplog
):
    with (
        caplog.at_level(logging.DEBUG, "foretell"),
        traced(demand=make_forecaster()) as channel,
    ):
        ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}))
    span = next(span for span in kept.spans if "/" in span.name)
    assert span.parent is None
    assert f"trace_id={span.context.trace_id:032x}" in caplog.text


def test_a_trace_that_is_not_to_be_recorded_is_not(traced, kept, make_forecaster, make_request):
    """The caller decides for the whole trace; half of one tells nobody anything."""
    with traced(demand=make_forecaster()) as channel:
        ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}), metadata=[UNRECORDED])
    assert not kept.spans


@pytest.mark.parametrize(
    ("error", "code", "is_error"), [(None, 5, False), (RuntimeError("secret"), 13, True)]
)
def test_only_faults_of_the_server_are_errors(
    traced, kept, make_forecaster, make_request, error, code, is_error
):
    """A caller that asks for what isn't there must not wake whoever is on call."""
    model = "demand" if error else "x"
    with (
        traced(demand=make_forecaster(error=error)) as channel,
        pytest.raises(grpc.RpcError),
    ):
        ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}, model=model))
    span = next(span for span in kept.spans if "/" in span.name)
    assert span.attributes["rpc.grpc.status_code"] == code
    assert span.status.is_ok is not is_error
    assert "secret" not in span.to_json()


def test_probes_are_not_traced(traced, kept, make_forecaster):
    with traced(demand=make_forecaster()) as channel:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert not kept.spans


def test_a_shared_batch_and_its_requests_are_linked_both_ways(traced, kept, make_translator):
    """Who looks at one slow request must find those that it was computed with."""
    come, go = threading.Event(), threading.Event()

    def hold():
        come.set()
        assert go.wait(WAIT_S)

    model = make_translator(before_step=hold)
    options = ServerOptions(listen="127.0.0.1:0", instances=1)
    with traced(ende=model, options=options) as channel:
        stub = TranslatorStub(channel)
        calls = [stub.Translate.future(TranslateRequest(sentences=["first"]), timeout=WAIT_S)]
        assert come.wait(WAIT_S)
        calls += [
            stub.Translate.future(
                TranslateRequest(sentences=[text]), timeout=WAIT_S, metadata=metadata
            )
            for text, metadata in (("a", [TRACEPARENT]), ("b", []), ("c", [UNRECORDED]))
        ]
        end = time.monotonic() + WAIT_S
        while kept.statistics.of("ende", 1).waiting < 3:
            assert time.monotonic() < end
            time.sleep(0.005)
        go.set()
        for call in calls:
            call.result()
    (batch,) = [span for span in kept.spans if span.name == "batch"]
    spans = [span for span in kept.spans if span.name.endswith("/Translate")]
    alone = next(span for span in spans if span.context.span_id not in links(batch))
    shared = [span for span in spans if span is not alone]
    assert len(shared) == 2, "nobody follows the call that is not recorded"
    assert links(batch) == {span.context.span_id for span in shared}
    assert batch.parent.span_id in links(batch)
    assert batch.attributes["foretell.requests"] == 3
    assert batch.attributes["foretell.model"] == "ende"
    for span in spans:
        (compute,) = [
            one
            for one in kept.spans
            if one.name == "compute" and one.parent.span_id == span.context.span_id
        ]
        assert links(compute) == (set() if span is alone else {batch.context.span_id})


def links(span):
    return {link.context.span_id for link in span.links}


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_batch_that_fails_says_so(spans, kept, has_failed):
    calls = [CallNotes("/a.B/C", "5f", "", 10.0) for _ in range(2)]
    for notes in calls:
        spans.begin_call(Method("a.B", "C", "unary"), notes, {})
    _, end = spans.begin_batch(calls, "ende", 1)
    end(has_failed)
    (batch,) = kept.spans
    assert batch.status.is_ok is not has_failed


def test_phases_are_children_at_their_own_times(spans, kept):
    notes = CallNotes("/a.B/C", "5f", "", 10.0)
    spans.begin_call(Method("a.B", "C", "unary"), notes, {})
    notes.phases += [Phase("queue", 10.0, 10.25), Phase("compute", 10.25, 11.0, {"requests": 3})]
    spans.end_call(notes, grpc.StatusCode.OK)
    queue, compute, call = kept.spans
    assert (queue.name, compute.name) == ("queue", "compute")
    assert queue.parent.span_id == compute.parent.span_id == call.context.span_id
    assert queue.end_time - queue.start_time == 250_000_000
    assert compute.start_time == queue.end_time
    assert compute.attributes["requests"] == 3


def test_no_endpoint_means_no_spans_and_no_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "foretell.server.telemetry.spans", None)
    notes = CallNotes("", "", "", 0)
    trace_to("").begin_call(Method("a", "B", "unary"), notes, {})
    assert notes.span is None
    assert trace_to("").begin_batch([notes, notes], "demand", 1) is None


@pytest.mark.parametrize("endpoint", ["collector:4317", "http://collector", "ftp://a:1"])
def test_an_endpoint_that_is_none_is_refused(endpoint):
    with pytest.raises(OptionError, match="expected http://HOST:PORT"):
        check_trace_endpoint(endpoint)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "foretell.server.telemetry.spans", None)
    with pytest.raises(OptionError, match=r"pip install 'foretell\[tracing\]'"):
        check_trace_endpoint("http://127.0.0.1:4317")


def test_a_collector_that_is_not_there_holds_nobody_up(make_forecaster):
    """Its spans are lost; the server serves and stops."""
    tracing = trace_to("http://127.0.0.1:9")
    notes = CallNotes("/a.B/C", "5f", "", 0.0)
    tracing.begin_call(Method("a.B", "C", "unary"), notes, {})
    tracing.end_call(notes, grpc.StatusCode.OK)
    tracing.stop()
    senders = [thread for thread in threading.enumerate() if "Otel" in thread.name]
    assert not senders, "it would go on trying"
