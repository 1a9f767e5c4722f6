"""The caller's trace goes on in ours, where there is OpenTelemetry and someone to send spans to."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import grpc

from foretell.data.errors import OptionError
from foretell.server.telemetry.call_notes import CallNotes
from foretell.server.telemetry.call_statistics import Method

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")

Headers = Mapping[str, str | bytes]


class Tracing:
    """Hears of calls, and makes no spans of them; `spans.Spans` does."""

    def begin_call(self, method: Method, notes: CallNotes, headers: Headers) -> None:
        """A call came.

        Args:
            method: Which.
            notes: Of the call; their `trace_id` and `span` become the span's.
            headers: That came with it.
        """

    def end_call(self, notes: CallNotes, code: grpc.StatusCode) -> None:
        """A call ended; its notes are all there."""

    def begin_batch(
        self, callers: Sequence[CallNotes], model: str, version: int
    ) -> tuple[object, Callable[[bool], None]] | None:
        """A batch begins, in the thread that runs it.

        Args:
            callers: The notes of those whose requests have a part in it.
            model: That computes.
            version: Of the model.

        Returns:
            What its callers' phases name, and what to call at its end, with whether it failed;
            None where nobody follows it.
        """
        return None

    def stop(self) -> None:
        """Send what is left."""


def check_trace_endpoint(endpoint: str) -> None:
    """Check, before anything is made, that spans can be sent to a collector.

    Args:
        endpoint: http://HOST:PORT, or https://; empty for no spans.

    Raises:
        OptionError: OpenTelemetry isn't installed, or the endpoint is no such address.
    """
    if endpoint and not re.fullmatch(r"https?://[^/]+:\d{1,5}/?", endpoint):
        raise OptionError(
            f"trace_endpoint is {endpoint!r}; expected http://HOST:PORT or https://HOST:PORT."
        )
    try:
        if endpoint:
            import_module("foretell.server.telemetry.spans")
    except ImportError as error:
        raise OptionError(
            "trace_endpoint needs OpenTelemetry; install it: pip install 'foretell[tracing]'."
        ) from error


def trace_to(endpoint: str) -> Tracing:
    """Send spans to a collector over OTLP; needs a thread, so no process forks after it.

    Args:
        endpoint: http://HOST:PORT, or https://; the usual port is 4317. Empty for no spans.

    Raises:
        OptionError: OpenTelemetry isn't installed, or the endpoint is no such address.
    """
    if not endpoint:
        return Tracing()
    check_trace_endpoint(endpoint)
    from foretell.server.telemetry.spans import Spans  # noqa: PLC0415  (the extra [tracing])

    return Spans.to_collector(endpoint)


def trace_id_of(traceparent: str) -> str:
    """The id of a caller's trace; empty where the header is none.

    Source: W3C Trace Context, section 3.2.
    """
    match = _TRACEPARENT.fullmatch(traceparent)
    return match[1] if match and match[1].strip("0") else ""
