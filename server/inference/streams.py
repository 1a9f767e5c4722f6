"""The requests of one stream, in work side by side; each answer leaves as soon as it is there."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from foretell.protos.inference import inference_pb2 as wire

Response = TypeVar("Response")

MOST_IN_WORK = 32
"""Requests of one stream: enough to fill batches, too few to fill a model's queue alone."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """What ends the stream."""

    error: Exception


class SideBySide(Generic[Response]):
    """Works on the requests of a stream as they come, and hands their answers out as they come.

    While as many are in work as may be, no more is read than one that waits, so that whoever sends
    has to wait too. A request is in work until its last answer is taken: a caller that doesn't
    read can't pile answers up. All methods belong to one event loop.
    """

    def __init__(
        self,
        answer: Callable[[wire.ModelInferRequest], AsyncGenerator[Response, None]],
        *,
        most: int,
        most_bytes: int,
    ) -> None:
        """Note what to do.

        Args:
            answer: Yields the answers to one request; what it raises ends the stream.
            most: Requests in work at a time.
            most_bytes: Of all requests in work; one alone may have more.
        """
        self._answer = answer
        self._most, self._most_bytes = most, most_bytes
        self._ready: asyncio.Queue[Response | _Failure | None] = asyncio.Queue(maxsize=1)
        self._in_work: dict[asyncio.Task[None], int] = {}  # and the bytes of each
        self._has_changed = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._is_left = False

    async def answers(
        self, requests: AsyncIterator[wire.ModelInferRequest]
    ) -> AsyncGenerator[Response, None]:
        """Yield the answers to all requests; those to one are in order, those to several in none.

        When it is left before its end, nothing stays in work.

        Args:
            requests: As they come. What it raises ends the stream, after the answers to what was
                read before.
        """
        self._reading = asyncio.create_task(self._read(requests))
        try:
            while (ready := await self._ready.get()) is not None:
                if isinstance(ready, _Failure):
                    raise ready.error
                yield ready
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Leave off, whatever is in work."""
        self._is_left = True
        if self._reading is not None:
            self._reading.cancel()
        for task in [*self._in_work]:
            task.cancel()

    async def _read(self, requests: AsyncIterator[wire.ModelInferRequest]) -> None:
        end = None
        try:
            async for request in requests:
                await self._begin(request)
        except (Exception, asyncio.CancelledError) as error:
            end = self._failure(error)
        while self._in_work:
            await self._change()
        await self._ready.put(end)

    async def _begin(self, request: wire.ModelInferRequest) -> None:
        size_bytes = request.ByteSize()
        while self._in_work and not self._has_room(size_bytes):
            await self._change()
        task = asyncio.create_task(self._work(request))
        self._in_work[task] = size_bytes
        task.add_done_callback(self._leave)

    def _has_room(self, size_bytes: int) -> bool:
        held_bytes = sum(self._in_work.values())
        return len(self._in_work) < self._most and held_bytes + size_bytes <= self._most_bytes

    async def _work(self, request: wire.ModelInferRequest) -> None:
        try:
            async with aclosing(self._answer(request)) as answers:
                async for answer in answers:
                    await self._ready.put(answer)
        except (Exception, asyncio.CancelledError) as error:
            await self._ready.put(self._failure(error))

    def _failure(self, error: Exception | asyncio.CancelledError) -> _Failure:
        """What ends the stream for its caller.

        Raises:
            CancelledError: Nobody reads any more.
        """
        if not isinstance(error, asyncio.CancelledError):
            return _Failure(error)
        if self._is_left:
            raise error
        # Something that was waited for was cancelled, by no wish of the caller's. Unsaid, its
        # request would have no answer in a stream that ends well, or the stream would never end.
        failure = RuntimeError("what a request of the stream waited for was cancelled")
        failure.__cause__ = error
        return _Failure(failure)

    def _leave(self, task: asyncio.Task[None]) -> None:
        del self._in_work[task]
        self._has_changed.set()

    async def _change(self) -> None:
        self._has_changed.clear()
        await self._has_changed.wait()
