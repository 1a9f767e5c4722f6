"""The translator as any client sees it: a real server, a real port, raw messages."""

import logging
import threading
import time

import grpc
import numpy as np
import pytest

from foretell.data.errors import OptionError
from foretell.protos.arrays import unpack_doubles
from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import DescribeModelRequest, ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.server.options import ServerOptions

ONE_WORKER = ServerOptions(listen="127.0.0.1:0", workers=1)
MALFORMED = b"\xff" * 100
LONG = f"{'x' * 30} " * 3000  # more parts than gRPC sends to one who doesn't read


def translate(channel, *sentences, **fields):
    return TranslatorStub(channel).Translate(wire.TranslateRequest(sentences=sentences, **fields))


def texts(response):
    return [translation.hypotheses[0].text for translation in response.translations]


@pytest.mark.parametrize("raw", [False, True])
def test_answers_stand_in_order_with_all_that_was_found(serving, make_translator, raw):
    options = wire.TranslateOptions(n_best=2, attention=True)
    translator = make_translator()
    with serving(ende=translator) as channel:
        response = translate(channel, "abc de", "x", options=[options], raw_answer=raw)
    assert (response.model, response.version) == ("ende", 1)
    assert response.provider == "FakeExecutionProvider"
    assert [translation.position for translation in response.translations] == [0, 1]
    first, second = response.translations[0].hypotheses
    assert (first.text, list(first.tokens)) == ("cba ed", ["▁cba", "▁ed"])
    assert (second.text, list(second.tokens)) == ("cba ed!", ["▁cba", "▁ed!"])
    assert first.finish_reason == wire.FinishReason.FINISH_REASON_EOS
    assert second.finish_reason == wire.FinishReason.FINISH_REASON_LENGTH
    assert list(first.token_log_probs) == [-1 / 3, -1 / 4, -1 / 5]
    assert first.log_prob == sum(first.token_log_probs)
    assert first.score == first.log_prob / 3
    assert list(response.translations[0].source_tokens) == ["▁abc", "▁de"]
    weights = unpack_doubles(first.attention, "", [])
    expected = np.random.default_rng(0).random((2, 2), np.float32)
    assert weights.tolist() == expected.ravel().tolist()
    assert bool(first.attention.raw) is raw


def test_attention_stays_away_unless_asked_for_and_where_there_is_none(serving, make_translator):
    with serving(with_=make_translator(), none=make_translator(has_attention=False)) as channel:
        plain = translate(channel, "a", model="with_")
        asked = translate(
            channel, "a", model="none", options=[wire.TranslateOptions(attention=True)]
        )
    for response in (plain, asked):
        assert not response.translations[0].hypotheses[0].HasField("attention")


def test_bad_sentences_never_hurt_the_good_ones(serving, make_translator):
    """One bad item must not fail a batch; the others keep their order and their places."""
    options = ServerOptions(listen="127.0.0.1:0", max_characters=20)
    translator = make_translator(max_source_length=4)
    with serving(ende=translator, options=options) as channel:
        response = translate(channel, "ab", "a b c d", "", "x" * 21, "-", "cd")
    assert texts(response) == ["ba", "", "-", "dc"]
    assert [one.position for one in response.translations] == [0, 2, 4, 5]
    assert [one.copied for one in response.translations] == [False, False, True, False]
    errors = {error.position: error.reason for error in response.errors}
    assert list(errors) == [1, 3]
    assert "the source has 5 tokens; the model takes at most 4" in errors[1]
    assert "it has 21 characters" in errors[3]


def test_a_source_that_was_cut_says_so(serving, make_translator):
    with serving(ende=make_translator(max_source_length=4)) as channel:
        response = translate(
            channel, "a b c d", "a", options=[wire.TranslateOptions(truncate_source=True)]
        )
    assert [one.truncated for one in response.translations] == [True, False]


def test_control_tokens_as_text_arrive_as_text(serving, make_translator):
    """What looks like a token of control is text (HB03); the wire changes no letter of it."""
    odd = ["</s>", "<pad> x", "\u2028a\u0085", "[EOS]", "\u0000", "é e\u0301", "🙂 x"]
    translator = make_translator()
    with serving(ende=translator) as channel:
        translate(channel, *odd)
    assert translator.calls[0][0] == odd


def test_places_and_options_reach_the_translator(serving, make_translator):
    translator = make_translator()
    options = [wire.TranslateOptions(seed=seed) for seed in (3, 4)]
    with serving(ende=translator) as channel:
        translate(channel, "a", "b", options=options, first_place=40)
    sentences, settings, first_place = translator.calls[0]
    assert (sentences, first_place) == (["a", "b"], 40)
    assert [one.seed for one in settings] == [3, 4]


@pytest.mark.parametrize(
    "fields",
    [
        {"sentences": []},
        {"sentences": ["a"] * 1025},
        {"sentences": ["a"], "options": [wire.TranslateOptions(beam_size=65)]},
        {"sentences": ["a"], "options": [wire.TranslateOptions()] * 2},
    ],
)
def test_a_request_that_is_wrong_as_a_whole_is_an_invalid_argument(
    serving, make_translator, fields
):
    translator = make_translator()
    with serving(ende=translator) as channel, pytest.raises(grpc.RpcError) as caught:
        TranslatorStub(channel).Translate(wire.TranslateRequest(**fields))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not translator.calls


