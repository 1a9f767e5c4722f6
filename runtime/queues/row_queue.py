"""The order in which rows go: by priority, then by fairness, in batches of one key.

A request's rows queue up one behind the other, each so far behind as the ones before it take room:
a short request never waits for the whole of a long one, and a long one is never passed for good
(start-time fair queueing: Goyal, Vin and Cheng 1996).
"""

import heapq
import itertools
import time
from collections.abc import Hashable, Sequence

from foretell.runtime.queues.work import QueuedRow, Request, Row

_Entry = tuple[int, float, int, QueuedRow]  # priority, place in the fair order, arrival, row


class RowQueue:
    """Rows that wait; its length is how many somebody waits for. Not for several threads."""

    def __init__(self, *, merges: bool = True) -> None:
        """Make an empty queue.

        Args:
            merges: Rows of several requests may share a batch.
        """
        self._merges = merges
        self._heaps: dict[tuple[object, Hashable, Request | None], list[_Entry]] = {}
        self._arrivals = itertools.count()
        self._clock = 0.0  # place in the fair order of what was taken last
        self._num_alive = 0
        self._num_dead = 0

    def __len__(self) -> int:
        return self._num_alive

    def push(self, request: Request, rows: Sequence[Row]) -> None:
        """Add the rows of a request."""
        now = time.monotonic()
        place = self._clock
        for row in rows:
            kind = (row.run, row.key, None if self._merges else request)
            heap = self._heaps.setdefault(kind, [])
            queued = QueuedRow(row, request, now)
            heapq.heappush(heap, (request.priority, place, next(self._arrivals), queued))
            place += row.share
        request.rows_queued += len(rows)
        self._num_alive += len(rows)

    def take(self, parts: int) -> tuple[list[QueuedRow], set[Request]]:
        """Take what runs next.

        Args:
            parts: Batches that can run at once, this one included: it leaves them their share.

        Returns:
            Rows for one batch, none where none wait; and requests that are too late, of which a row
            came up that was not taken.
        """
        now = time.monotonic()
        late: set[Request] = set()
        while self._heaps:
            kind = min(self._heaps, key=lambda kind: self._heaps[kind][0][:3])
            rows = self._take_of(self._heaps[kind], parts, now, late)
            if not self._heaps[kind]:
                del self._heaps[kind]
            if rows:
                return rows, late
        return [], late

    def forget(self, request: Request) -> None:
        """Note that nobody waits for a request's rows any more."""
        self._num_alive -= request.rows_queued
        self._num_dead += request.rows_queued
        request.rows_queued = 0
        if self._num_dead > self._num_alive:  # let go of what they hold
            self._num_dead = 0
            for kind, heap in [*self._heaps.items()]:
                heap[:] = [entry for entry in heap if not entry[3].request.is_over]
                heapq.heapify(heap)
                if not heap:
                    del self._heaps[kind]

    def _take_of(
        self, heap: list[_Entry], parts: int, now: float, late: set[Request]
    ) -> list[QueuedRow]:
        rows: list[QueuedRow] = []
        most = -(-len(heap) // parts)
        room = 1.0
        while heap and len(rows) < most:
            _, place, _, queued = heap[0]
            request = queued.request
            if not request.is_over and rows and queued.row.share > room:
                break
            heapq.heappop(heap)
            if request.is_over:
                self._num_dead -= 1
                continue
            request.rows_queued -= 1
            self._num_alive -= 1
            if request.deadline is not None and request.deadline <= now:
                late.add(request)
                continue
            self._clock = max(self._clock, place)
            room -= queued.row.share
            rows.append(queued)
        return rows
