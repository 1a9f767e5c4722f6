"""The log of a server process: lines for people, or JSON objects for machines, on stderr."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

from foretell.data.errors import OptionError
from foretell.server.call_notes import current_notes

LogFormat = Literal["text", "json"]
LogCalls = Literal["failed", "all"]

CALLS = "foretell.server.calls"
"""The logger of lines about calls; those that went well are on level DEBUG."""


class JsonLines(logging.Formatter):
    """A JSON object a line: time, level, logger, message, and what else is known.

    Lines about calls have method, model, version, code, seconds, read_s, queue_s, compute_s, peer,
    request_id and trace_id as fields of their own, as far as they are known; all others that are
    written during a call have request_id, and trace_id where there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        when = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if notes := current_notes():
            line["request_id"] = notes.request_id
            if notes.trace_id:
                line["trace_id"] = notes.trace_id
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(log_format: LogFormat = "text", log_calls: LogCalls = "failed") -> None:
    """Send foretell's log to stderr, unless the program has set up logging itself.

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
    logger = logging.getLogger("foretell")
    if logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
