"""Waiting for threads: the same as asyncio's own, but nothing of it is left to the collector."""

import asyncio
import gc
import weakref
from concurrent.futures import Future

import pytest

from foretell.runtime.queues.scheduler import Scheduler
from foretell.runtime.queues.work import Row
from foretell.server.calls.awaiting import result_of


class Held:
    """Something that hangs on a request."""


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_result_and_an_error_arrive_whether_they_were_there_before_or_not():
    async def run():
        before, later, failed = Future(), Future(), Future()
        before.set_result(1)
        failed.set_exception(ValueError("no"))
        loop = asyncio.get_running_loop()
        waiting = asyncio.create_task(result_of(later))
        await asyncio.sleep(0)
        await loop.run_in_executor(None, later.set_result, 2)
        with pytest.raises(ValueError, match="no"):
            await result_of(failed)
        return await result_of(before), await waiting

    assert asyncio.run(run()) == (1, 2)


def test_whoever_is_cancelled_cancels_and_what_is_cancelled_cancels():
    async def run():
        left, gone = Future(), Future()
        tasks = [asyncio.create_task(result_of(done)) for done in (left, gone)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        gone.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return left.cancelled(), tasks[1].cancelled()

    assert asyncio.run(run()) == (True, True)


@pytest.mark.parametrize("ends", ["done", "cancelled"])
def test_a_request_that_is_over_needs_no_collector(no_collector, ends):
    """Thousands of calls would else be cleared away at once, while everybody waits."""
    scheduler = Scheduler(threads=1)

    def run(batch):
        batch.put(0)

    async def ask():
        request = scheduler.admit()
        request.caller = Held()
        if ends == "cancelled":
            request.cancel()
        else:
            request.begin([Row(run, None, None)])
        await asyncio.gather(result_of(request.done), return_exceptions=True)
        return weakref.ref(request.caller)

    held = asyncio.run(ask())
    assert scheduler.close(60.0)  # its thread may have had it in its hands
    assert held() is None
    assert scheduler.num_waiting == 0
