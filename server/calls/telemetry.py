"""Around every call, outermost: its request id, its counts, its line in the log, its span."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import grpc

from foretell.server.calls.call import LATE_S
from foretell.server.calls.receiving import Continuation, Wrapped, around_handler
from foretell.server.telemetry.call_lines import log_call
from foretell.server.telemetry.call_notes import CallNotes, begin_notes, current_token
from foretell.server.telemetry.call_statistics import UNKNOWN_METHOD, Method
from foretell.server.telemetry.observing import Observer
from foretell.server.telemetry.request_id import HEADER, new_request_id
from foretell.server.telemetry.tracing import Tracing, trace_id_of


class Telemetry(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Tells what becomes of each call, once gRPC has sent all of its answer, or given up.

    So streams count to their last message, and callers that vanish while gRPC writes count too.
    """

    def __init__(self, observer: Observer, tracing: Tracing) -> None:
        self._observer = observer
        self._tracing = tracing
        self._wrapped = Wrapped(self._around)

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler:
        """Wrap the handler of a call; called by gRPC."""
        path: str = handler_call_details.method
        handler = await continuation(handler_call_details)
        if handler is None:  # gRPC itself answers
            self._observer.on_call_started(UNKNOWN_METHOD)
            self._observer.on_call_done(UNKNOWN_METHOD, "UNIMPLEMENTED", 0.0)
            return None
        return self._wrapped(path, handler)

    def _around(self, path: str, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        method = Method.of(
            path,
            request_streaming=handler.request_streaming,
            response_streaming=handler.response_streaming,
        )

        @asynccontextmanager
        async def around(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
            self._begin(path, method, context)
            yield

        return around_handler(handler, around)

    def _begin(self, path: str, method: Method, context: grpc.aio.ServicerContext) -> None:
        headers = dict(context.invocation_metadata() or ())
        # Read now: when the callback runs, gRPC may have destroyed its call, and a look at what is
        # gone ends the process. Codes, details and deadlines are kept beside the call.
        notes = CallNotes(
            method=path,
            peer=context.peer() or "unknown",  # gRPC forgets it where the time is over by now
            request_id=new_request_id(_text(headers, HEADER)),
            trace_id=trace_id_of(_text(headers, "traceparent")),
            started_s=time.monotonic(),
            token=current_token(),
        )
        begin_notes(notes)
        self._observer.on_call_started(method)
        self._tracing.begin_call(method, notes, headers)

        def end(context: grpc.aio.ServicerContext) -> None:
            code = _code_of(context)
            seconds = time.monotonic() - notes.started_s
            self._observer.on_call_done(method, code.name, seconds)
            self._tracing.end_call(notes, code)
            log_call(notes, code, seconds, context.details())
            notes.phases.clear()  # gRPC's call holds itself, and these until the collector comes

        context.add_done_callback(end)


def _code_of(context: grpc.aio.ServicerContext) -> grpc.StatusCode:
    """How a call ended, which gRPC doesn't say where the caller gave up."""
    code = context.code()
    if code is not None:
        return code
    if context.done():
        return grpc.StatusCode.OK
    left_s = context.time_remaining()
    is_late = left_s is not None and left_s <= LATE_S
    return grpc.StatusCode.DEADLINE_EXCEEDED if is_late else grpc.StatusCode.CANCELLED


def _text(headers: Mapping[str, str | bytes], name: str) -> str:
    value = headers.get(name, "")
    return value if isinstance(value, str) else ""
