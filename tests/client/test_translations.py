"""Translations through the clients: splitting, order, places, refusals, streams."""

import asyncio
import threading

import pytest

from foretell.client import AsyncClient, Client, RemoteError
from foretell.data.errors import OptionError
from foretell.data.text.translation import (
    RefusedSentencesError,
    TranslateOptions,
    Translation,
    TranslationPart,
)

SAMPLE = TranslateOptions(sample=True, beam_size=1, seed=7)
BLANKS = ["Good morning.", "", "   ", "\t", "-", "The shop opens at nine.", "", ""]


def describe(translations):
    """All of an answer, as it compares."""
    return [
        (
            [
                (
                    one.text,
                    one.tokens,
                    one.token_log_probs,
                    one.log_prob,
                    one.score,
                    one.finish_reason,
                    None
                    if one.attention is None
                    else (one.attention.dtype, one.attention.shape, one.attention.tobytes()),
                )
                for one in translation.hypotheses
            ],
            translation.source_tokens,
            translation.truncated,
            translation.copied,
        )
        for translation in translations
    ]


def numbered(count):
    return [f"w{number} x y z" for number in range(count)]


@pytest.mark.parametrize(
    "options",
    [
        TranslateOptions(),
        TranslateOptions(n_best=3, attention=True, length_penalty=0.3),
        TranslateOptions(truncate_source=True),
        SAMPLE,
    ],
    ids=["plain", "attention", "truncated", "sampled"],
)
def test_the_answers_are_those_in_process_to_the_last_bit(call, serving, make_translator, options):
    translator = make_translator()
    sentences = [*numbered(5), *BLANKS, "🙂 é", "</s> <pad>", "\ud83d\ude42 a", "\ud800 b"]
    if options.truncate_source:
        sentences.append("a " * 99)
    with serving(ende=translator) as address:
        answers = call(address, "translate", sentences, options)
    assert describe(answers) == describe(translator.translate(sentences, options))


def test_an_empty_list_has_an_empty_answer(call, serving, make_translator):
    with serving(ende=make_translator()) as address:
        assert call(address, "translate", []) == []
        assert call(address, "score", []) == []


def test_no_options_are_the_defaults(call, serving, make_translator):
    translator = make_translator()
    with serving(ende=translator) as address:
        call(address, "translate", ["a"])
    assert translator.calls[0][1] == [TranslateOptions()]


@pytest.mark.parametrize(
    ("client", "server"),
    [({"chunk_bytes": 10}, {}), ({}, {"max_sentences": 3}), ({}, {"max_message_bytes": 20_000})],
    ids=["chunk_bytes", "max_sentences", "max_message_bytes"],
)
def test_a_long_list_is_cut_and_no_answer_changes(call, serving, make_translator, client, server):
    """What sampling draws depends on a sentence's place in the whole list, not in its request."""
    sentences = numbered(20)
    translator = make_translator()
    expected = describe(translator.translate(sentences, SAMPLE))
    assert expected != describe(make_translator().translate(sentences[1:], SAMPLE))
    translator.calls.clear()
    with serving(ende=translator, **server) as address:
        answers = call(address, "translate", sentences, SAMPLE, options=client)
    assert describe(answers) == expected
    assert len(translator.calls) > 2
    scores = translator.score([(text, text) for text in sentences])
    with serving(ende=translator, **server) as address:
        pairs = [(text, text) for text in sentences]
        assert call(address, "score", pairs, options=client) == scores


def test_a_part_of_a_list_keeps_its_place(call, serving, make_translator):
    """Whoever sends a file in parts gets what the whole would have given."""
    sentences = numbered(9)
    translator = make_translator()
    expected = describe(translator.translate(sentences, SAMPLE))
    with serving(ende=translator, max_sentences=2) as address:
        answers = call(address, "translate", sentences[4:], SAMPLE, first_place=4)
        with pytest.raises(OptionError, match="first_place is -1; it must be 0 or more"):
            call(address, "translate", sentences, SAMPLE, first_place=-1)
    assert describe(answers) == expected[4:]


