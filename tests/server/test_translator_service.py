"""The translator as any client sees it: a real server, a real port, raw messages."""

import logging

import grpc
import numpy as np
import pytest

from foretell.data.errors import OptionError
from foretell.protos.arrays import unpack_doubles
from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import DescribeModelRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.server.options import ServerOptions

MALFORMED = b"\xff" * 100


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
        with pytest.raises(grpc.RpcError, match=r"there is no model 'x'; there are: 'demand'"):
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
