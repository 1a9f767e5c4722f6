"""Lets the calls in work finish before the server goes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import grpc

_TELLS_S = 0.1  # gRPC, that a call is over, on a busy machine
_LOOK_S, _LOOKS, _MOST_LOOKS = 0.01, 10, 100  # for calls that come though the server stops


class Drain:
    """Knows the calls in work; refuses new ones once the server stops.

    All methods belong to the server's event loop.
    """

    def __init__(self) -> None:
        self._calls: dict[object, asyncio.Task[None] | None] = {}
        self._is_stopping = False
        self._is_over = False
        self._is_busy = False
        self._num_refused = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def __call__(
        self, _method: str, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[None]:
        """Hold one call's place from its start until gRPC has sent all of its answer."""
        if self._is_stopping:
            self._num_refused += 1
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "the server is stopping; ask another one, or later."
            )
        key = object()
        self._calls[key] = asyncio.current_task()
        self._idle.clear()
        context.add_done_callback(lambda _: self._leave(key))
        try:
            yield
        except asyncio.CancelledError:
            if not self._is_over:
                raise  # the caller cancelled, or its deadline passed
            await context.abort(
                grpc.StatusCode.UNAVAILABLE,
                "the server stopped before this call was done; ask another one, or later.",
            )

    async def finish(self, grace_s: float, hurry: asyncio.Event) -> bool:
        """Refuse new calls, and wait for those in work.

        Args:
            grace_s: Seconds to wait.
            hurry: Ends the waiting at once when set.

        Returns:
            True when all calls ended by themselves; False when some had to be cut off.
        """
        self._is_stopping = True
        self._is_busy = bool(self._calls)
        waits = [asyncio.create_task(event.wait()) for event in (self._idle, hurry)]
        await asyncio.wait(waits, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        with suppress(TimeoutError):  # gRPC tells a moment later of an answer that is there
            await asyncio.wait_for(self._idle.wait(), _TELLS_S)
        if self._idle.is_set():
            return True
        self._is_over = True
        for task in self._calls.values():
            if task is not None:
                task.cancel()
        return False

    async def refuse_the_last(self, hurry: asyncio.Event) -> None:
        """Go on refusing until nobody has come for a tenth of a second; for a second at most.

        gRPC hands calls over one by one. Those that it still has when its server stops end with
        CANCELLED, which tells no client to ask another server.

        Args:
            hurry: Ends the waiting at once when set.
        """
        if not (self._is_busy or self._num_refused):
            return  # nobody asks just now
        silent = 0
        for _ in range(_MOST_LOOKS):
            before = self._num_refused
            await asyncio.sleep(_LOOK_S)
            silent = silent + 1 if self._num_refused == before else 0
            if silent == _LOOKS or hurry.is_set():
                return

    def _leave(self, key: object) -> None:
        self._calls.pop(key, None)
        if not self._calls:
            self._idle.set()