def test_a_huge_list_passes_the_servers_limits(call, serving, make_translator):
    translator = make_translator()
    with serving(ende=translator) as address:
        answers = call(address, "translate", numbered(1500))
    assert [answer.source_tokens[0] for answer in answers] == [f"▁w{i}" for i in range(1500)]
    assert max(len(sentences) for sentences, _, _ in translator.calls) == 128


def test_large_answers_are_cut_to_the_message_limit(call, serving, make_translator):
    """Attention of many hypotheses is a thousand times the size of its sentence."""
    translator = make_translator()
    options = TranslateOptions(attention=True, n_best=5)
    sentences = [f"{'a ' * 40}w{number}" for number in range(40)]
    with serving(ende=translator, max_message_bytes=300_000) as address:
        answers = call(address, "translate", sentences, options)
    assert describe(answers) == describe(translator.translate(sentences, options))


def test_options_can_be_one_a_sentence(call, serving, make_translator):
    translator = make_translator()
    settings = [TranslateOptions(n_best=number % 3 + 1) for number in range(10)]
    with serving(ende=translator, max_sentences=3) as address:
        answers = call(address, "translate", numbered(10), settings)
    assert [len(answer.hypotheses) for answer in answers] == [1, 2, 3] * 3 + [1]


def test_refused_sentences_are_named_by_their_place_in_the_whole_list(
    call, serving, make_translator
):
    translator = make_translator(max_source_length=6)
    sentences = numbered(12)
    for place in (2, 7, 11):
        sentences[place] = "a b c d e f"
    with pytest.raises(RefusedSentencesError) as expected:
        translator.translate(sentences)
    with (
        serving(ende=translator, max_sentences=3) as address,
        pytest.raises(RefusedSentencesError) as caught,
    ):
        call(address, "translate", sentences)
    assert caught.value.refusals == expected.value.refusals
    assert [refusal.position for refusal in caught.value.refusals] == [2, 7, 11]
    for answer, right in zip(caught.value.answers, expected.value.answers, strict=True):
        assert (answer is None) is (right is None)
        assert answer is None or answer.text == right.text


def test_refused_pairs_are_named_too(call, serving, make_translator):
    pairs = [("a", "b"), ("bad", "c"), ("d", "e f")]
    with (
        serving(ende=make_translator(), max_sentences=1) as address,
        pytest.raises(RefusedSentencesError, match="sentence 2: the source is bad") as caught,
    ):
        call(address, "score", pairs)
    assert [answer is None for answer in caught.value.answers] == [False, True, False]


@pytest.mark.parametrize(
    ("method", "arguments", "text"),
    [
        ("translate", ("one text",), "sentences is 'one text'.*give a list"),
        ("translate", ([1],), "sentence 1 is 1"),
        ("translate", (["a"], [SAMPLE, SAMPLE]), "2 options for 1 sentences"),
        ("translate_stream", (5,), "sentence 1 is 5"),
        ("translate_stream", ("a", None), "option 1 is None"),
        ("score", (["ab"],), "pair 1 is 'ab'"),
    ],
)
def test_what_is_no_question_is_refused_as_in_process(call, method, arguments, text):
    """Before anything is sent: nobody listens at this address."""
    with pytest.raises(OptionError, match=text):
        call("127.0.0.1:1", method, *arguments)


def test_mistakes_that_only_the_model_can_see_are_the_same_error(call, serving, make_translator):
    translator = make_translator(error=OptionError(["banned text ' ' has no pieces."]))
    with (
        serving(ende=translator) as address,
        pytest.raises(OptionError, match="banned text ' ' has no pieces"),
    ):
        call(address, "translate", ["a"])


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("translate", (["a"],)), ("translate_stream", ("a",)), ("score", ([("a", "b")],))],
)
def test_a_forecaster_can_not_translate(call, serving, make_forecaster, method, arguments):
    with (
        serving(demand=make_forecaster()) as address,
        pytest.raises(RemoteError, match="model demand is a forecaster, no translator") as caught,
    ):
        call(address, method, *arguments)
    assert caught.value.code == "FAILED_PRECONDITION"


