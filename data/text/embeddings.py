"""Word vectors of a word2vec or GloVe text file, for the pieces of a tokenizer.

Files of gigabytes are read once, line by line, and only the vectors that are wanted are kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from foretell.data.errors import TextError
from foretell.data.text.lines import arriving_records, source_name
from foretell.data.text.normalising import is_copied
from foretell.data.text.tokenizer import Tokenizer

_SPACE = "\u2581"
_MOST_NAMED = 10  # problems


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Vectors for pieces.

    Attributes:
        vectors: A row for each id; NaN where the file has no word for the piece.
        share_found: Share of all pieces that have a vector.
    """

    vectors: Float32[np.ndarray, "V C"]
    share_found: float


def read_embeddings(source: str | Path, tokenizer: Tokenizer, *, width: int) -> Embeddings:
    """Read the vectors of a tokenizer's pieces.

    A line is a word and its numbers, separated by blanks; a first line of two whole numbers tells
    how many words and numbers there are. A piece that begins a word has the vector of that word,
    letter for letter; a piece without letters and digits (`,`) that of itself; pieces from inside
    words have none.

    Args:
        source: The file, plain or packed by gzip.
        tokenizer: Whose pieces are wanted.
        width: Numbers of a vector, C.

    Raises:
        TextError: The file can't be read, is cut short, or has lines of another width, wanted words
            twice, or values that are no finite numbers; the first such lines are named.
    """
    reading = _Reading(source_name(source), width, _wanted(tokenizer))
    for number, record in enumerate(_records(source), start=1):
        reading.take(number, record)
    problems = reading.finish()
    if problems:
        raise TextError(problems)
    vectors = np.full((tokenizer.vocab_size, width), np.nan, dtype=np.float32)
    for word, vector in reading.vectors.items():
        vectors[reading.wanted[word]] = vector
    return Embeddings(vectors, float(np.isfinite(vectors[:, 0]).mean()))


@dataclass(slots=True)
class _Reading:
    """What has been read of a file so far; words are bytes, so most are never decoded."""

    name: str
    width: int
    wanted: dict[bytes, list[int]]
    vectors: dict[bytes, Float32[np.ndarray, " C"]] = field(default_factory=dict)
    places: dict[bytes, int] = field(default_factory=dict)
    told: int | None = None
    lines: int = 0
    problems: list[str] = field(default_factory=list)
    num_problems: int = 0

    def take(self, number: int, record: bytes | None) -> None:
        """Read a line."""
        fields = (record or b"").split()
        if number == 1 and len(fields) == 2 and all(text.isdigit() for text in fields):
            self.told = int(fields[0])
            self._check_header(int(fields[1]))
            return
        self.lines += 1
        extra = len(fields) - 1 - self.width
        if extra > 0 and not _is_number(fields[1]):
            return  # a word with blanks in it, which no piece is
        if extra:
            self._problem(number, f"{max(len(fields) - 1, 0)} numbers; expected {self.width}")
        elif (word := fields[0]) in self.wanted:
            self._keep(number, word, fields[1:])

    def finish(self) -> list[str]:
        """List what is wrong with the file."""
        problems = self.problems[:]
        if self.num_problems > len(problems):
            problems.append(
                f"{self.name}: so are {self.num_problems - len(problems):,} more lines."
            )
        if self.told is not None and self.told != self.lines:
            problems.append(
                f"{self.name} tells of {self.told:,} words in its first line, but has "
                f"{self.lines:,}; it may be cut short."
            )
        return problems

    def _check_header(self, width: int) -> None:
        if width != self.width:
            raise TextError(f"{self.name} has vectors of {width} numbers; expected {self.width}.")

    def _keep(self, number: int, word: bytes, fields: list[bytes]) -> None:
        try:
            with np.errstate(over="ignore"):  # infinity is found below
                vector = np.array(fields, dtype=np.float64).astype(np.float32)
        except ValueError:
            self._problem(number, "values that are no numbers")
            return
        if word in self.places:
            self._problem(number, f"the word of line {self.places[word]:,} again")
        elif not np.isfinite(vector).all():
            self._problem(number, "values that are not finite")
        else:
            self.vectors[word] = vector
        self.places.setdefault(word, number)

    def _problem(self, number: int, found: str) -> None:
        self.num_problems += 1
        if len(self.problems) < _MOST_NAMED:
            self.problems.append(f"{self.name}, line {number:,} has {found}.")


def _records(source: str | Path) -> Iterator[bytes | None]:
    return (record for records in arriving_records(source) for record in records)


def _wanted(tokenizer: Tokenizer) -> dict[bytes, list[int]]:
    """Map words to the ids of the pieces that spell them whole."""
    wanted: dict[bytes, list[int]] = {}
    for token, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size))):
        word = piece.removeprefix(_SPACE)
        if word and (piece != word or is_copied(word)):
            wanted.setdefault(word.encode(), []).append(token)
    return wanted


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
