"""Waits on the event loop for what a thread does, and leaves nothing behind that holds itself."""

import asyncio
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

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


def _wake(loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[None], _: object) -> None:
    if not loop.is_closed():  # or nobody waits any more
        loop.call_soon_threadsafe(_settle, waiting)


def _settle(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
