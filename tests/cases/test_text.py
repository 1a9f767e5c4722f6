"""Text at the border of the translator: lines, blanks, names of control tokens, code points.

What a model makes of these texts is tested beside its doors; here, that it gets them whole.
"""

from pathlib import Path

import pytest

from foretell.data.text.lines import count_lines, read_lines
from foretell.data.text.normalising import is_blank, is_copied, normalise
from foretell.data.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from foretell.data.text.tokenizer_training import train_tokenizer

CASES = Path(__file__).parent


def lines(name: str) -> list[str]:
    return list(read_lines(CASES / f"{name}.txt"))


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request, tmp_path_factory) -> Tokenizer:
    """Learned from English alone, so that most of these texts are new to it."""
    english = ["Stop here and then go on.", "The door is open.", "Good morning."] * 5
    path = tmp_path_factory.mktemp("text") / "tokenizer.model"
    return train_tokenizer(english, 400, path, model_type=request.param)


def test_hb01_blank_lines_are_lines_and_a_dash_is_copied() -> None:
    found = lines("HB01")
    assert len(found) == 8
    assert [number for number, line in enumerate(found, 1) if is_blank(line)] == [2, 3, 4, 7, 8]
    copied = [line for line in found if is_copied(line) and not is_blank(line)]
    assert copied == ["-"]


def test_hb02_only_lf_ends_a_line_and_no_answer_can_split_one(tokenizer: Tokenizer) -> None:
    found = lines("HB02")
    assert count_lines(CASES / "HB02.txt") == len(found) == 6
    assert found[0] == "First line"
    assert found[-1] == "End without newline"
    assert [normalise(line) for line in found[1:5]] == [
        "A line with a line separator",
        "One two three four",
        "Tab here",
        "Group mark",
    ]
    for line in found:
        assert tokenizer.decode(tokenizer.encode(line)).splitlines() == [normalise(line)]


def test_hb03_names_of_control_tokens_are_text(tokenizer: Tokenizer) -> None:
    found = lines("HB03")
    for line in found:
        ids = tokenizer.encode(line)
        assert set(ids).isdisjoint({PAD, BOS, EOS, UNK})
        assert tokenizer.decode(ids) == line
    before, after = found[0].split(" </s> ")
    ids = tokenizer.encode(found[0])
    assert ids[: len(tokenizer.encode(before))] == tokenizer.encode(before)
    assert ids[-len(tokenizer.encode(after)) :] == tokenizer.encode(after)


def test_hb06_same_letters_are_the_same_text(tokenizer: Tokenizer) -> None:
    found = lines("HB06")
    for composed, decomposed in zip(found[0:10:2], found[1:10:2], strict=True):
        assert composed != decomposed
        assert tokenizer.encode(composed) == tokenizer.encode(decomposed)
        assert tokenizer.decode(tokenizer.encode(decomposed)) == composed


def test_hb06_markup_signs_stay_as_they_are(tokenizer: Tokenizer) -> None:
    for line in lines("HB06")[10:]:
        assert tokenizer.decode(tokenizer.encode(line)) == line


def test_hb06_what_a_vocabulary_without_bytes_lacks_is_reported(tmp_path: Path) -> None:
    english = ["Salt and pepper", "it's open", "notebook"] * 5
    closed = train_tokenizer(english, 60, tmp_path / "t.model", byte_fallback=False)
    found = lines("HB06")
    assert closed.unknown_words(found[9]) == ("가나다",)
    assert closed.decode(closed.encode(found[9])) == "⁇ notebook"
    assert closed.decode(closed.encode(found[9]), closed.unknown_words(found[9])) == found[8]