def test_each_kind_of_model_says_what_it_is(
    serving, make_translator, make_forecaster, make_request
):
    with serving(ende=make_translator(), demand=make_forecaster()) as channel:
        stub = TranslatorStub(channel)
        pair = wire.SentencePair(source="a", target="b")
        asked = [
            lambda: translate(channel, "a", model="demand"),
            lambda: list(stub.TranslateStream(wire.TranslateStreamRequest(model="demand"))),
            lambda: stub.Score(wire.ScoreRequest(model="demand", pairs=[pair])),
        ]
        for ask in asked:
            with pytest.raises(grpc.RpcError, match="demand is a forecaster, no tran") as caught:
                ask()
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        with pytest.raises(grpc.RpcError, match="ende is a translator, no forecaster") as caught:
            ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}, model="ende"))
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        with pytest.raises(grpc.RpcError, match=r"there is no model 'x'; there are: demand"):
            translate(channel, "a", model="x")


def test_a_translator_is_described_with_the_servers_limits(serving, make_translator):
    options = ServerOptions(
        listen="127.0.0.1:0", max_sentences=7, max_characters=8, max_beam_size=9
    )
    translator = make_translator(training={"bleu": 40.1})
    with serving(ende=translator, options=options) as channel:
        description = ModelsStub(channel).Describe(DescribeModelRequest())
    assert description.kind == "translator"
    assert not description.HasField("forecaster")
    about = description.translator
    assert (about.arch, about.vocab_size) == ("recurrent", 100)
    assert (about.max_source_length, about.max_target_length) == (50, 60)
    assert (about.src_language, about.tgt_language) == ("en", "ne")
    assert about.has_attention
    assert (about.max_sentences, about.max_characters, about.max_beam_size) == (7, 8, 9)
    assert '"bleu": 40.1' in description.manifest_json


def test_pairs_are_scored_and_bad_ones_refused_alone(serving, make_translator):
    pairs = [("a b", "x y z"), ("bad", "x"), ("", "")]
    request = wire.ScoreRequest(
        pairs=[wire.SentencePair(source=source, target=target) for source, target in pairs]
    )
    with serving(ende=make_translator()) as channel:
        response = TranslatorStub(channel).Score(request)
    first, last = response.scores
    assert (first.position, last.position) == (0, 2)
    assert list(first.tokens) == ["▁x", "▁y", "▁z"]
    assert list(first.token_log_probs) == [-0.1 * n for n in (1, 2, 3, 4)]
    assert first.log_prob == sum(first.token_log_probs)
    assert first.score == first.log_prob / 4
    assert list(last.tokens) == []
    (error,) = response.errors
    assert (error.position, error.reason) == (1, "the source is bad; send a good one.")


def test_an_answer_over_the_limit_is_refused_before_it_is_computed(serving, make_translator):
    translator = make_translator()
    options = ServerOptions(listen="127.0.0.1:0", max_message_bytes=20_000)
    attention = wire.TranslateOptions(n_best=5, attention=True)
    with serving(ende=translator, options=options) as channel:
        with pytest.raises(grpc.RpcError, match=r"may have [\d,]+ bytes.*at most 20,000") as caught:
            translate(channel, "a b c " * 20, options=[attention])
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "no attention" in caught.value.details()
        assert not translator.calls
        assert texts(translate(channel, "ab")) == ["ba"]


def test_faults_of_ours_tell_a_request_id_and_nothing_else(serving, make_translator, caplog):
    translator = make_translator(error=RuntimeError("secret: /srv/models/key"))
    with (
        caplog.at_level(logging.ERROR, "foretell"),
        serving(ende=translator) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        translate(channel, "a")
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in caught.value.details()
    assert "secret" in caplog.text


def test_mistakes_that_only_the_model_can_see_keep_their_kind(serving, make_translator):
    translator = make_translator(error=OptionError("banned text ' ' has no pieces."))
    with serving(ende=translator) as channel, pytest.raises(grpc.RpcError) as caught:
        translate(channel, "a")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert ("foretell-error-kind", "OptionError") in caught.value.trailing_metadata()


@pytest.mark.parametrize(
    "method", ["Translate", "Score", "TranslateStream"], ids=lambda method: method
)
def test_malformed_bytes_are_told_in_our_words(serving, make_translator, method):
    """Python's own text tells a caller nothing, and others what the server is made of."""
    with serving(ende=make_translator()) as channel:
        path = f"/foretell.v1.Translator/{method}"
        # A unary method answers a caller that expects a stream as well.
        with pytest.raises(grpc.RpcError) as caught:
            next(channel.unary_stream(path)(MALFORMED))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"bytes are no message that {path} takes" in caught.value.details()
        assert "google" not in caught.value.details()
        assert texts(translate(channel, "ab")) == ["ba"]


def test_a_text_that_is_no_unicode_is_told_in_our_words(serving, make_translator):
    content = wire.TranslateRequest(sentences=["abc"]).SerializeToString().replace(b"b", b"\xff")
    with serving(ende=make_translator()) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/foretell.v1.Translator/Translate")(content)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "utf" not in caught.value.details().lower()


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
        with pytest.raises(grpc.RpcError) as caught:
            list(TranslatorStub(channel).TranslateStream(request, timeout=0.3))
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert translator.closed.wait(20)
    assert translator.steps < 400


def test_a_stream_that_waits_for_a_worker_and_is_given_up_is_never_begun(serving, make_translator):
    begun, go_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        go_on.wait(20)

    busy, waiting = make_translator(before_step=hold), make_translator()
    with serving(busy=busy, waiting=waiting, options=ONE_WORKER) as channel:
        first = stream(channel, "a", model="busy")
        assert begun.wait(20)
        given_up = stream(channel, "a", model="waiting")
        let_the_server_hear(channel)
        given_up.cancel()
        let_the_server_hear(channel)
        go_on.set()
        assert [one.part.text for one in first] == ["a", ""]
        assert texts(translate(channel, "ab", model="busy")) == ["ba"]
    assert waiting.steps == 0


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
