"""What unknown tokens read as, on spellings made by hand."""

import numpy as np
import pytest

from foretell.data.text.tokenizer import UNK, Tokenizer
from foretell.runtime.search.unknowns import read_text


class Spelling(Tokenizer):
    """A vocabulary of some pieces; every other one is unknown."""

    def __init__(self, *pieces: str) -> None:
        self.vocab_size = 4 + len(pieces)
        self._pieces = ["<pad>", "<s>", "</s>", "<unk>", *pieces]
        self._surfaces = [piece.replace("\u2581", " ").encode() for piece in self._pieces]

    def ids(self, *pieces: str) -> list[int]:
        return [self._pieces.index(piece) if piece in self._pieces else UNK for piece in pieces]


SPELLING = Spelling("▁der", "▁Turm", "▁", "d", "▁(", ")", ".", "▁in", "東", "京", "▁M")
WORDS = ("the", "tower", "of", "Łódź,", "Łódź,", "Łódź,", "today")


def looking_at(*pieces: int) -> np.ndarray:
    """Attention of which each token gives 0.6 to one piece, and the rest to the end token."""
    weights = np.zeros((len(pieces), len(WORDS) + 1), np.float32)
    weights[np.arange(len(pieces)), list(pieces)] = 0.6
    weights[:, -1] = 0.4
    return weights


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["▁der", "▁Turm", "▁in", "▁", "Ł", "d", "ź"], "der Turm in Łódź"),
        (["▁der", "▁Turm", "▁(", "Ł", "d", "ź", ")", "."], "der Turm (Łódź)."),
        (["▁in", "Ł"], "Łódź"),
        (["▁M", "ł", "▁der"], "Łódź der"),
        (["東", "Ł", "京"], "東Łódź京"),
    ],
)
def test_a_word_with_an_unknown_token_is_replaced_whole(pieces: list[str], text: str) -> None:
    """Trap 18: once, however many of its letters are unknown; signs and neighbours stay."""
    attention = looking_at(*[4] * len(pieces))
    assert read_text(SPELLING.ids(*pieces), attention, WORDS, SPELLING) == text


def test_the_attention_of_a_words_pieces_counts_together() -> None:
    attention = np.array([[0.0, 0.25, 0.0, 0.2, 0.1, 0.1, 0.0, 0.35]], np.float32)
    assert read_text([UNK], attention, WORDS, SPELLING) == "Łódź"


def test_each_looks_at_its_own_word() -> None:
    pieces = ["▁", "x", "▁", "y", "▁in", "▁", "z"]
    attention = looking_at(0, 1, 0, 0, 0, 0, 6)
    assert read_text(SPELLING.ids(*pieces), attention, WORDS, SPELLING) == "tower the in today"


def test_without_words_or_attention_nothing_is_made_up() -> None:
    ids = SPELLING.ids("▁der", "▁", "x")
    assert read_text(ids, looking_at(0, 0, 0), (), SPELLING) == "der \u2047"
    assert read_text(ids, None, WORDS, SPELLING) == "der \u2047"
