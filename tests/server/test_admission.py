"""Who is let in to a model, who is not, and what becomes of who is late, or leaves."""

import asyncio
import threading
import time
from contextlib import contextmanager

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from foretell.data.text.number_words import english_words
from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.runtime import load
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

WAIT_S = 60.0


class Gate:
    """Holds a fake's steps until it is opened; tells when the first one has come."""

    def __init__(self):
        self.come, self.go = threading.Event(), threading.Event()

    def __call__(self):
        self.come.set()
        assert self.go.wait(WAIT_S)


class Desk:
    """A server of one instance a model, and what it counts."""

    def __init__(self, channel, repository):
        self.channel = channel
        self._statistics = repository.observer.statistics

    def ask(self, *sentences, timeout=WAIT_S, **fields):
        request = wire.TranslateRequest(sentences=sentences, **fields)
        return TranslatorStub(self.channel).Translate.future(request, timeout=timeout)

    def infer(self, text, priority):
        request = inference_pb2.ModelInferRequest(model_name="ende")
        request.parameters["priority"].int64_param = priority
        tensor = request.inputs.add(name="sentences", datatype="BYTES", shape=[1])
        tensor.contents.bytes_contents.append(text.encode())
        method = self.channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=inference_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=inference_pb2.ModelInferResponse.FromString,
        )
        return method.future(request, timeout=WAIT_S)

    def statistics(self, model="ende"):
        return self._statistics.of(model, 1)

    def wait_for_waiting(self, count):
        end = time.monotonic() + WAIT_S
        while self.statistics().waiting != count:
            assert time.monotonic() < end
            time.sleep(0.005)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.go.set()


@pytest.fixture
def desk():
    @contextmanager
    def serve(limits=None, **models):
        repository = Repository([Model(name, 1, model) for name, model in models.items()])
        options = ServerOptions(listen="127.0.0.1:0", instances=1, **(limits or {}))
        with (
            serve_in_background(repository, options) as address,
            grpc.insecure_channel(address) as channel,
        ):
            yield Desk(channel, repository)

    return serve


def texts(answer):
    return [one.hypotheses[0].text for one in answer.result().translations]


def retry_ms(error):
    trailers = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    retry = error_details_pb2.RetryInfo()
    assert any(one.Unpack(retry) for one in status.details)
    return retry.retry_delay.ToMilliseconds()


def test_a_full_queue_refuses_at_once_and_says_when_to_come_again(desk, make_translator, gate):
    with desk({"max_queue": 2}, ende=make_translator(before_step=gate)) as server:
        asked = [server.ask("ab")]
        assert gate.come.wait(WAIT_S)
        asked += [server.ask("cd"), server.ask("ef")]
        server.wait_for_waiting(2)
        error = server.ask("gh").exception()
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "Exceeds maximum queue size: 2 requests wait, and at most 2 may" in error.details()
        assert retry_ms(error) >= 1
        gate.go.set()
        assert [texts(one) for one in asked] == [["ba"], ["dc"], ["fe"]]
        assert texts(server.ask("gh")) == ["hg"]
        statistics = server.statistics()
    assert (statistics.success.count, statistics.failures) == (4, {"REJECTED": 1})


def test_a_full_model_is_no_matter_for_another(desk, make_translator, gate):
    busy, idle = make_translator(before_step=gate), make_translator()
    with desk({"max_queue": 1}, ende=busy, idle=idle) as server:
        first = server.ask("ab", model="ende")
        assert gate.come.wait(WAIT_S)
        second = server.ask("cd", model="ende")
        server.wait_for_waiting(1)
        assert texts(server.ask("ab", model="idle")) == ["ba"]
        gate.go.set()
        assert (texts(first), texts(second)) == (["ba"], ["dc"])


def test_bytes_are_bounded_too(desk, make_translator, gate):
    with desk({"max_queue_bytes": 1000}, ende=make_translator(before_step=gate)) as server:
        first = server.ask("a" * 2000)  # more than all may have together, but alone
        assert gate.come.wait(WAIT_S)
        error = server.ask("ab").exception()
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "more than 1,000" in error.details()
        gate.go.set()
        assert texts(first) == ["a" * 2000]
        assert texts(server.ask("ab")) == ["ba"]


def test_a_request_whose_time_is_over_in_the_queue_is_never_computed(desk, make_translator, gate):
    """HD02: a server must not work through what nobody waits for."""
    translator = make_translator(before_step=gate)
    with desk(ende=translator) as server:
        first = server.ask("ab")
        assert gate.come.wait(WAIT_S)
        late = [server.ask("late", timeout=0.2) for _ in range(8)]
        for answer in late:
            assert answer.exception().code() is grpc.StatusCode.DEADLINE_EXCEEDED
        server.wait_for_waiting(0)
        gate.go.set()
        assert texts(first) == ["ba"]
        assert texts(server.ask("cd")) == ["dc"]
        statistics = server.statistics()
    assert translator.answered == ["ba", "dc"]
    assert (statistics.success.count, statistics.in_work) == (2, 0)


def test_who_leaves_makes_room_at_once(desk, make_translator, gate):
    """While the one before still runs: a slot must not stay taken until the queue moves."""
    translator = make_translator(before_step=gate)
    with desk({"max_queue": 1}, ende=translator) as server:
        first = server.ask("ab")
        assert gate.come.wait(WAIT_S)
        for _ in range(10):
            left = server.ask("left")
            server.wait_for_waiting(1)
            left.cancel()
            server.wait_for_waiting(0)
        gate.go.set()
        assert texts(first) == ["ba"]
    assert translator.answered == ["ba"]


