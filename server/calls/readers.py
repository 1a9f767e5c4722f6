"""The threads that read requests and write answers: callers take turns, and large pieces share one.

This is work of the process' own cores, and mostly of Python, so more threads would do no more of
it. What has begun isn't interrupted, unless nobody waits for it any more; so what must not wait
long never stands behind what takes long.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from foretell.server.calls.awaiting import result_of

Found = TypeVar("Found")

LARGE_BYTES = 64 * 1024
"""What goes through more is large: it may take seconds, where this much takes a tenth of one."""

_THREADS = 2
_MOST_LARGE = _THREADS - 1  # at a time


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of work, and where its result is awaited."""

    work: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        try:
            self.done.set_result(self.work())
        except BaseException as error:  # told to whoever waits
            self.done.set_exception(error)


@dataclass(slots=True)
class _Line:
    """What waits for a thread: by caller, in the order of their turns."""

    by_caller: dict[Hashable, deque[_Piece]] = field(default_factory=dict)

    def join(self, caller: Hashable, piece: _Piece) -> None:
        self.by_caller.setdefault(caller, deque()).append(piece)

    def take(self) -> _Piece | None:
        """Take the next one in turn that somebody waits for still; None where there is none."""
        while self.by_caller:
            caller = next(iter(self.by_caller))
            pieces = self.by_caller.pop(caller)
            piece = pieces.popleft()
            if pieces:
                self.by_caller[caller] = pieces  # behind all others
            if piece.done.set_running_or_notify_cancel():
                return piece
        return None


class Readers:
    """Runs pieces of work in threads."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="wire")
        self._lock = threading.Lock()
        self._small, self._large = _Line(), _Line()
        self._num_large = 0  # that run

    async def run(self, work: Callable[[], Found], caller: Hashable, *, is_large: bool) -> Found:
        """Run a piece of work when its caller's turn has come.

        Whoever is cancelled while he waits has it never run.

        Args:
            work: What is to be done.
            caller: Whose it is.
            is_large: It may take long.
        """
        piece = _Piece(work)
        with self._lock:
            (self._large if is_large else self._small).join(caller, piece)
        self._pool.submit(self._run_next)
        found: Found = await result_of(piece.done)
        return found

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False)

    def _run_next(self) -> None:
        """Run one piece, and after a large one also what was not begun because of it."""
        goes_on = True
        while goes_on:
            with self._lock:
                large = self._large.take() if self._num_large < _MOST_LARGE else None
                piece = large or self._small.take()
                goes_on = large is not None
                self._num_large += goes_on
            if piece is not None:
                piece.run()
            with self._lock:
                self._num_large -= goes_on
            del piece, large  # they hold what they brought
