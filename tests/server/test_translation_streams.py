"""Translations that are told while they are found, and computations that nobody waits for."""

import logging
import threading
import time

import grpc
import pytest

from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.models_pb2 import ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.server.options import ServerOptions

ONE_WORKER = ServerOptions(listen="127.0.0.1:0", instances=1)
LONG = f"{'x' * 30} " * 3000  # more parts than gRPC sends to one who doesn't read


def translate(channel, *sentences, **fields):
    return TranslatorStub(channel).Translate(wire.TranslateRequest(sentences=sentences, **fields))


def texts(response):
    return [translation.hypotheses[0].text for translation in response.translations]


def pause():
    time.sleep(0.02)


def let_the_server_hear(channel):
    """What was sent before on this connection has arrived when these are answered."""
    for _ in range(20):
        ModelsStub(channel).List(ListModelsRequest())


def stream(channel, sentence, **fields):
    return TranslatorStub(channel).TranslateStream(
        wire.TranslateStreamRequest(sentence=sentence, **fields)
    )


def test_a_stream_tells_what_is_decided_and_then_the_whole(serving, make_translator):
    with serving(ende=make_translator()) as channel:
        *parts, last = stream(channel, "abc de f")
        whole = translate(channel, "abc de f").translations[0]
    assert [one.part.text for one in parts] == ["cba", " ed", " f"]
    assert "".join(one.part.text for one in parts) == last.translation.hypotheses[0].text
    assert [token for one in parts for token in one.part.tokens] == list(whole.hypotheses[0].tokens)
    assert last.translation == whole
    assert {(one.model, one.version, one.provider) for one in [*parts, last]} == {
        ("ende", 1, "FakeExecutionProvider")
    }


def test_parts_arrive_while_the_rest_is_being_computed(serving, make_translator):
    """Each word waits until the one before has arrived: one answer at the end would never come."""
    arrived = threading.Semaphore(1)
    translator = make_translator(before_step=lambda: arrived.acquire(timeout=20))
    words = []
    with serving(ende=translator) as channel:
        for response in stream(channel, "a b c"):
            words.append(response.part.text)
            arrived.release()
    assert words == ["a", " b", " c", ""]


def test_a_client_that_goes_away_stops_its_stream(serving, make_translator):
    """Else it holds a worker for as long as the longest translation takes."""
    translator = make_translator(before_step=pause, max_source_length=500)
    with serving(ende=translator, options=ONE_WORKER) as channel:
        answers = stream(channel, "a " * 400)
        assert next(answers).part.text == "a"
        answers.cancel()
        assert texts(translate(channel, "ab")) == ["ba"]  # the only worker is free
        assert translator.closed.is_set()
    assert translator.steps < 400


def test_a_deadline_stops_a_stream_too(serving, make_translator):
    translator = make_translator(before_step=pause, max_source_length=500)
    with serving(ende=translator, options=ONE_WORKER) as channel:
        request = wire.TranslateStreamRequest(sentence="a " * 400)
        answers = TranslatorStub(channel).TranslateStream(request, timeout=4)
        assert next(answers).part.text == "a"
        with pytest.raises(grpc.RpcError) as caught:
            list(answers)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert translator.closed.wait(20)
    assert translator.steps < 400


def test_a_stream_that_waits_for_a_worker_and_is_given_up_is_never_begun(serving, make_translator):
    begun, go_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        go_on.wait(20)

    translator = make_translator(before_step=hold)
    with serving(ende=translator, options=ONE_WORKER) as channel:
        first = stream(channel, "a")
        assert begun.wait(20)
        given_up = stream(channel, "x y z")
        let_the_server_hear(channel)
        given_up.cancel()
        let_the_server_hear(channel)
        go_on.set()
        assert [one.part.text for one in first] == ["a", ""]
        assert texts(translate(channel, "ab")) == ["ba"]
    assert translator.steps == 2


def ask_for_translations(stub):
    return stub.Translate.future(wire.TranslateRequest(sentences=["a"] * 400))


def ask_for_scores(stub):
    return stub.Score.future(wire.ScoreRequest(pairs=[wire.SentencePair()] * 400))


@pytest.mark.parametrize("ask", [ask_for_translations, ask_for_scores])
def test_a_client_that_goes_away_stops_any_computation(serving, make_translator, ask):
    begun = threading.Event()

    def pause_and_tell():
        begun.set()
        pause()

    translator = make_translator(before_step=pause_and_tell)
    with serving(ende=translator, options=ONE_WORKER) as channel:
        answer = ask(TranslatorStub(channel))
        assert begun.wait(20)
        answer.cancel()
        assert texts(translate(channel, "ab")) == ["ba"]
    assert translator.steps < 400


def test_a_reader_that_stalls_holds_no_worker(serving, make_translator):
    """It may never read on; the translation is done, and its worker takes the next."""
    translator = make_translator(max_source_length=5000)
    with serving(ende=translator, options=ONE_WORKER) as channel:
        answers = stream(channel, LONG)
        next(answers)
        assert texts(translate(channel, "ab")) == ["ba"]
        assert translator.closed.is_set()
        answers.cancel()


def test_a_reader_that_stalls_and_goes_away_stops_its_stream(serving, make_translator):
    """The news comes while gRPC waits to send, outside of all code of ours."""
    full = threading.Event()

    def hold_the_rest():
        if translator.steps > 2000:
            full.set()
            pause()

    translator = make_translator(before_step=hold_the_rest, max_source_length=5000)
    with serving(ende=translator, options=ONE_WORKER) as channel:
        answers = stream(channel, LONG)
        next(answers)
        assert full.wait(20)
        answers.cancel()
        assert translator.closed.wait(20)
    assert translator.steps < 3000


def test_a_refused_sentence_ends_its_stream_with_the_reason(serving, make_translator):
    options = ServerOptions(listen="127.0.0.1:0", max_characters=20)
    with serving(ende=make_translator(max_source_length=4), options=options) as channel:
        (by_model,) = stream(channel, "a b c d")
        (by_limit,) = stream(channel, "x" * 21)
        (blank,) = stream(channel, " ")
    assert "the source has 5 tokens" in by_model.error.reason
    assert "it has 21 characters" in by_limit.error.reason
    assert blank.translation.hypotheses[0].text == ""


def test_a_fault_in_a_stream_is_told_after_what_was_found(serving, make_translator, caplog):
    steps = iter([None, RuntimeError("secret")])

    def fail():
        if error := next(steps):
            raise error

    translator = make_translator(before_step=fail)
    with caplog.at_level(logging.ERROR, "foretell"), serving(ende=translator) as channel:
        answers = stream(channel, "a b c")
        assert next(answers).part.text == "a"
        with pytest.raises(grpc.RpcError, match="internal error, request id") as caught:
            next(answers)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" in caplog.text


def test_options_of_a_stream_are_checked_too(serving, make_translator):
    with serving(ende=make_translator()) as channel:
        with pytest.raises(grpc.RpcError, match="options: beam_size is 0") as caught:
            next(stream(channel, "a", options=wire.TranslateOptions(beam_size=0)))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
