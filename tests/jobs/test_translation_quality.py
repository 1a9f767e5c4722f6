"""Scores that are printed beside a signature must be those that sacreBLEU gives for it."""

import sys

import pytest
import sacrebleu

from foretell.data.errors import ForetellError
from foretell.data.text.translation import TranslateOptions
from foretell.jobs.evaluation.translation_quality import check_sacrebleu, evaluate_translator

SRC = ["c B a", "f e d", "", "i h g k l"]
REFERENCE = ["a B c", "d e x", "", "l k g h i"]
OTHER = ["A b c", "d e f", "", "l k j h i"]


@pytest.fixture
def evaluate(backwards):
    def call(src=SRC, references=(REFERENCE,), sizes=(5,), **options):
        ways = [TranslateOptions(beam_size=size, **options) for size in sizes]
        with backwards().door() as door:
            return evaluate_translator(src, references, door, ways)

    return call


def test_scores_and_signatures_are_those_of_sacrebleu(evaluate):
    found = evaluate()
    (scores,) = found.scores
    answers = [" ".join(reversed(text.split())) for text in SRC]
    oracle = sacrebleu.corpus_bleu(answers, [REFERENCE]).score
    assert scores.bleu_mixed == pytest.approx(oracle)
    oracle = sacrebleu.corpus_bleu(answers, [REFERENCE], lowercase=True).score
    assert scores.bleu_lc == pytest.approx(oracle)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(answers, [REFERENCE]).score)
    assert scores.exact == 0.75
    assert (scores.name, scores.sentences_per_s > 0) == ("beam 5", True)
    version = sacrebleu.__version__
    assert found.signatures == {
        "BLEU lc": f"nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:{version}",
        "BLEU mixed": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}",
        "chrF": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}",
    }


def test_any_of_several_references_will_do(evaluate):
    found = evaluate(references=(REFERENCE, OTHER))
    assert found.scores[0].exact == 1.0
    assert found.scores[0].bleu_mixed > evaluate().scores[0].bleu_mixed
    assert found.num_references == 2
    assert "nrefs:2" in found.signatures["BLEU lc"]


def test_ways_to_search_stand_side_by_side(evaluate):
    found = evaluate(sizes=(1, 4))
    assert [scores.name for scores in found.scores] == ["greedy", "beam 4"]


def test_a_refused_sentence_counts_as_an_empty_translation(evaluate):
    """Leaving it out would reward a model for refusing what it can't do."""
    found = evaluate(src=[*SRC[:3], "w " * 11])
    assert (found.num_refused, found.num_sentences) == (1, 4)
    assert found.refused[0].number == 4
    assert found.scores[0].bleu_mixed < evaluate().scores[0].bleu_mixed


def test_without_sacrebleu_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ForetellError, match=r"pip install 'foretell\[evaluate\]'"):
        check_sacrebleu()
