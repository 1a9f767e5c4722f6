"""A vector in the wrong row teaches nothing and nobody notices, so files are read to the letter."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import TextError
from foretell.data.text.embeddings import Embeddings, read_embeddings
from foretell.data.text.tokenizer import PAD, Tokenizer
from foretell.data.text.tokenizer_training import train_tokenizer

SENTENCES = ["The door is open, the shop is not.", "nine doors, nine cafés"] * 20


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    return train_tokenizer(SENTENCES, 420, tmp_path_factory.mktemp("tokenizer") / "t.model")


@pytest.fixture
def read(tmp_path: Path, tokenizer: Tokenizer):
    def read(content: str | bytes, width: int = 2) -> Embeddings:
        path = tmp_path / "vectors.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_embeddings(path, tokenizer, width=width)

    return read


def rows(embeddings: Embeddings, tokenizer: Tokenizer) -> dict[str, list[float]]:
    """The pieces that have a vector."""
    found = np.flatnonzero(~np.isnan(embeddings.vectors).any(axis=1)).tolist()
    names = tokenizer.pieces(found)
    return dict(zip(names, embeddings.vectors[found].tolist(), strict=True))


def test_a_piece_that_begins_a_word_has_the_words_vector(read, tokenizer) -> None:
    """`the` is the piece `▁the`; what stands inside words is no word, but a comma is one."""
    read_ = read("the 1 2\ndoor 3 4\ns 9 9\n, 5 6\nelephant 7 8\nThe 0.5 -1e-1\n")
    assert rows(read_, tokenizer) == {
        "▁the": [1, 2],
        "▁door": [3, 4],
        ",": [5, 6],
        "▁The": [0.5, np.float32(-0.1)],
        "▁s": [9, 9],
    }
    assert read_.vectors.shape == (tokenizer.vocab_size, 2)
    assert read_.share_found == 5 / tokenizer.vocab_size


def test_special_pieces_and_bytes_are_no_words(read, tokenizer) -> None:
    assert rows(read("</s> 1 1\n<unk> 1 1\n<pad> 1 1\n<0x41> 1 1\n▁ 1 1\n"), tokenizer) == {}
    assert np.isnan(read("<pad> 1 1\n").vectors[PAD]).all()


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_word2vec_glove_and_packed_files_say_the_same(read, tokenizer, end: str) -> None:
    """word2vec puts a header before and a blank behind each line; GloVe neither."""
    glove = f"the 1 2{end}door 3 4{end}"
    expected = {"▁the": [1, 2], "▁door": [3, 4]}
    for content in (glove, f"2 2{end}{glove}", glove.rstrip().replace(" ", "\t")):
        assert rows(read(content), tokenizer) == expected
        assert rows(read(gzip.compress(content.encode())), tokenizer) == expected


def test_letters_match_as_they_are(read, tokenizer) -> None:
    assert list(rows(read("cafés 1 2\n"), tokenizer)) == ["▁cafés"]
    assert rows(read(b"caf\xe9s 1 2\nDOOR 1 2\n"), tokenizer) == {}


def test_words_with_blanks_or_line_separators_are_passed_over(read, tokenizer) -> None:
    """Files of millions of words hold `. . .` and U+0085; they must not cost the other words."""
    content = ". . . 1 2\nat name@domain.com 1 2\n\x85 1 2\n\u2028 1 2\nthe 1 2\n"
    assert rows(read(content), tokenizer) == {"▁the": [1, 2]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("door 1 2\nthe 1\n", r"line 2 has 1 numbers; expected 2\."),
        ("the 1 2 3\n", r"line 1 has 3 numbers; expected 2\."),
        ("door 1 2\n\nthe 1 2\n", r"line 2 has 0 numbers; expected 2\."),
        ("the 1 nan\n", "line 1 has values that are not finite"),
        ("the 1 1e39\n", "line 1 has values that are not finite"),
        ("the 1 two\n", "line 1 has values that are no numbers"),
        ("the 1 2\ndoor 1 2\nthe 1 2\n", "line 3 has the word of line 1 again"),
        ("2 3\nthe 1 2 3\n", r"vectors\.txt has vectors of 3 numbers; expected 2"),
        ("3 2\nthe 1 2\n", "tells of 3 words in its first line, but has 1; it may be cut short"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(read, content: str, problem: str) -> None:
    with pytest.raises(TextError, match=problem):
        read(content)


def test_all_problems_are_told_at_once_and_many_are_counted(read) -> None:
    with pytest.raises(TextError) as caught:
        read("99 2\nthe 1 2\nthe 1 2\nshop 1\n" + "not 1\n" * 30)
    problems = caught.value.problems
    assert len(problems) == 12
    assert "line 3 has the word of line 2 again" in problems[0]
    assert problems[-2].endswith("so are 22 more lines.")
    assert problems[-1].endswith("but has 33; it may be cut short.")


def test_a_binary_file_is_refused(read) -> None:
    """word2vec's other format starts with the same header."""
    binary = b"3 2\nthe \x00\x01\x02\xff\n\x12\x11door \x00\x00"
    with pytest.raises(TextError, match="expected 2"):
        read(binary)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
def test_values_are_read_to_the_last_bit(tmp_path_factory, tokenizer, values) -> None:
    path = tmp_path_factory.getbasetemp() / "values.txt"
    path.write_text(f"the {' '.join(map(repr, values))}\n")
    found = read_embeddings(path, tokenizer, width=3)
    assert rows(found, tokenizer) == {"▁the": [float(np.float32(value)) for value in values]}
