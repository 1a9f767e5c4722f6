"""The id under which the log tells about a call: made once a call, known everywhere below it."""

import secrets
from contextvars import ContextVar

_current: ContextVar[str] = ContextVar("request_id", default="")


def new_request_id() -> str:
    """Make an id, 16 hexadecimal digits, and give it to the call that runs here."""
    request_id = secrets.token_hex(8)
    _current.set(request_id)
    return request_id


def current_request_id() -> str:
    """The id of the call that runs here; outside of calls a new one, which nothing else knows."""
    return _current.get() or secrets.token_hex(8)
