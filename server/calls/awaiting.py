"""Waits on the event loop for what a thread does, and leaves nothing behind that holds itself."""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from foretell.runtime.queues.work import DeadlineError

Found = TypeVar("Found")


async def result_of(done: Future[Found]) -> Found:
    """Wait until a thread has done something; whoever is cancelled meanwhile cancels it.

    `asyncio.wrap_future` does the same, but its two futures hold each other for good. With all that
    hangs on them they are garbage that only the collector finds, and it finds that of thousands of
    calls at once, while everybody waits.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()
    done.add_done_callback(partial(_wake, loop, waiting))
    try:
        await waiting
    except asyncio.CancelledError:
        done.cancel()
        raise
    if done.cancelled():
        raise asyncio.CancelledError
    return done.result()


async def in_time(deadline: float | None, found: Awaitable[Found]) -> Found:
    """Wait until a call's time is over; gRPC knows nothing of what a request itself allows.

    Args:
        deadline: On the clock of `time.monotonic`; None where there is none.
        found: What is waited for.

    Raises:
        DeadlineError: It wasn't there in time.
    """
    if deadline is None:
        return await found
    try:
        async with asyncio.timeout_at(deadline):
            return await found
    except TimeoutError as error:
        if isinstance(error, DeadlineError):
            raise
        raise DeadlineError("Request timeout expired: its answer wasn't there in time.") from error


def _wake(loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[None], _: object) -> None:
    if not loop.is_closed():  # or nobody waits any more
        loop.call_soon_threadsafe(_settle, waiting)


def _settle(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
