"""Reading and writing in turns: nobody's large requests hold up everybody's small ones."""

import asyncio
import threading

import grpc
import numpy as np
import pytest

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.runtime.search.stopping import StoppedError
from foretell.server.calls.readers import Readers
from foretell.server.options import ServerOptions

WAIT_S = 60.0


class Work:
    """Pieces of work that end when they are told to, and note the order in which they begin."""

    def __init__(self):
        self.begun, self.gates, self.lock = [], {}, threading.Lock()
        self.news = threading.Semaphore(0)

    def piece(self, name):
        gate = self.gates.setdefault(name, threading.Event())

        def run():
            with self.lock:
                self.begun.append(name)
            self.news.release()
            assert gate.wait(WAIT_S)
            return name

        return run

    async def next_one(self):
        """Wait until one more has begun; which one it is."""
        assert await asyncio.to_thread(self.news.acquire, timeout=WAIT_S)
        with self.lock:
            return self.begun[-1]

    def end(self, *names):
        for name in names:
            self.gates[name].set()


@pytest.fixture
def work():
    work = Work()
    yield work
    work.end(*work.gates)


def start(readers, work, name, *, is_large=False):
    """Begin a piece named as its caller and a number, such as a1, without waiting for it."""
    return asyncio.ensure_future(readers.run(work.piece(name), name[0], is_large=is_large))


async def come(readers, work, *names, is_large=False):
    """Begin pieces in this order."""
    tasks = []
    for name in names:
        tasks.append(start(readers, work, name, is_large=is_large))
        await asyncio.sleep(0)
    return tasks


def test_callers_take_turns(work):
    async def ask():
        readers = Readers()
        tasks = await come(readers, work, "a1", "a2", "a3", "a4", "b1", "c1", "b2")
        for _ in range(2):
            await work.next_one()
        order = []
        for name in ("a1", "a2", "a3", "b1", "c1"):
            work.end(name)
            order.append(await work.next_one())
        work.end("b2", "a4")
        assert order == ["a3", "b1", "c1", "a4", "b2"]
        assert await asyncio.gather(*tasks) == ["a1", "a2", "a3", "a4", "b1", "c1", "b2"]
        readers.close()

    asyncio.run(ask())


def test_large_pieces_leave_a_thread_to_small_ones(work):
    async def ask():
        readers = Readers()
        large = await come(readers, work, "a1", "a2", "b1", is_large=True)
        assert await work.next_one() == "a1"
        for name in ("a3", "c1", "b2"):
            small = start(readers, work, name)
            assert await work.next_one() == name
            work.end(name)
            assert await small == name
        work.end("a1")
        assert await work.next_one() == "a2"  # his second turn came before the other's first
        work.end("a2")
        assert await work.next_one() == "b1"
        work.end("b1")
        assert await asyncio.gather(*large) == ["a1", "a2", "b1"]
        readers.close()

    asyncio.run(ask())


def test_who_leaves_while_he_waits_has_nothing_run(work):
    async def ask():
        readers = Readers()
        first, second, third = await come(readers, work, "a1", "a2", "b1", is_large=True)
        assert await work.next_one() == "a1"
        second.cancel()
        first.cancel()  # goes on in its thread, which isn't free before it ends
        with pytest.raises(asyncio.CancelledError):
            await first
        await asyncio.sleep(0)
        assert work.begun == ["a1"]
        work.end("a1")
        assert await work.next_one() == "b1"
        work.end("b1")
        assert await third == "b1"
        assert work.begun == ["a1", "b1"]
        readers.close()

    asyncio.run(ask())


@pytest.mark.parametrize("end", ["cancelled", "late"])
def test_planning_ends_with_its_call(serving, make_forecaster, make_request, end):
    """One that reads for nobody would keep its thread from others."""
    begun, ended = threading.Event(), threading.Event()

    class Endless(make_forecaster):
        def plan_forecast(self, rows, future, options, *, on_step=None):
            begun.set()
            try:
                while True:
                    on_step()
            except StoppedError:
                ended.set()
                raise

    options = ServerOptions(listen="127.0.0.1:0")
    with serving(options=options, demand=Endless()) as channel:
        request = make_request({"a": np.arange(2000.0)}, raw=True)
        timeout_s = 1.0 if end == "late" else WAIT_S
        call = ForecasterStub(channel).Forecast.future(request, timeout=timeout_s)
        assert begun.wait(WAIT_S)
        if end == "cancelled":
            call.cancel()
        assert ended.wait(WAIT_S)
        wanted = {"cancelled": "CANCELLED", "late": "DEADLINE_EXCEEDED"}[end]
        assert call.code() is grpc.StatusCode[wanted]
