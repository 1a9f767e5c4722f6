"""The requests of one stream run side by side: none waits for another, none is read too early."""

import asyncio
import threading
import time
from contextlib import aclosing

import grpc
import pytest

from foretell.protos.inference import inference_pb2 as wire
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub
from foretell.server.background import serve_in_background
from foretell.server.inference.streams import SideBySide
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

WAIT_S = 60.0


def sentence(text, request_id="", **parameters):
    request = wire.ModelInferRequest(model_name="ende", id=request_id)
    tensor = request.inputs.add(name="sentences", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    for name, value in parameters.items():
        request.parameters[name].bool_param = value
    return request


def until(holds):
    """Wait for what the server does by itself."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


class Gate:
    """Holds a fake's steps until it is opened, and counts those that came."""

    def __init__(self):
        self.go = threading.Event()
        self.come = threading.Semaphore(0)

    def __call__(self):
        self.come.release()
        assert self.go.wait(WAIT_S)

    def wait_for(self, count):
        for _ in range(count):
            assert self.come.acquire(timeout=WAIT_S)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.go.set()


@pytest.fixture
def serve():
    """Serves a translator, `ende`; yields a stub, and the account of the model."""
    servers = []

    def serve(model, **limits):
        repository = Repository([Model("ende", 1, model)])
        server = serve_in_background(repository, ServerOptions(listen="127.0.0.1:0", **limits))
        channel = grpc.insecure_channel(server.__enter__())
        servers.append((server, channel))
        stub = GRPCInferenceServiceStub(channel)
        return stub, lambda: repository.observer.statistics.of("ende", 1)

    yield serve
    for server, channel in servers:
        channel.close()
        server.__exit__(None, None, None)


def test_a_quick_request_overtakes_a_slow_one(serve, make_translator, gate):
    """A stream is one connection's worth of work, not one queue for a single clerk."""
    model = make_translator()
    model.before_step = lambda: gate() if not model.steps else None
    stub, _ = serve(model, instances=2, batching=False)
    is_begun = threading.Event()

    def requests():
        yield sentence("slow", "a")
        assert is_begun.wait(WAIT_S)
        yield sentence("quick", "b")

    call = stub.ModelStreamInfer(requests())
    gate.wait_for(1)
    model.steps = 1  # only the first one meets the gate
    is_begun.set()
    assert next(call).infer_response.id == "b"
    gate.go.set()
    assert [answer.infer_response.id for answer in call] == ["a"]


def test_a_streams_requests_share_a_batch(serve, make_translator, gate):
    """So that one client with one stream gets what batching gives to many."""
    model = make_translator(before_step=gate)
    stub, account = serve(model, instances=1)
    call = stub.ModelStreamInfer(iter([sentence(f"w{at}", str(at)) for at in range(9)]))
    gate.wait_for(1)
    until(lambda: account().waiting + sum(model.batches) == 9)
    gate.go.set()
    answers = list(call)
    assert {answer.infer_response.id for answer in answers} == {str(at) for at in range(9)}
    assert not any(answer.error_message for answer in answers)
    assert max(model.batches) >= 4, model.batches  # the first took what was there by then


def test_a_stream_alone_never_fills_the_queue(serve, make_translator, gate):
    """What is too much to begin is not read; a refusal would be the server's own doing."""
    stub, account = serve(make_translator(before_step=gate), instances=1, max_queue=3)
    call = stub.ModelStreamInfer(iter([sentence("one", str(at)) for at in range(40)]))
    gate.wait_for(1)
    gate.go.set()
    answers = list(call)
    assert sorted(int(answer.infer_response.id) for answer in answers) == [*range(40)]
    assert not [answer.error_message for answer in answers if answer.error_message]
    assert account().failures == {}


@pytest.mark.parametrize("parts", [False, True])
def test_a_stream_that_is_cancelled_leaves_nothing_behind(serve, make_translator, gate, parts):
    model = make_translator(before_step=gate)
    stub, account = serve(model, instances=1)
    requests = [sentence("one two", str(at), stream=parts) for at in range(10)]
    call = stub.ModelStreamInfer(iter(requests))
    gate.wait_for(1)
    until(lambda: account().in_work == 10)
    call.cancel()
    until(lambda: not account().in_work)
    gate.go.set()
    answer = stub.ModelInfer(sentence("two"))
    assert account().waiting == 0
    assert answer.outputs[0].shape == [1, 1]
    assert model.steps <= 3, "of those that left, at most the one that was running goes on"


def test_the_rest_of_a_stream_is_dropped_when_an_error_ends_it(serve, make_translator, gate):
    model = make_translator(before_step=gate)
    stub, account = serve(model, instances=1)
    requests = iter([*(sentence("one") for _ in range(5)), sentence("one", "x", nonsense=True)])
    call = stub.ModelStreamInfer(requests, metadata=(("triton_grpc_error", "true"),))
    with pytest.raises(grpc.RpcError, match="'nonsense' is not known"):
        next(call)
    until(lambda: not account().in_work)
    assert account().success.count == 0


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, WAIT_S))


