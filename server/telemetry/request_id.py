"""The id under which the log tells about a call: made once a call, known everywhere below it."""

import os
import random
import re
from contextvars import ContextVar

HEADER = "x-request-id"
"""A caller that has an id of its own sends it in this header."""

_current: ContextVar[str] = ContextVar("request_id", default="")
_GIVEN = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # what no log line can be broken with


def new_request_id(given: str = "") -> str:
    """Make an id, 16 hexadecimal digits, and give it to the call that runs here.

    Args:
        given: The caller's own id, which is kept if it is 1 to 64 of A-Z a-z 0-9 _ . -
    """
    request_id = given if given and _GIVEN.fullmatch(given) else _new()
    _current.set(request_id)
    return request_id


def current_request_id() -> str:
    """The id of the call that runs here; outside of calls a new one, which nothing else knows."""
    return _current.get() or _new()


def _new() -> str:
    return f"{_numbers.getrandbits(64):016x}"


# An id has to be another one each time, and is no secret. Not from Python's own numbers: who seeds
# those, beside a server in his process, would get ids again, and other numbers than without it.
_numbers = random.Random()
os.register_at_fork(after_in_child=_numbers.seed)
