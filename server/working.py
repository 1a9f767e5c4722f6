"""Computes in a worker thread for a call, and tells what is found while it is being found."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Executor
from contextlib import closing
from typing import TypeVar

from foretell.server.call import Call

Answer = TypeVar("Answer")


async def stream_from_worker(
    steps: Callable[[], Generator[Answer | None, None, None]],
    workers: Executor,
    call: Call,
) -> AsyncIterator[Answer]:
    """Run a computation in a worker and yield what it finds, in order.

    The worker never waits for a slow reader, so what it found may queue up: give it computations
    whose whole answer is small. When the call is over, whatever ended it, the computation is closed
    at its next step; one that waits for a worker is never begun.

    Args:
        steps: Makes the computation; it yields None for a step that found nothing.
        workers: Where it runs.
        call: Which waits for it.

    Raises:
        Exception: As the computation raises it, after all that it found before.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Queue[Answer | None] = asyncio.Queue()

    def work() -> None:
        try:
            with closing(steps()) as computation:
                for item in computation:
                    if call.is_over.is_set():
                        break
                    if item is not None:
                        loop.call_soon_threadsafe(found.put_nowait, item)
        finally:
            loop.call_soon_threadsafe(found.put_nowait, None)

    working = loop.run_in_executor(workers, work)
    try:
        while (item := await found.get()) is not None:
            yield item
        await working
    finally:
        working.cancel()
