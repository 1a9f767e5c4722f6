"""What is known of one call, whatever service it came to: until when, how urgent, and its end."""

import threading
import time

import grpc

DEFAULT_PRIORITY = 2
"""Smaller numbers go first; a call that names none, or 0, has this one."""


class CallOverError(Exception):
    """The call that is computed for is over; nobody gets to see this."""


class Call:
    """One call from its start to its end.

    Attributes:
        context: gRPC's, for metadata and for ending the call.
        size_bytes: Of the request: what waiting costs in memory.
        deadline: On the clock of `time.monotonic`; None where there is none.
        priority: Calls of a smaller number are computed first; see `DEFAULT_PRIORITY`.
        is_over: Is set at the call's end, also where no exception tells it: while gRPC writes.
    """

    def __init__(
        self,
        context: grpc.aio.ServicerContext,
        *,
        size_bytes: int = 0,
        timeout_s: float | None = None,
        priority: int = 0,
    ) -> None:
        """Note what the context tells.

        Args:
            context: Of the call.
            size_bytes: Of the request.
            timeout_s: What the request itself allows, beside the call's own deadline: the sooner
                of the two counts.
            priority: What the request asks for; 0 for none.
        """
        self.context = context
        self.size_bytes = size_bytes
        self.priority = priority or DEFAULT_PRIORITY
        times = [left for left in (timeout_s, context.time_remaining()) if left is not None]
        self.deadline = time.monotonic() + min(times) if times else None
        self.is_over = threading.Event()
        context.add_done_callback(lambda _: self.is_over.set())

    def check(self) -> None:
        """Raise once the call is over; what computes for it asks now and then."""
        if self.is_over.is_set():
            raise CallOverError