def test_a_translator_can_not_forecast(ask, serving, make_translator):
    with (
        serving(ende=make_translator()) as address,
        pytest.raises(RemoteError, match="model ende is a translator, no forecaster") as caught,
    ):
        ask(address, None, 1)
    assert caught.value.code == "FAILED_PRECONDITION"


def test_models_are_chosen_by_name(call, serving, make_translator):
    models = {"ende": make_translator(), "enfr": make_translator()}
    with serving(**models) as address:
        call(address, "translate", ["a"], model="enfr", version=1)
        with pytest.raises(RemoteError, match="version 2 of enfr is not served"):
            call(address, "translate_stream", "a", model="enfr", version=2)
        with pytest.raises(RemoteError, match="no model is named"):
            call(address, "score", [("a", "b")])
    assert [len(model.calls) for model in models.values()] == [0, 1]


def test_a_translator_is_described(call, serving, make_translator):
    translator = make_translator(training={"bleu": 40.1})
    with serving(ende=translator) as address:
        info = call(address, "describe", "ende")
    assert info.kind == "translator"
    assert info.translator == translator.manifest.translator
    assert info.forecaster is None
    assert (info.max_sentences, info.max_characters, info.max_beam_size) == (1024, 100_000, 64)
    assert info.manifest["training"] == {"bleu": 40.1}


@pytest.mark.parametrize("sentence", ["abc de f", "", "-", "one"])
def test_the_parts_of_a_stream_are_the_text_of_its_translation(
    call, serving, make_translator, sentence
):
    translator = make_translator()
    options = TranslateOptions(n_best=2, attention=True)
    with serving(ende=translator) as address:
        *parts, last = call(address, "translate_stream", sentence, options)
    assert all(isinstance(part, TranslationPart) for part in parts)
    assert isinstance(last, Translation)
    assert describe([last]) == describe(translator.translate([sentence], options))
    if not last.copied:
        assert "".join(part.text for part in parts) == last.text
        assert sum((part.tokens for part in parts), ()) == last.hypotheses[0].tokens


def test_a_refused_sentence_is_refused_in_a_stream_too(call, serving, make_translator):
    with (
        serving(ende=make_translator(max_source_length=3)) as address,
        pytest.raises(RefusedSentencesError, match="the source has 4 tokens") as caught,
    ):
        call(address, "translate_stream", "a b c")
    assert caught.value.answers == (None,)


def test_leaving_a_stream_frees_the_server(serving, make_translator):
    translator = make_translator(before_step=lambda: threading.Event().wait(0.02))
    with serving(ende=translator, instances=1) as address, Client(address) as client:
        stream = client.translate_stream("a " * 49)
        assert next(stream).text == "a"
        stream.close()
        assert client.translate(["ab"])[0].text == "ba"
    assert translator.closed.is_set()


def test_leaving_an_asynchronous_stream_frees_the_server(serving, make_translator):
    translator = make_translator(before_step=lambda: threading.Event().wait(0.02))

    async def leave(address):
        async with AsyncClient(address) as client:
            stream = client.translate_stream("a " * 49)
            assert (await anext(stream)).text == "a"
            await stream.aclose()
            return await client.translate(["ab"])

    with serving(ende=translator, instances=1) as address:
        assert asyncio.run(leave(address))[0].text == "ba"
    assert translator.closed.is_set()


def test_an_error_ends_a_stream_after_its_parts(serving, make_translator):
    steps = iter([None, None, RuntimeError("secret")])

    def fail():
        if error := next(steps):
            raise error

    texts = []
    with serving(ende=make_translator(before_step=fail)) as address, Client(address) as client:
        stream = client.translate_stream("a b c")
        with pytest.raises(RemoteError, match="internal error, request id"):
            texts.extend(part.text for part in stream)
    assert texts == ["a", " b"]
