"""The log's lines about calls, and about requests that fail within a stream."""

import logging
import re

import grpc

from foretell.server.telemetry.call_notes import CallNotes
from foretell.server.telemetry.logs import CALLS

_log = logging.getLogger(CALLS)
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PLAIN = re.compile(r"[\w./:%\[\]-]*", re.ASCII)
_MOST_DETAILS = 2000  # characters; an event is a line, and a readable one, whatever a client sends

# What changes a server has a line whenever it happens: somebody will ask who did it.
_CHANGES = {
    "/foretell.v1.Models/Load",
    "/foretell.v1.Models/Unload",
    "/inference.GRPCInferenceService/RepositoryModelLoad",
    "/inference.GRPCInferenceService/RepositoryModelUnload",
}


def log_call(
    notes: CallNotes, code: grpc.StatusCode, seconds: float, details: str | bytes | None
) -> None:
    """Write the line of a call that has ended.

    Args:
        notes: Of the call.
        code: How it ended.
        seconds: That it took.
        details: The text that the caller got.
    """
    is_told = code is not grpc.StatusCode.OK or notes.method in _CHANGES
    level = logging.INFO if is_told else logging.DEBUG
    if not _log.isEnabledFor(level):
        return
    fields = {
        "method": notes.method,
        "model": notes.model,
        "version": notes.version,
        "code": code.name,
        "seconds": round(seconds, 6),
        **{f"{name}_s": round(spent_s, 6) for name, spent_s in notes.spent_s.items()},
        **_caller(notes),
    }
    _write(level, fields, details)


def log_stream_error(
    notes: CallNotes, code: grpc.StatusCode, text: str, *, of_request: str, model: str, version: int
) -> None:
    """Write the line of a request that failed in a stream which goes on.

    Args:
        notes: Of the call.
        code: That the request would have ended with as a call.
        text: That the caller got.
        of_request: The caller's id of it.
        model: Asked for, where that is one of the server's; else empty.
        version: Of the model.
    """
    if not _log.isEnabledFor(logging.INFO):
        return
    fields: dict[str, object] = {
        "method": notes.method,
        "id": of_request,
        "model": model,
        "version": version,
        "code": code.name,
        **_caller(notes),
    }
    _write(logging.INFO, fields, text)


def _caller(notes: CallNotes) -> dict[str, object]:
    return {
        "peer": notes.peer,
        "token": notes.token,
        "request_id": notes.request_id,
        "trace_id": notes.trace_id,
    }


def _write(level: int, fields: dict[str, object], details: str | bytes | None) -> None:
    fields = {name: value for name, value in fields.items() if value or name == "seconds"}
    words = " ".join(f"{name}={_word(value)}" for name, value in fields.items())
    told = _printable(details)[:_MOST_DETAILS]
    _log.log(level, "%s%s", words, f": {told}" if told else "", extra={"fields": fields})


def _word(value: object) -> str:
    """A value as one word; what a caller wrote could else look like fields of ours."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else ascii(text)


def _printable(details: str | bytes | None) -> str:
    """A status' text on one line, with all that could steer a terminal spelled out."""
    text = details.decode(errors="replace") if isinstance(details, bytes) else details or ""
    line = "; ".join(text.splitlines())
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], line)
