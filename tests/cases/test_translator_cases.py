"""HB01, HB04, HB07, HC01: what a translation may depend on, by real models of both families."""

from pathlib import Path

import numpy as np
import pytest

from foretell.data.text.number_words import english_words
from foretell.data.text.translation import (
    RefusedSentencesError,
    TranslateOptions,
    Translation,
)
from foretell.runtime import Translator, load_translator

CASES = Path(__file__).parent
# Texts that the little models know, and texts that they don't, which are the ones to waver.
KNOWN = tuple(english_words(number) for number in (7, 12, 20, 33, 58, 71, 99, 420))
STRANGE = tuple((CASES / "HB04.txt").read_text().splitlines())
LONG = " ".join(["The path went on and on past the mill"] * 30)

GREEDY = TranslateOptions(beam_size=1, truncate_source=True)
BEAM = TranslateOptions(beam_size=4, n_best=2, truncate_source=True)
SAMPLING = TranslateOptions(beam_size=1, sample=True, seed=11, truncate_source=True)


@pytest.fixture(scope="module", params=["translator_bundle_path", "recurrent_bundle_path"])
def translator(request: pytest.FixtureRequest) -> Translator:
    """A Transformer, and a recurrent model."""
    return load_translator(request.getfixturevalue(request.param), device="cpu", threads=2)


def numbers(translation: Translation) -> list[object]:
    """All that is said of a sentence, to be compared to the last bit."""
    return [
        (one.text, one.tokens, one.token_log_probs, one.log_prob, one.score, one.finish_reason)
        for one in translation.hypotheses
    ]


class TestBlanks:
    def test_a_line_in_a_line_out(self, translator: Translator) -> None:
        """HB01: blank lines stay blank and in their places, a dash is no sentence."""
        lines = (CASES / "HB01.txt").read_bytes().decode().split("\n")[:-1]
        assert len(lines) == 8
        answers = translator.translate(lines, GREEDY)
        texts = [answer.text for answer in answers]
        assert [place for place, text in enumerate(texts, start=1) if not text] == [2, 3, 4, 7, 8]
        assert texts[4] == "-"
        assert answers[4].copied
        for place in (0, 5):
            (alone,) = translator.translate([lines[place]], GREEDY)
            assert numbers(alone) == numbers(answers[place])

    def test_a_blank_neighbour_is_no_row_without_anything_to_look_at(
        self, translator: Translator
    ) -> None:
        """HC01: its softmax would be NaN, and NaN spreads."""
        options = TranslateOptions(attention=True)
        blank, answer = translator.translate(["", KNOWN[0]], options)
        (alone,) = translator.translate([KNOWN[0]], options)
        assert blank.text == ""
        assert numbers(answer) == numbers(alone)
        best = answer.hypotheses[0]
        assert np.isfinite([*best.token_log_probs, best.score]).all()
        assert np.isfinite(best.attention).all()
        np.testing.assert_array_equal(best.attention, alone.hypotheses[0].attention)


@pytest.mark.parametrize("options", [GREEDY, BEAM, SAMPLING], ids=["greedy", "beam", "sampling"])
class TestNeighbours:
    """HB04, to the last bit: a text must not be translated otherwise on a busy day."""

    SENTENCES = (*KNOWN, *STRANGE)

    def expected(self, translator: Translator, options: TranslateOptions) -> list[list[object]]:
        return [numbers(one) for one in translator.translate(self.SENTENCES, options)]

    @pytest.mark.parametrize("size", [1, 2, 5, 12])
    def test_the_size_of_a_batch_changes_nothing(
        self, translator: Translator, options: TranslateOptions, size: int
    ) -> None:
        found = []
        for start in range(0, len(self.SENTENCES), size):
            some = self.SENTENCES[start : start + size]
            found += translator.translate(some, options, first_place=start)
        assert [numbers(one) for one in found] == self.expected(translator, options)

    def test_a_long_neighbour_changes_nothing(
        self, translator: Translator, options: TranslateOptions
    ) -> None:
        _, *found = translator.translate([LONG, *self.SENTENCES], options)
        if options.sample:  # one place further, other draws
            found = translator.translate([*self.SENTENCES, LONG], options)[:-1]
        assert [numbers(one) for one in found] == self.expected(translator, options)

    def test_other_options_beside_it_change_nothing(
        self, translator: Translator, options: TranslateOptions
    ) -> None:
        others = (GREEDY, BEAM, TranslateOptions(beam_size=3, truncate_source=True, attention=True))
        mixed = [options if i % 2 else others[i % 3] for i in range(len(self.SENTENCES))]
        found = translator.translate(self.SENTENCES, mixed)
        expected = self.expected(translator, options)
        for place in range(1, len(self.SENTENCES), 2):
            assert numbers(found[place]) == expected[place]

    def test_the_number_of_cores_changes_nothing(
        self, translator: Translator, options: TranslateOptions
    ) -> None:
        """HC06: the same answer in a container of one core."""
        path = translator.__reduce__()[1][0].path
        other = load_translator(path, device="cpu", threads=1)
        found = other.translate(self.SENTENCES, options)
        assert [numbers(one) for one in found] == self.expected(translator, options)


def test_order_changes_nothing(translator: Translator) -> None:
    sentences = (*KNOWN, *STRANGE)
    for options in (GREEDY, BEAM):
        expected = translator.translate(sentences, options)
        found = translator.translate(sentences[::-1], options)
        assert [numbers(one) for one in found[::-1]] == [numbers(one) for one in expected]


def test_scores_do_not_depend_on_neighbours(translator: Translator) -> None:
    pairs = [(source, target) for source in KNOWN[:5] for target in ("eins", "zwölf", "")]
    together = translator.score(pairs)
    for pair, expected in zip(pairs, together, strict=True):
        assert translator.score([pair]) == [expected]


class TestLongSources:
    """HB07: a line longer than the model holds neither ends the run nor is cut in silence."""

    LINES = (KNOWN[0], " ".join(f"Item {i} is on the shelf." for i in range(600)), KNOWN[1])

    def test_it_is_refused_by_itself_with_both_numbers(self, translator: Translator) -> None:
        with pytest.raises(RefusedSentencesError, match=r"sentence 2: .* at most 40\.") as caught:
            translator.translate(self.LINES)
        first, none, last = caught.value.answers
        assert none is None
        for line, answer in ((self.LINES[0], first), (self.LINES[2], last)):
            (alone,) = translator.translate([line])
            assert numbers(alone) == numbers(answer)

    def test_it_is_cut_where_that_was_asked_for_and_says_so(self, translator: Translator) -> None:
        answers = translator.translate(self.LINES, GREEDY)
        assert [answer.truncated for answer in answers] == [False, True, False]
        assert len(answers[1].source_tokens) == 39