def test_a_batch_that_all_have_left_is_stopped(desk, make_translator):
    """The step that runs is the last one, and the instance is free for others."""
    begun = threading.Event()

    def pause():
        begun.set()
        time.sleep(0.01)

    translator = make_translator(before_step=pause)
    with desk(ende=translator) as server:
        left = server.ask(*["left"] * 90)
        assert begun.wait(WAIT_S)
        left.cancel()
        assert texts(server.ask("ab")) == ["ba"]
    assert len(translator.answered) < 90


def test_a_smaller_number_of_priority_goes_first(desk, make_translator, gate):
    """Over the Open Inference Protocol, whose clients know the parameter; without it, it is 2."""
    translator = make_translator(before_step=gate)
    with desk(ende=translator, idle=make_translator()) as server:
        asked = [server.ask("ab", model="ende")]
        assert gate.come.wait(WAIT_S)
        asked += [server.infer("text3", 3), server.infer("text1", 1)]
        asked.append(server.ask("text2", model="ende"))
        while len(translator.calls) < 4:  # all have been read; they come to the queue before this:
            assert not asked[0].done()
        texts(server.ask("ab", model="idle"))
        gate.go.set()
        assert [one.exception() for one in asked] == [None] * 4
    assert translator.answered == ["ba", "1txet", "2txet", "3txet"]


def test_a_stream_counts_like_any_other(desk, make_translator, gate):
    with desk({"max_queue": 1}, ende=make_translator(before_step=gate)) as server:
        stub = TranslatorStub(server.channel)
        request = wire.TranslateStreamRequest(sentence="ab")
        first = stub.TranslateStream(request, timeout=WAIT_S)
        assert gate.come.wait(WAIT_S)
        second = server.ask("cd")
        server.wait_for_waiting(1)
        with pytest.raises(grpc.RpcError, match="Exceeds maximum queue size"):
            next(stub.TranslateStream(request, timeout=WAIT_S))
        gate.go.set()
        assert [one.part.text for one in first] == ["ba", ""]
        assert texts(second) == ["dc"]


def test_a_batch_that_takes_too_long_is_stopped_and_its_instance_works_on(
    desk, make_forecaster, make_request, caplog
):
    hang = threading.Event()

    class Hanging(make_forecaster):
        def forecast_rows(self, rows, future, options):
            if len(rows.ids) > 1:
                assert hang.wait(WAIT_S)
            return super().forecast_rows(rows, future, options)

    with desk({"max_batch_s": 0.2}, demand=Hanging()) as server:
        stub = ForecasterStub(server.channel)
        with pytest.raises(grpc.RpcError, match="internal error") as caught:
            stub.Forecast(make_request({"a": [1, 2], "b": [1, 2]}), timeout=WAIT_S)
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        stub.Forecast(make_request({"a": [1, 2, 3]}), timeout=WAIT_S)
        assert not hang.is_set()
        hang.set()
    assert "a batch took longer than 0.2 s" in caplog.text


def test_many_callers_who_come_and_go_leave_nothing_behind(desk, make_translator):
    """Clients that vanish, in any state of their request: all slots are free again after."""

    async def vanish(target):
        async with grpc.aio.insecure_channel(target) as channel:
            stub = TranslatorStub(channel)
            for number in range(100):
                call = stub.Translate(wire.TranslateRequest(sentences=["ab"] * (number % 7 + 1)))
                await asyncio.sleep(0.001 * (number % 5))
                call.cancel()

    with desk(ende=make_translator()) as server:
        asyncio.run(vanish(server.channel._channel.target().decode()))
        server.wait_for_waiting(0)
        for _ in range(10):
            assert texts(server.ask("ab", "cd")) == ["ba", "dc"]
        assert server.statistics().in_work == 0


def test_abandoned_translations_leave_nothing_in_work(desk, translator_bundle_path):
    """HD02: long requests whose callers have left by deadline or by hand, then a short one."""
    translator = load(translator_bundle_path, device="cpu", threads=1)
    session = translator._decoder.session
    run, runs, begun, may_go_on = session.run, [], threading.Event(), threading.Event()
    may_go_on.set()

    def counted(*arguments, **options):
        runs.append(None)
        begun.set()
        may_go_on.wait(WAIT_S)  # however fast the machine, nothing is done before its caller leaves
        return run(*arguments, **options)

    session.run = counted
    lines = [f"{english_words(at)} {english_words(999 - at)}" for at in range(200)]
    beam = [wire.TranslateOptions(beam_size=8)]
    with desk(ende=translator) as server:
        assert texts(server.ask("one"))
        cost = len(runs)
        begun.clear()
        may_go_on.clear()
        late = [server.ask(*lines, options=beam, timeout=2) for _ in range(4)]
        left = [server.ask(*lines, options=beam) for _ in range(4)]
        assert begun.wait(WAIT_S)
        for answer in left:
            answer.cancel()
        for answer in late:
            assert answer.exception().code() is grpc.StatusCode.DEADLINE_EXCEEDED
        server.wait_for_waiting(0)
        may_go_on.set()
        assert texts(server.ask("one"))  # after what ran last, on the only instance
        before = len(runs)
        assert texts(server.ask("one"))
        assert len(runs) - before == cost
        assert server.statistics().in_work == 0
