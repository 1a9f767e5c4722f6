"""Carries what a worker finds, step by step, to the event loop that sends it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Executor
from contextlib import closing
from typing import TypeVar

import grpc

Item = TypeVar("Item")


async def stream_from_worker(
    steps: Callable[[], Generator[Item | None, None, None]],
    workers: Executor,
    context: grpc.aio.ServicerContext,
) -> AsyncIterator[Item]:
    """Run a computation in a worker and yield what it finds, in order.

    The worker never waits for a slow reader, so what it found may queue up: give it computations
    whose whole answer is small. When the call is over, whatever ended it, the computation is closed
    at its next step; one that waits for a worker is never begun.

    Args:
        steps: Makes the computation; it yields None for a step that found nothing.
        workers: Where it runs.
        context: Of the call.

    Raises:
        Exception: As the computation raises it, after all that it found before.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Queue[Item | None] = asyncio.Queue()
    is_over = threading.Event()
    # The call may end while gRPC writes, where no exception reaches this function.
    context.add_done_callback(lambda _: is_over.set())

    def work() -> None:
        try:
            with closing(steps()) as computation:
                for item in computation:
                    if is_over.is_set():
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
        is_over.set()
        working.cancel()
