"""Numbers written as text: what a column holds is told from all of it, and read so in every part.

A column of numbers with a few words keeps the words, for `rows` to name their rows; a column
without a number is words. Parts of a column are looked at one by one, and what they tell adds up.
"""

import contextlib
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

# Written for "unknown" by common tools; in the id column they are names like any other.
BLANKS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_NUMBER = {
    sign: rf"^[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
    for sign, point in ((".", r"\."), (",", ","))
}


@dataclass(frozen=True, slots=True)
class NumberFacts:
    """What a column of text holds, or a part of one; `|` puts parts together.

    Attributes:
        is_plain: All of it is numbers as the fast reader takes them.
        has_number: Some of it is a number.
        has_wrong: Some of it is neither a number nor blank.
    """

    is_plain: bool = True
    has_number: bool = False
    has_wrong: bool = False

    def __or__(self, other: "NumberFacts") -> "NumberFacts":
        return NumberFacts(
            self.is_plain and other.is_plain,
            self.has_number or other.has_number,
            self.has_wrong or other.has_wrong,
        )

    @property
    def is_words(self) -> bool:
        """Whether this is a column of words."""
        return not self.is_plain and self.has_wrong and not self.has_number

    @property
    def is_mixed(self) -> bool:
        """Whether there are words among the numbers."""
        return not self.is_plain and self.has_wrong and self.has_number


def look_at_numbers(
    texts: pa.ChunkedArray, decimal: str
) -> tuple[NumberFacts, pa.ChunkedArray | None]:
    """Tell what a column of text holds.

    Args:
        texts: Text without nulls.
        decimal: The sign of decimals, "." or ",".

    Returns:
        What it holds, and the numbers themselves where there is nothing else.
    """
    floats = _read_at_once(texts, decimal)
    if floats is not None:
        return NumberFacts(True, len(texts) > 0, False), floats
    return _look_closely(texts, decimal), None


def _look_closely(texts: pa.ChunkedArray, decimal: str) -> NumberFacts:
    plain = _without_blanks(texts)
    floats = _read_fast(plain, decimal)
    if floats is not None:  # it takes spellings of NaN that are no numbers, if all else is some
        is_nan = pc.fill_null(pc.is_nan(floats), False)
        strange = pc.sum(is_nan).as_py() or 0
        count = len(floats) - floats.null_count - strange
        return NumberFacts(True, count > 0, strange > 0)
    is_number = _is_number(plain, decimal)
    filled = len(plain) - plain.null_count
    wrong = len(plain) - (pc.sum(is_number).as_py() or 0)
    return NumberFacts(False, filled > wrong, wrong > 0)


def read_number_texts(
    texts: pa.ChunkedArray, decimal: str, facts: NumberFacts | None = None
) -> pd.Series:
    """Read text as numbers where it is; what is no number stays, for `rows` to name its row.

    Args:
        texts: Text without nulls.
        decimal: The sign of decimals, "." or ",".
        facts: About the whole column that this is a part of; None for a whole column.
    """
    at_once = _read_at_once(texts, decimal)
    if at_once is not None:
        return _series(at_once)
    plain = _without_blanks(texts)
    if facts is None or facts.is_plain:
        floats = _read_fast(plain, decimal)
        if floats is not None:
            return _series(floats)
    is_number = _is_number(plain, decimal)
    unknown = pa.scalar(None, pa.string())
    # With a decimal comma, a point may be a thousands sign: such a value is no number.
    plain = pc.replace_substring(pc.if_else(is_number, plain, unknown), decimal, ".")
    numbers = _series(pc.cast(pc.utf8_ltrim(plain, "+"), pa.float64()))
    wrong = ~is_number.to_numpy()
    if facts is None:
        facts = NumberFacts(False, bool(numbers.notna().any()), bool(wrong.any()))
    if facts.is_words:
        words: pd.Series = texts.to_pandas()
        return words
    if not facts.is_mixed:
        return numbers
    mixed = numbers.astype(object)
    mixed[wrong] = texts.to_pandas().astype(object)[wrong]
    return mixed


def _read_at_once(texts: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray | None:
    """Read texts that are all numbers; None where one is blank, is no number or reads as NaN."""
    floats = _read_fast(texts, decimal)
    if floats is None or pc.any(pc.is_nan(floats)).as_py():
        return None
    return floats


def _without_blanks(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    plain = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(plain, pa.array(BLANKS)), pa.scalar(None, pa.string()), plain)


def _read_fast(plain: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray | None:
    if decimal != ".":
        return None
    with contextlib.suppress(pa.ArrowInvalid):  # something is no number
        return pc.cast(plain, pa.float64())
    return None


def _is_number(plain: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """Tell what is a number or blank."""
    return pc.fill_null(pc.match_substring_regex(plain, _NUMBER[decimal]), True)


def _series(floats: pa.ChunkedArray) -> pd.Series:
    numbers: pd.Series = floats.to_pandas()
    return numbers
