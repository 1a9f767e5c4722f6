"""BLEU that chooses weights is BLEU of the search that serves, or it chooses for another search."""

import sys

import pytest

from foretell.data.errors import ForetellError
from foretell.data.text.number_words import english_words
from foretell.data.text.tokenizer import TOKENIZER_FILE, Tokenizer
from foretell.data.text.translation import TranslateOptions
from foretell.export.validation import bleu_scorer
from foretell.model.fit_translator import Corpus
from foretell.model.run import read_run
from foretell.runtime import load

# What has no letter is copied: it brings the n-grams of four that the tiny model's answers lack.
MARKS = "! ? ( ) % & ! ? * +"
SENTENCES = [*(english_words(number) for number in (21_305, 121, 777_777, 42, 90_909)), MARKS]


@pytest.fixture(scope="module")
def trained(recurrent_bundle_path):
    run = read_run(recurrent_bundle_path.parents[2] / "run")
    return run.model(), Tokenizer.from_file(run.path / TOKENIZER_FILE)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_what_is_scored_is_what_is_served(trained, recurrent_bundle_path, beam_size):
    served = load(recurrent_bundle_path, device="cpu", threads=1).translate(
        SENTENCES, TranslateOptions(beam_size=beam_size)
    )
    answers = [answer.text for answer in served]
    assert len({*answers}) > 3  # else their order would be no matter
    scorer = bleu_scorer(Corpus(SENTENCES, answers), beam_size=beam_size)
    assert scorer(*trained)() == pytest.approx(100)
    other = bleu_scorer(Corpus(SENTENCES, answers[::-1]), beam_size=beam_size)
    assert other(*trained)() < 90


def test_a_blank_and_a_long_sentence_keep_their_places(trained, recurrent_bundle_path):
    sources = ["", SENTENCES[0], "one " * 200, MARKS]
    answers = load(recurrent_bundle_path, device="cpu", threads=1).translate(
        sources, TranslateOptions(beam_size=1, truncate_source=True)
    )
    corpus = Corpus(sources, [answer.text for answer in answers])
    assert bleu_scorer(corpus)(*trained)() == pytest.approx(100)


def test_without_sacrebleu_one_is_told_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(
        ForetellError, match=r"pip install 'foretell\[evaluate\]', or train without"
    ):
        bleu_scorer(Corpus([], []))
