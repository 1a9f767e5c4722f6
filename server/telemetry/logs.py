"""The log of a server process: lines for people, or JSON objects for machines, on stderr."""

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Literal

import grpc

from foretell.data.errors import OptionError
from foretell.server.telemetry.call_notes import current_notes

LogFormat = Literal["text", "json"]
LogCalls = Literal["failed", "all"]

_SELDOM_S = 60.0

CALLS = "foretell.server.calls.receiving"
"""The logger of lines about calls; those that went well are on level DEBUG."""


class TextLines(logging.Formatter):
    """Time, level and message, an event a line; only the traceback of a fault has lines of its own.

    Attributes:
        worker: Number of the process among those that share a port; None where there is but one.
    """

    worker: int | None = None

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """Write the line of one record."""
        words = "; ".join(record.message.splitlines())
        record.message = words if self.worker is None else f"[worker {self.worker}] {words}"
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """A JSON object a line: time, level, logger, message, and what else is known.

    Lines about calls have method, model, version, code, seconds, read_s, queue_s, compute_s, peer,
    token, request_id and trace_id as fields of their own, as far as they are known; all others that
    are written during a call have request_id, and trace_id where there is one.

    Attributes:
        worker: Number of the process, a field of each line; None where there is but one.
    """

    worker: int | None = None

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        when = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self.worker is not None:
            line["worker"] = self.worker
        if notes := current_notes():
            line["request_id"] = notes.request_id
            if notes.trace_id:
                line["trace_id"] = notes.trace_id
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def name_worker(number: int) -> None:
    """Have every line of this process tell which worker wrote it.

    Args:
        number: Of this process among those that share a port.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, TextLines | JsonLines):
            handler.formatter.worker = number


class _Seldom(logging.Filter):
    """Lets the same message of a library pass once in a while; some try again every second."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("foretell"):
            return True
        place = record.pathname, record.lineno
        now = time.monotonic()
        if now - self._passed.get(place, -_SELDOM_S) < _SELDOM_S:
            return False
        self._passed[place] = now
        return True


def _is_news(record: logging.LogRecord) -> bool:
    """False for gRPC's tracebacks of writes to a caller who is gone; the call's own line tells."""
    error = record.exc_info[1] if record.exc_info else None
    return not (record.name.startswith("grpc") and isinstance(error, grpc.aio.InternalError))


def log_to_stderr(log_format: LogFormat = "text", log_calls: LogCalls = "failed") -> None:
    """Send the log to stderr, unless the program has set up logging itself.

    Warnings and errors of the libraries go the same way: what collects lines finds no others.

    Args:
        log_format: "text" for people, "json" for machines.
        log_calls: "failed" has a line for each call that failed, "all" for every call.

    Raises:
        OptionError: An option is none of these.
    """
    problems = []
    if log_format not in ("text", "json"):
        problems.append(f"log_format is {log_format!r}; it must be text or json.")
    if log_calls not in ("failed", "all"):
        problems.append(f"log_calls is {log_calls!r}; it must be failed or all.")
    if problems:
        raise OptionError(problems)
    if log_calls == "all":
        logging.getLogger(CALLS).setLevel(logging.DEBUG)
    logger, root = logging.getLogger("foretell"), logging.getLogger()
    if logger.handlers or root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    handler.addFilter(_is_news)
    handler.addFilter(_Seldom())
    root.addHandler(handler)
    logger.setLevel(logging.INFO)
