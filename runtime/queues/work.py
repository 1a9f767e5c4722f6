"""What waits for a model: requests of rows, and the batches in which rows of many requests run."""

import contextlib
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from foretell.data.errors import ForetellError
from foretell.runtime.search.stopping import Stop, StoppedError

Answer = TypeVar("Answer")

DEFAULT_PRIORITY = 2
"""Of a request that names none; smaller numbers go first."""


class QueueFullError(ForetellError, RuntimeError):
    """A model has as many requests waiting as it may have.

    Attributes:
        retry_after_s: Seconds after which there may be room.
    """

    def __init__(self, problem: str, retry_after_s: float) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type, tuple[str, float]]:
        return type(self), (str(self), self.retry_after_s)


class DeadlineError(ForetellError, TimeoutError):
    """A request's time was over before its answer was there."""


class BatchTimeError(ForetellError, RuntimeError):
    """A batch took longer than any may; what it computed is lost."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One piece of a request, computed as a whole: a sentence, some series, a graph's run.

    Attributes:
        run: Computes a batch; only rows of one `run` and one `key` share a batch.
        key: What else rows of a batch have in common, such as the length they are padded to.
        task: What `run` needs to know; the answer goes where it says.
        share: Of a batch's room that the row takes, above 0; one of 1 or more runs alone.
        items: Real items, in whatever a batch is padded.
        padded_items: Items when padded.
    """

    run: Callable[["Batch"], None]
    key: Hashable
    task: Any
    share: float = 1.0
    items: int = 1
    padded_items: int = 1


@dataclass(frozen=True, slots=True)
class Plan(Generic[Answer]):
    """What a request asks of a model: rows for its queue, and then the answer.

    Attributes:
        rows: To be run, in whatever batches.
        answer: Gives the answer once every row is done.
        answer_bytes: Bytes that `answer` goes through; 0 where it has only to be fetched.
    """

    rows: Sequence[Row]
    answer: Callable[[], Answer]
    answer_bytes: int = 0


@runtime_checkable  # so that tests can check signatures
class Owner(Protocol):
    """Who holds the requests, and hears of them."""

    def enqueue(self, request: "Request", rows: Sequence[Row]) -> None:
        """Put a request's rows into the queue."""

    def row_done(self, request: "Request") -> None:
        """Note that one more row of a request has its answer."""


class Request:
    """What one caller asks of a model: admitted, then waiting, then done or left.

    Attributes:
        done: Is done with None once every row is, and with the error of the first row that failed.
            Cancelling it leaves the queue, and ends what runs for nobody else.
        priority: Smaller numbers go first.
        deadline: On the clock of `time.monotonic`; a row that still waits then is never run.
        size_bytes: What it holds of the memory that requests may take.
        rows_left: Rows without an answer. This and the rest belong to the owner.
        rows_queued: Rows that are in the queue.
        is_waiting: Some row is in the queue, or none is yet.
        is_over: Nobody waits for the answer any more.
        batches: That run some of its rows.
        queued_at: When its rows came into the queue, on the clock of `time.monotonic`.
        begun_at: When the first of them began to run.
        done_at: When `done` was done, in whatever way.
        caller: Whatever the caller wants to find here when a batch begins.
    """

    def __init__(
        self,
        owner: Owner,
        *,
        size_bytes: int = 0,
        priority: int = DEFAULT_PRIORITY,
        deadline: float | None = None,
    ) -> None:
        self.done: Future[None] = Future()
        self.priority = priority
        self.deadline = deadline
        self.size_bytes = size_bytes
        self.rows_left = 0
        self.rows_queued = 0
        self.is_waiting = True
        self.is_over = False
        self.batches: set[Batch] = set()
        self.queued_at: float | None = None
        self.begun_at: float | None = None
        self.done_at: float | None = None
        self.caller: Any = None
        self._owner = owner

    @property
    def waited_s(self) -> float:
        """Seconds from when its rows came into the queue until the first of them began to run."""
        if self.queued_at is None or self.begun_at is None:
            return 0.0
        return self.begun_at - self.queued_at

    def begin(self, rows: Sequence[Row]) -> None:
        """Put the rows into the queue; a request without rows is done at once."""
        self._owner.enqueue(self, rows)

    def cancel(self) -> None:
        """Leave: what waits is never run, and what runs for nobody else is stopped."""
        self.done.cancel()


@dataclass(frozen=True, slots=True, eq=False)
class QueuedRow:
    """A row in the queue.

    Attributes:
        row: What is to be computed.
        request: Whose.
        queued_at: On the clock of `time.monotonic`.
    """

    row: Row
    request: Request
    queued_at: float


class Batch:
    """Rows that run together; `Row.run` gets one and reports to it.

    Attributes:
        rows: In the order in which they would run alone.
        tasks: Of the rows.
        stop: Is set when nobody waits for any row any more, or the batch takes too long.
        started_at: On the clock of `time.monotonic`.
        waiting: Requests that wait for it; belongs to the owner.
    """

    def __init__(self, owner: Owner, rows: Sequence[QueuedRow]) -> None:
        self.rows = tuple(rows)
        self.tasks: tuple[Any, ...] = tuple(queued.row.task for queued in rows)
        self.stop = Stop()
        self.started_at = time.monotonic()
        self.waiting = {queued.request for queued in rows}
        self._owner = owner
        self._missing = set(range(len(rows)))
        self._last: Request | None = None

    def run(self) -> None:
        """Compute it."""
        self.rows[0].row.run(self)
        if rest := self.rest():
            raise AssertionError(f"{len(rest)} rows of a batch were left without an answer")

    def put(self, place: int) -> None:
        """Note that a row's answer is where its task wants it; its caller waits no longer.

        The caller of the last one waits until the batch is told of, and `settle` is called.
        """
        if place not in self._missing:
            return
        self._missing.discard(place)
        request = self.rows[place].request
        if self._missing:
            self._owner.row_done(request)
        else:
            self._last = request

    def settle(self) -> None:
        """Let the caller of the last row have its answer."""
        request, self._last = self._last, None
        if request is not None:
            self._owner.row_done(request)

    def given_up(self) -> list[int]:
        """Places of rows that nobody waits for any more.

        Raises:
            StoppedError: That is all that are left; leave off.
        """
        self.stop.check()
        gone = [place for place in self._missing if self.rows[place].request.is_over]
        if gone and len(gone) == len(self._missing):
            raise StoppedError
        return gone

    def rest(self) -> list[QueuedRow]:
        """Rows without an answer that somebody waits for."""
        rows = [self.rows[place] for place in sorted(self._missing)]
        return [queued for queued in rows if not queued.request.is_over]


def finish(done: "Future[None]", error: Exception | None = None) -> None:
    """Have a request done, or failed; where its caller has left, nothing happens."""
    with contextlib.suppress(InvalidStateError):
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