class Source:
    """Requests without end, that counts how many were taken."""

    def __init__(self, size_bytes=10, most=10**6):
        self.taken = 0
        self._size_bytes, self._most = size_bytes, most

    async def __aiter__(self):
        while self.taken < self._most:
            self.taken += 1
            yield wire.ModelInferRequest(raw_input_contents=[b"x" * self._size_bytes])
            await asyncio.sleep(0)


async def settle():
    for _ in range(1000):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("size_bytes", "most_bytes", "in_work"),
    [(10, 10**9, 7), (1000, 3100, 3), (5000, 100, 1)],
)
def test_reading_stops_while_enough_is_in_work(size_bytes, most_bytes, in_work):
    """Whoever sends waits then: that is what keeps the memory of one connection bounded."""

    async def go():
        source, begun, may_end = Source(size_bytes), [], asyncio.Event()

        async def answer(request):
            begun.append(request)
            await may_end.wait()
            yield "answer"

        work = SideBySide(answer, most=7, most_bytes=most_bytes)
        async with aclosing(work.answers(source.__aiter__())) as answers:
            first = asyncio.ensure_future(anext(answers))
            await settle()
            assert (len(begun), source.taken) == (in_work, in_work + 1)
            may_end.set()
            assert await first == "answer"
            await settle()
            # One answer waits to be taken, and those of all others behind it.
            assert source.taken <= 2 * in_work + 3

    run(go())


def test_nothing_goes_on_when_a_stream_is_left():
    async def go():
        ended = []

        async def answer(request):
            try:
                yield "answer"
                await asyncio.Event().wait()
            finally:
                ended.append(request)

        source = Source(most=3)
        work = SideBySide(answer, most=7, most_bytes=10**9)
        async with aclosing(work.answers(source.__aiter__())) as answers:
            assert await anext(answers) == "answer"
            await settle()
        await settle()
        assert len(ended) == 3

    run(go())


def test_an_error_of_reading_ends_the_stream_after_what_was_read_before():
    async def requests():
        yield wire.ModelInferRequest(id="a")
        yield wire.ModelInferRequest(id="b")
        raise ValueError("unreadable")

    async def answer(request):
        await settle()
        yield request.id

    async def go():
        work = SideBySide(answer, most=7, most_bytes=10**9)
        answers = work.answers(requests())
        assert sorted([await anext(answers), await anext(answers)]) == ["a", "b"]
        with pytest.raises(ValueError, match="unreadable"):
            await anext(answers)

    run(go())


@pytest.mark.parametrize("where", ["reading", "answering"])
def test_what_is_cancelled_within_ends_the_stream_with_an_error(where):
    """Else it would end well without that answer, or never: nobody has asked for a cancellation."""

    async def cancelled():
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async def requests():
        yield wire.ModelInferRequest(id="a")
        if where == "reading":
            await cancelled()

    async def answer(request):
        yield request.id
        if where == "answering":
            await cancelled()

    async def go():
        before = asyncio.all_tasks()
        work = SideBySide(answer, most=7, most_bytes=10**9)
        answers = work.answers(requests())
        assert await anext(answers) == "a"
        with pytest.raises(RuntimeError, match="waited for was cancelled"):
            await anext(answers)
        await settle()
        assert asyncio.all_tasks() == before

    run(go())
