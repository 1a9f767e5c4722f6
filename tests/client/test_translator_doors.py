"""The same sentences through the client and in process, by a real model: the same to the last bit.

Every sentence is a translation problem for the tiny models of the tests, whose answers may be
nonsense; that they are the same nonsense behind every door is what counts.
"""

from dataclasses import replace
from functools import cache

import pytest

from foretell.client import Client
from foretell.data.errors import OptionError
from foretell.data.text.number_words import english_words
from foretell.data.text.translation import RefusedSentencesError, TranslateOptions
from foretell.runtime import load

# The models of the tests know those below 100; long and short ones mixed.
NUMBERS = [english_words(number) for number in (7, 999, 21, 300, 84, 472, 0, 13, 515, 60, 4, 111)]
# Handed cases HB01 and HB03: lines with nothing in them, and names of control tokens as text.
BLANK_LINES = ["Good morning.", "", "   ", "\t", "-", "The shop opens at nine.", "", ""]
CONTROL_NAMES = [
    "Stop here </s> and then go on.",
    "<pad> <pad> The door is open.",
    "<s> Begin again.",
    "<unk> is a word here.",
    "[EOS] [PAD] [CLS] are labels.",
    ">>de<< The tag is only text.",
    "Stop here and then go on.",
]
ODD = [
    "caf\u00e9 au lait",
    "cafe\u0301 au lait",
    "\u2028one\u0085two",
    "🙂 one",
    "\ud800 two",
    "? !",
]
OPTIONS = {
    "default": TranslateOptions(),
    "greedy": TranslateOptions(beam_size=1),
    "everything": TranslateOptions(
        beam_size=4,
        n_best=3,
        length_penalty=0.6,
        length_formula="gnmt",
        min_length=3,
        max_length=12,
        no_repeat_ngram_size=2,
        repetition_penalty=1.3,
        banned=("zwei",),
        prefix="ein",
        replace_unknowns=True,
        attention=True,
        truncate_source=True,
    ),
    "sampled": TranslateOptions(
        beam_size=1, sample=True, temperature=2.0, top_k=40, top_p=0.98, max_length=8
    ),
    "wide": TranslateOptions(beam_size=64, n_best=64, max_length=6),
}


@pytest.fixture(scope="module", params=["transformer", "recurrent"])
def translator(request, translator_bundle_path, recurrent_bundle_path):
    paths = {"transformer": translator_bundle_path, "recurrent": recurrent_bundle_path}
    return load(paths[request.param], device="cpu", threads=1)


@pytest.fixture(scope="module")
def address(serving, translator):
    """A server that takes few sentences a request, so that lists are cut."""
    with serving(ende=translator, max_sentences=7) as address:
        yield address


@pytest.fixture(scope="module")
def client(address):
    with Client(address) as client:
        yield client


@pytest.fixture(scope="module")
def in_process(translator):
    """Asks the model in this process, each question once."""
    return cache(lambda sentences, options: outcome(translator.translate, sentences, options))


def plain(answer):
    """An answer as it compares: every field of it, weights as bytes."""
    return None if answer is None else tuple(map(_plain, _values(answer)))


def _values(record):
    return [getattr(record, name) for name in record.__slots__]


def _plain(value):
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if hasattr(value, "tobytes"):
        return value.dtype, value.shape, value.tobytes()
    return plain(value) if hasattr(value, "__slots__") else value


def outcome(translate, *arguments):
    """The answers, or those beside the refusals with the refusals."""
    try:
        return list(map(plain, translate(*arguments))), ()
    except RefusedSentencesError as error:
        return list(map(plain, error.answers)), error.refusals


@pytest.mark.parametrize("name", OPTIONS)
def test_the_answers_are_those_in_process_to_the_last_bit(client, in_process, name):
    sentences = (*NUMBERS[:6], *BLANK_LINES, *CONTROL_NAMES, *ODD, "one " * 400)
    options = OPTIONS[name]
    assert outcome(client.translate, sentences, options) == in_process(sentences, options)


def test_both_clients_give_them(call, address, in_process):
    sentences, options = (*NUMBERS, *ODD), OPTIONS["greedy"]
    answers = outcome(lambda *asked: call(address, "translate", *asked), sentences, options)
    assert answers == in_process(sentences, options)


def test_what_is_drawn_does_not_depend_on_how_a_list_is_cut(client, in_process, translator):
    """Each request carries the place of its first sentence."""
    sentences, options = (NUMBERS[1],) * 20, OPTIONS["sampled"]
    answers, _ = outcome(client.translate, sentences, options)
    assert answers == in_process(sentences, options)[0]
    assert len({answer[0] for answer in answers}) > 10
    settings = [replace(options, seed=place % 3) for place in range(20)]
    assert outcome(client.translate, sentences, settings) == outcome(
        translator.translate, sentences, settings
    )


def test_lines_keep_their_places_whatever_they_hold(client):
    """HB01: one line in, one line out; blank stays blank, and a dash makes no words."""
    texts = [answer.text for answer in client.translate(BLANK_LINES)]
    assert len(texts) == 8
    assert [texts[place] for place in (1, 2, 3, 6, 7)] == [""] * 5
    assert texts[4] == "-"


def test_long_sources_are_refused_or_cut_as_was_asked(client, translator):
    """HB07: never cut without a word, never the end of the whole call."""
    most = translator.manifest.translator.max_source_length
    sentences = ["one two", "Item is on the shelf. " * 600, "two one"]
    with pytest.raises(RefusedSentencesError, match=rf"sentence 2: .*at most {most}") as caught:
        client.translate(sentences)
    assert [answer is None for answer in caught.value.answers] == [False, True, False]
    answers = client.translate(sentences, TranslateOptions(truncate_source=True))
    assert [answer.truncated for answer in answers] == [False, True, False]
    assert len(answers[1].source_tokens) == most - 1


def test_pairs_score_as_in_process(call, address, translator):
    pairs = [(sentence, "eins zwei") for sentence in NUMBERS]
    pairs += [("one", ""), ("", "eins"), ("one " * 400, "eins"), ("-", "-"), ("one", "\ud800")]
    expected = outcome(translator.score, pairs)
    assert len(expected[1]) == 2
    assert outcome(lambda asked: call(address, "score", asked), pairs) == expected


@pytest.mark.parametrize("name", ["greedy", "default", "sampled", "everything"])
def test_the_parts_of_a_stream_are_its_translation(client, in_process, name):
    for sentence in (*NUMBERS[:4], "", "-"):
        *parts, last = client.translate_stream(sentence, OPTIONS[name])
        ((whole,), _) = in_process((sentence,), OPTIONS[name])
        assert plain(last) == whole
        assert "".join(part.text for part in parts) == last.text
        assert sum((part.tokens for part in parts), ()) == last.hypotheses[0].tokens


def test_what_only_the_model_can_refuse_is_the_same_error(call, address, translator):
    options = TranslateOptions(banned=(" ",))
    with pytest.raises(OptionError) as expected:
        translator.translate(["one"], options)
    with pytest.raises(OptionError) as caught:
        call(address, "translate", ["one"], options)
    assert caught.value.problems == expected.value.problems
