"""A model's door and the threads behind it: requests come in, and run in batches of many callers.

A batch is taken when a thread is free, of all that waits by then: nobody waits for company. A
request that is left by its caller leaves the queue, and a batch that all have left is stopped.
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from foretell.data.errors import OptionError
from foretell.runtime.queues.pace import Pace
from foretell.runtime.queues.row_queue import RowQueue
from foretell.runtime.queues.turns import in_turn
from foretell.runtime.queues.work import (
    DEFAULT_PRIORITY,
    Batch,
    BatchTimeError,
    DeadlineError,
    QueuedRow,
    QueueFullError,
    Request,
    Row,
    finish,
)

_IDLE_S = 10.0  # a thread without work ends after so long, and lets go of all it holds

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimits:
    """What one model may have before it.

    Attributes:
        max_requests: Most requests that wait; those whose last row runs don't count.
        max_bytes: Most bytes of all requests, waiting or running; a single one is always let in.
        max_batch_s: Seconds after which a batch is stopped, and its callers get an error.
    """

    max_requests: int = 256
    max_bytes: int = 256 * 1024 * 1024
    max_batch_s: float = 300.0

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value:,}; it must be above 0."
            for name in ("max_requests", "max_bytes", "max_batch_s")
            if not (value := getattr(self, name)) > 0
        ]
        if problems:
            raise OptionError(problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchReport:
    """What is told of a batch that has run.

    Attributes:
        requests: That had a part in it.
        items: Real ones.
        padded_items: All that was computed.
        queue_s: Seconds that each request's first row in it waited.
        compute_s: Seconds that it took.
        input_s: Of these, until the first of its graphs ran: laying out and padding.
        output_s: And after the last one.
    """

    requests: int
    items: int
    padded_items: int
    queue_s: tuple[float, ...]
    compute_s: float
    input_s: float
    output_s: float


class Scheduler:
    """One model's queue and threads. Any thread may call it.

    Threads start when there is work, and end when there is none for a while.
    """

    def __init__(
        self,
        *,
        threads: int,
        limits: QueueLimits | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        on_begin: Callable[[Batch], Callable[[bool], None] | None] | None = None,
        merges: bool = True,
    ) -> None:
        """Make an empty queue.

        Args:
            threads: Batches that run at a time.
            limits: What may be before the model.
            on_batch: Is told of every batch, in the thread that ran it.
            on_begin: Is told before it runs; what it returns is called when it has run, with
                whether it failed, and before the last of its callers has his answer.
            merges: Rows of several requests may share a batch.
        """
        self._limits = limits or QueueLimits()
        self._max_threads = threads
        self._on_batch = on_batch
        self._on_begin = on_begin
        self._wake = threading.Condition()  # its lock guards all below, and requests' states
        self._queue = RowQueue(merges=merges)
        self._num_waiting = 0
        self._bytes = 0
        self._threads: set[threading.Thread] = set()
        self._num_idle = 0
        self._running: dict[Batch, threading.Thread] = {}
        self._watchdog: threading.Thread | None = None
        self._pace = Pace()
        self._is_closed = False

    @property
    def num_waiting(self) -> int:
        """Requests that wait."""
        return self._num_waiting

    @property
    def held_bytes(self) -> int:
        """Bytes of all requests, waiting or running."""
        return self._bytes

    @property
    def num_running(self) -> int:
        """Batches that run."""
        return len(self._running)

    def admit(
        self,
        *,
        size_bytes: int = 0,
        priority: int = DEFAULT_PRIORITY,
        deadline: float | None = None,
    ) -> Request:
        """Let a request in; it waits from now on, and must `begin` or `cancel`.

        Args:
            size_bytes: What it holds in memory.
            priority: Smaller numbers go first.
            deadline: On the clock of `time.monotonic`; rows that still wait then are never run.

        Raises:
            QueueFullError: There is no room.
            DeadlineError: Its time is over already.
        """
        if deadline is not None and deadline <= time.monotonic():
            raise _expired()
        with self._wake:
            self._check_room(size_bytes)
            self._num_waiting += 1
            self._bytes += size_bytes
        request = Request(self, size_bytes=size_bytes, priority=priority, deadline=deadline)
        # Before all others. Held weakly: what holds itself is left to the garbage collector, and
        # while that has thousands of them to clear away, everybody waits.
        request.done.add_done_callback(partial(self._leave, weakref.ref(request)))
        return request

    def enqueue(self, request: Request, rows: Sequence[Row]) -> None:
        """Put a request's rows into the queue; what `Request.begin` calls."""
        with self._wake:
            if request.is_over:
                return
            request.rows_left = len(rows)
            request.queued_at = time.monotonic()
            self._queue.push(request, rows)
            self._start_threads()
            self._wake.notify(len(rows))  # to wake a thread for nothing costs its callers time
        if not rows:
            finish(request.done)

    def row_done(self, request: Request) -> None:
        """Note that one more row of a request has its answer; what `Batch.put` calls."""
        with self._wake:
            request.rows_left -= 1
            is_done = not request.rows_left
        if is_done:
            finish(request.done)

    def take_no_more(self) -> None:
        """Take no more work; threads that have none end now, the others after what they have."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Take no more work, and wait for the batches that run.

        Returns:
            Whether all ended in time.
        """
        end = time.monotonic() + timeout_s
        self.take_no_more()
        with self._wake:
            threads = [*self._threads]
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _check_room(self, size_bytes: int) -> None:
        limits = self._limits
        if self._is_closed:
            full = "the model is being taken down"
        elif self._num_waiting >= limits.max_requests:
            full = f"{self._num_waiting:,} requests wait, and at most {limits.max_requests:,} may"
        elif self._bytes and self._bytes + size_bytes > limits.max_bytes:
            full = (
                f"requests hold {self._bytes:,} bytes; with this one, {size_bytes:,}, it would "
                f"be more than {limits.max_bytes:,}"
            )
        else:
            return
        rows = max(len(self._queue), self._num_waiting)  # of some only their rows aren't there yet
        retry_after_s = self._pace.retry_after_s(rows, self._max_threads, self._running)
        raise QueueFullError(
            f"Exceeds maximum queue size: {full}. Ask again in {retry_after_s:.2g} s, or another "
            "server.",
            retry_after_s,
        )

    def _leave(self, held: weakref.ref[Request], _: "Future[None]") -> None:
        """Forget a request that is done, failed or cancelled."""
        if (request := held()) is None:
            return
        with self._wake:
            request.is_over = True
            request.done_at = time.monotonic()
            self._bytes -= request.size_bytes
            self._stop_waiting(request)
            self._queue.forget(request)
            abandoned = []
            for batch in request.batches:
                batch.waiting.discard(request)
                if not batch.waiting:
                    abandoned.append(batch)
            request.batches.clear()
        for batch in abandoned:
            batch.stop.set()

    def _stop_waiting(self, request: Request) -> None:
        if request.is_waiting:
            request.is_waiting = False
            self._num_waiting -= 1

    def _start_threads(self) -> None:
        missing = min(len(self._queue) - self._num_idle, self._max_threads - len(self._threads))
        for _ in range(missing):
            thread = threading.Thread(target=self._work, name="foretell-batches", daemon=True)
            self._threads.add(thread)
            thread.start()
        if self._watchdog is None:
            self._watchdog = threading.Thread(
                target=self._watch, name="foretell-watchdog", daemon=True
            )
            self._watchdog.start()

    def _work(self) -> None:
        """Run batch after batch: a thread's whole life."""
        while self._work_once(threading.current_thread()):
            pass  # nothing of a batch is held here while the thread waits: models may come and go

    def _work_once(self, thread: threading.Thread) -> bool:
        parts = [self._next()]
        if not parts[0]:
            return False
        while parts:
            parts += self._run(parts.pop(), thread)
        with self._wake:
            return thread in self._threads  # or it was given up, and another has its place

    def _next(self) -> list[QueuedRow]:
        """Wait for rows to run; none when the thread is to end."""
        while True:
            with self._wake:
                rows, late = self._queue.take(max(1, self._max_threads - len(self._running)))
                goes_on = bool(rows or late) or self._wait_for_work()
                if not goes_on:
                    self._threads.discard(threading.current_thread())
            for request in late:
                finish(request.done, _expired())
            if rows or not goes_on:
                return rows

    def _wait_for_work(self) -> bool:
        """Wait, and tell whether to look again; the lock is held."""
        if self._is_closed:
            return False
        self._num_idle += 1
        is_told = self._wake.wait(_IDLE_S)
        self._num_idle -= 1
        return is_told or len(self._queue) > 0

    def _run(self, rows: list[QueuedRow], thread: threading.Thread) -> list[list[QueuedRow]]:
        """Run a batch; return what is to be run again, apart from what may have been at fault."""
        batch = self._begin(rows, thread)
        is_real = bool(batch.waiting)
        end = self._on_begin(batch) if is_real and self._on_begin is not None else None
        fault = _fault_of(batch) if is_real else None
        compute_s = time.monotonic() - batch.started_at
        with self._wake:
            self._running.pop(batch, None)
            for request in batch.waiting:
                request.batches.discard(batch)
            if is_real and fault is None:
                self._pace.note(batch, compute_s)
            rest = batch.rest()
        if fault is None:
            self._report(batch, compute_s)
        if end is not None:
            end(fault is not None)
        batch.settle()
        requests = {queued.request for queued in rest}
        if len(requests) > 1:
            log.warning("a batch of %d failed and is run in halves: %r", len(rest), fault)
            half = len(rest) // 2
            return [rest[half:], rest[:half]]
        for request in requests:
            finish(request.done, fault)
        return []

    def _begin(self, rows: list[QueuedRow], thread: threading.Thread) -> Batch:
        with self._wake:
            batch = Batch(self, [queued for queued in rows if not queued.request.is_over])
            self._running[batch] = thread
            for request in batch.waiting:
                request.batches.add(batch)
                request.begun_at = request.begun_at or batch.started_at
                if not request.rows_queued:
                    self._stop_waiting(request)
        return batch

    def _report(self, batch: Batch, compute_s: float) -> None:
        if self._on_batch is None or not batch.rows:
            return
        queued_at: dict[Request, float] = {}
        for queued in batch.rows:
            queued_at.setdefault(queued.request, queued.queued_at)
        ended_at = batch.started_at + compute_s
        ran_from, ran_to = batch.stop.begun_at, batch.stop.ended_at
        self._on_batch(
            BatchReport(
                requests=len(queued_at),
                items=sum(queued.row.items for queued in batch.rows),
                padded_items=sum(queued.row.padded_items for queued in batch.rows),
                queue_s=tuple(batch.started_at - at for at in queued_at.values()),
                compute_s=compute_s,
                input_s=0.0 if ran_from is None else ran_from - batch.started_at,
                output_s=0.0 if ran_to is None else max(0.0, ended_at - ran_to),
            )
        )

    def _watch(self) -> None:
        """Stop batches that take too long; give a thread up that doesn't come back even then."""
        most_s = self._limits.max_batch_s
        while True:
            time.sleep(min(1.0, most_s / 4))
            with self._wake:
                if not self._threads:
                    self._watchdog = None
                    return
                now = time.monotonic()
                ages = {batch: now - batch.started_at for batch in self._running}
                late = [
                    request
                    for batch, age_s in ages.items()
                    if age_s > most_s
                    for request in batch.waiting
                ]
                for batch in [batch for batch, age_s in ages.items() if age_s > 1.5 * most_s]:
                    log.error("a batch didn't stop after %.0f s; its thread is lost", ages[batch])
                    self._threads.discard(self._running.pop(batch))
                    self._start_threads()
            for request in late:
                finish(request.done, BatchTimeError(f"a batch took longer than {most_s:g} s."))


def _fault_of(batch: Batch) -> Exception | None:
    """Run a batch; return what it raised, whose traceback holds no frame that holds it."""
    try:
        with in_turn():
            batch.run()
    except Exception as error:  # whatever a model raises is for its callers
        return error
    return None


def _expired() -> DeadlineError:
    return DeadlineError("Request timeout expired: it was still waiting when its time was over.")
