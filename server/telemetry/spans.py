"""Spans of calls for OpenTelemetry, which the extra [tracing] brings.

What OpenTelemetry's own variables say (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER,
OTEL_EXPORTER_OTLP_HEADERS, ...) holds.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Sequence

import grpc
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from foretell.server.telemetry.call_notes import CallNotes
from foretell.server.telemetry.call_statistics import Method
from foretell.server.telemetry.tracing import Headers, Tracing

_FLUSH_S = 2.0
_NS = 1_000_000_000

# Probes come every few seconds and would bury what is looked for.
_UNTRACED = re.compile(r"grpc\..*|inference\.GRPCInferenceService/(Server|Model)(Live|Ready)")

# What a server's span calls an error; the other codes are the caller's doing.
# Source: OpenTelemetry's semantic conventions for gRPC.
_ERRORS = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}


class Spans(Tracing):
    """Makes a span of each call, a child of the caller's, with the call's phases as its children.

    All spans go through one provider of its own, so that a program around the server keeps its.
    """

    def __init__(
        self, processor: SpanProcessor, give_up: Callable[[], None] = lambda: None
    ) -> None:
        """Make spans.

        Args:
            processor: Where they go.
            give_up: Ends sending that takes too long at the end.
        """
        self._give_up = give_up
        name = os.environ.get("OTEL_SERVICE_NAME", "foretell")
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": name}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("foretell")
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def to_collector(cls, endpoint: str) -> "Spans":
        """Send spans over OTLP, in batches and from a thread of its own.

        Args:
            endpoint: http://HOST:PORT, or https://.
        """
        exporter = OTLPSpanExporter(endpoint)
        return cls(BatchSpanProcessor(exporter), give_up=exporter.shutdown)

    def begin_call(self, method: Method, notes: CallNotes, headers: Headers) -> None:
        """Begin a call's span, if it is none of a probe."""
        name = f"{method.service}/{method.name}"
        if _UNTRACED.fullmatch(name):
            return
        texts = {key: value for key, value in headers.items() if isinstance(value, str)}
        span = self._tracer.start_span(
            name,
            context=self._propagator.extract(texts),
            kind=SpanKind.SERVER,
            attributes={
                "rpc.system": "grpc",
                "rpc.service": method.service,
                "rpc.method": method.name,
                "foretell.request_id": notes.request_id,
            },
        )
        notes.trace_id = f"{span.get_span_context().trace_id:032x}"
        notes.span = span

    def end_call(self, notes: CallNotes, code: grpc.StatusCode) -> None:
        """End a call's span, with all that is known of it by now."""
        begun = notes.span
        if not isinstance(begun, Span):
            return
        begun.set_attribute("rpc.grpc.status_code", code.value[0])
        if notes.model:
            begun.set_attribute("foretell.model", notes.model)
            begun.set_attribute("foretell.version", notes.version)
        if code in _ERRORS:
            begun.set_status(StatusCode.ERROR, code.name)
        since_1970_ns = time.time_ns() - time.monotonic_ns()
        for phase in notes.phases:
            child = self._tracer.start_span(
                phase.name,
                context=set_span_in_context(begun),
                start_time=int(phase.begun_s * _NS) + since_1970_ns,
                attributes=dict(phase.facts),
                links=[Link(one) for one in phase.batches if isinstance(one, SpanContext)],
            )
            child.end(int(phase.ended_s * _NS) + since_1970_ns)
        begun.end()

    def begin_batch(
        self, callers: Sequence[CallNotes], model: str, version: int
    ) -> tuple[object, Callable[[bool], None]] | None:
        """Begin the span of a batch that several followed calls share, with a link to each.

        Lone requests have none: their own phase of computing tells all of it. It is a child of the
        first call, so that it is kept where calls are; the others' phases have links to it.
        """
        spans = [
            one.span for one in callers if isinstance(one.span, Span) and one.span.is_recording()
        ]
        if not spans or len(callers) < 2:  # alone
            return None
        batch = self._tracer.start_span(
            "batch",
            context=set_span_in_context(spans[0]),
            links=[Link(span.get_span_context()) for span in dict.fromkeys(spans)],
            attributes={
                "foretell.model": model,
                "foretell.version": version,
                "foretell.requests": len(callers),
            },
        )

        def end(has_failed: bool) -> None:
            if has_failed:
                batch.set_status(StatusCode.ERROR)
            batch.end()

        return batch.get_span_context(), end

    def stop(self) -> None:
        """Send what is left, as far as the collector takes it within two seconds."""
        # Neither of the library's own timeouts holds while a collector is being looked for.
        rest = threading.Thread(target=self._provider.shutdown, daemon=True)
        rest.start()
        rest.join(_FLUSH_S)
        if rest.is_alive():  # it would try again and again, long after a server in a notebook
            self._give_up()
            rest.join(_FLUSH_S)
