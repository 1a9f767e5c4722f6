"""The threads that read requests and write answers: callers take turns, and large pieces share one.

This is work of the process' own cores, and mostly of Python, so more threads would do no more of
it. What has begun isn't interrupted, unless nobody waits for it any more; so what must not wait
long never stands behind what takes long.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

Found = TypeVar("Found")

LARGE_BYTES = 64 * 1024
"""What goes through more is large: it may take seconds, where this much takes a tenth of one."""

_THREADS = 2
_MOST_LARGE = _THREADS - 1  # at a time


@dataclass(slots=True)
class _Line:
    """Who waits for a thread: by caller, in the order of their turns."""

    by_caller: dict[Hashable, deque[asyncio.Future[None]]] = field(default_factory=dict)

    def join(self, caller: Hashable, turn: asyncio.Future[None]) -> None:
        self.by_caller.setdefault(caller, deque()).append(turn)

    def call(self) -> bool:
        """Let the next one in turn begin; False where nobody waits."""
        while self.by_caller:
            caller = next(iter(self.by_caller))
            turns = self.by_caller.pop(caller)
            turn = turns.popleft()
            if turns:
                self.by_caller[caller] = turns  # behind all others
            if not turn.done():  # else he has left
                turn.set_result(None)
                return True
        return False


class Readers:
    """Runs pieces of work in threads; all methods belong to one event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="wire")
        self._small, self._large = _Line(), _Line()
        self._num_running = self._num_large = 0

    async def run(self, work: Callable[[], Found], caller: Hashable, *, is_large: bool) -> Found:
        """Run a piece of work when its caller's turn has come.

        Whoever is cancelled while he waits has it never run.

        Args:
            work: What is to be done.
            caller: Whose it is.
            is_large: It may take long.
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        (self._large if is_large else self._small).join(caller, turn)
        self._deal()
        if not turn.done():
            await self._wait(turn, is_large=is_large)
        running = self._pool.submit(work)

        def leave(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: the server has ended
                loop.call_soon_threadsafe(self._leave, is_large)

        running.add_done_callback(leave)  # also where nobody waits for it any more
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False)

    async def _wait(self, turn: asyncio.Future[None], *, is_large: bool) -> None:
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # his turn came in the same moment
                self._leave(is_large)
            raise

    def _deal(self) -> None:
        while self._num_running < _THREADS:
            if self._num_large < _MOST_LARGE and self._large.call():
                self._num_large += 1
            elif not self._small.call():
                return
            self._num_running += 1

    def _leave(self, is_large: bool) -> None:
        self._num_running -= 1
        self._num_large -= is_large
        self._deal()
