"""Computes in worker threads for calls, and stops where nobody waits for the answer any more."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Executor
from contextlib import closing
from typing import TypeVar

import grpc

Answer = TypeVar("Answer")
Check = Callable[[], None]


class CallOverError(Exception):
    """The call that a worker computes for is over; nobody gets to see this."""


async def run_in_worker(
    compute: Callable[[Check], Answer], workers: Executor, context: grpc.aio.ServicerContext
) -> Answer:
    """Compute an answer in a worker; what waits for a worker when the call ends is never begun.

    Args:
        compute: Gets a function to call now and then, which raises once the call is over.
        workers: Where it runs.
        context: Of the call.
    """
    is_over = _end_of(context)

    def check() -> None:
        if is_over.is_set():
            raise CallOverError

    return await asyncio.get_running_loop().run_in_executor(workers, compute, check)


async def stream_from_worker(
    steps: Callable[[], Generator[Answer | None, None, None]],
    workers: Executor,
    context: grpc.aio.ServicerContext,
) -> AsyncIterator[Answer]:
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
    found: asyncio.Queue[Answer | None] = asyncio.Queue()
    is_over = _end_of(context)

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
        working.cancel()


def _end_of(context: grpc.aio.ServicerContext) -> threading.Event:
    """Is set when the call is over, also where no exception tells it: while gRPC writes."""
    is_over = threading.Event()
    context.add_done_callback(lambda _: is_over.set())
    return is_over
