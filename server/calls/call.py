"""What is known of one call, whatever service it came to: until when, how urgent, and its end."""

import time
import weakref
from dataclasses import dataclass, field

import grpc

from foretell.runtime.queues.work import DEFAULT_PRIORITY, Request
from foretell.server.telemetry.call_notes import CallNotes, current_notes
from foretell.server.telemetry.durations import Spent

LATE_S = 0.05
"""A caller whose time is over cancels, and that may be here before it is over here as well."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who waits for a request.

    Attributes:
        notes: Of the call; None outside of calls.
        batches: What `Tracing` made of those that it had a part in.
        spent: By those of them that went well.
    """

    notes: CallNotes | None
    batches: list[object] = field(default_factory=list)
    spent: list[Spent] = field(default_factory=list)


class Call:
    """One call from its start to its end, or one request of a call that streams several.

    Attributes:
        context: gRPC's, for metadata and for ending the call.
        size_bytes: Of the request: what waiting costs in memory.
        num_items: Sentences or series in it, about: each takes its time, however short it is.
        deadline: On the clock of `time.monotonic`; None where there is none.
        priority: Calls of a smaller number are computed first; `DEFAULT_PRIORITY` is 2.
        request: Its place before a model, while it has one.
    """

    def __init__(
        self,
        context: grpc.aio.ServicerContext,
        *,
        size_bytes: int = 0,
        num_items: int = 1,
        timeout_s: float | None = None,
        priority: int = 0,
    ) -> None:
        """Note what the context tells.

        Args:
            context: Of the call.
            size_bytes: Of the request.
            num_items: See above.
            timeout_s: What the request itself allows, beside the call's own deadline: the sooner
                of the two counts.
            priority: What the request asks for; 0 for none.
        """
        self.context = context
        self.size_bytes = size_bytes
        self.num_items = num_items
        self.priority = priority or DEFAULT_PRIORITY
        times = [left for left in (timeout_s, context.time_remaining()) if left is not None]
        self.deadline = time.monotonic() + min(times) if times else None
        self.request: Request | None = None

    @property
    def caller(self) -> str:
        """Whose call it is: the connection that it came by; empty where nobody noted it.

        The context isn't asked: a stream's request may outlive its call, and gRPC's is gone then.
        """
        notes = current_notes()
        return notes.peer if notes else ""

    @property
    def is_late(self) -> bool:
        """Whether its time is over, or so nearly that who leaves now leaves for that."""
        return self.deadline is not None and time.monotonic() >= self.deadline - LATE_S

    def leave_at_end(self, request: Request) -> None:
        """Cancel a request when the call ends, also where no exception tells it: in gRPC's writes.

        A call may stream many requests, so this holds none of them.
        """
        held = weakref.ref(request)

        def leave(_: object) -> None:
            if (request := held()) is not None:
                request.cancel()

        self.context.add_done_callback(leave)
