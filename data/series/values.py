"""Numbers at the door: what holds numbers becomes float64, all else is refused by name and row."""

import contextlib
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from foretell.data.errors import TableError
from foretell.data.series.file_rows import row_of

# Far beyond any measured quantity, and far enough from the float64 limit that squares and sums stay
# finite.
LARGEST_VALUE = 1e100

_NUMBER_OBJECTS = {"integer", "floating", "mixed-integer-float", "empty"}
_SHOWN = 80  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class RowProblem:
    """The same thing wrong in some rows; only their series suffer.

    Attributes:
        rows: The rows, counted from 0, rising.
        describe: Writes the sentence for one of them.
    """

    rows: Int64[np.ndarray, " k"]
    describe: Callable[[int], str]


def shown(value: object) -> str:
    """Write a value for a person, text in quotes, and of a long one the beginning."""
    try:
        text = repr(value[: _SHOWN + 1]) if isinstance(value, str) else str(value)
    except ValueError:  # Python writes no integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def cell(column: pd.Series, row: int) -> str:
    """Tell a person what stands where: `'y' is 5 in row 2`."""
    return f"{column.name!r} is {shown(column.iloc[row])} in {row_of(column, row)}"


def without_signals(column: pd.Series) -> pd.Series:
    """Write signalling NaNs as text, which is no number: compared with anything, they raise."""
    if column.dtype.kind != "O" or isinstance(column.dtype, pd.StringDtype):
        return column
    try:
        column.isna()
    except ArithmeticError:
        return pd.Series(
            [
                str(value) if isinstance(value, Decimal) and value.is_snan() else value
                for value in column
            ],
            index=column.index,
            name=column.name,
            dtype=object,
        )
    return column


def read_numbers(
    column: pd.Series, *, is_settled: bool = False
) -> tuple[Float64[np.ndarray, " N"], list[RowProblem]]:
    """Read a column as numbers; blanks (None, NaN, NA) become NaN.

    Integers, floats, nullable and Arrow types, Decimals, and objects of these are numbers. Truth
    values, text and complex numbers are not.

    Args:
        column: The column.
        is_settled: It is a part of a column that holds numbers: text is a problem of its row.

    Returns:
        The values, NaN where there is a problem, and the problems that concern single rows: no
        number, infinite, or beyond 1e100.

    Raises:
        TableError: The column's type holds no numbers.
    """
    column = _plain(column)
    kind = column.dtype.kind
    if kind in "iuf":
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return _bounded(values, column)
    # Text is an object in older versions of pandas, and may be one in newer ones.
    objects = pd.api.types.infer_dtype(column, skipna=True) if kind == "O" else None
    if isinstance(column.dtype, pd.StringDtype) or objects == "string":
        if not is_settled:
            raise TableError(_text_column(column))
        return _read_objects(column, "mixed")
    if objects is not None:
        return _read_objects(column, objects)
    found = "truth values" if kind == "b" else f"the type {column.dtype}"
    raise TableError(f"column {column.name!r} holds {found}; it must hold numbers.")


def is_text(column: pd.Series) -> bool:
    """Whether a column is text, which is an object in older versions of pandas."""
    if column.dtype.kind != "O" or isinstance(column.dtype, pd.CategoricalDtype):
        return False
    return isinstance(column.dtype, pd.StringDtype) or (
        pd.api.types.infer_dtype(column, skipna=True) == "string"
    )


def without_categories(column: pd.Series) -> pd.Series:
    """Turn a categorical column into one of its categories' type; any other comes back."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    try:
        return column.astype(column.dtype.categories.dtype)
    except ValueError:  # blanks among integers
        return column.astype(object)


def _plain(column: pd.Series) -> pd.Series:
    """Unwrap categories and Arrow types whose content is numbers or objects; calm NaNs."""
    column = without_categories(column)
    if isinstance(column.dtype, pd.ArrowDtype) and column.dtype.kind not in "iufb":
        text = pd.api.types.is_string_dtype(column.dtype)
        column = column.astype("string" if text else object)
    return without_signals(column)


def _read_objects(
    column: pd.Series, kind: str
) -> tuple[Float64[np.ndarray, " N"], list[RowProblem]]:
    objects = column.to_numpy(dtype=object)
    blank = column.isna().to_numpy()
    values = np.full(len(objects), np.nan)
    if kind in _NUMBER_OBJECTS:
        with contextlib.suppress(OverflowError):  # a whole number beyond all floats
            values[~blank] = objects[~blank].astype(np.float64)
            return _bounded(values, column)
    wrong = []
    for row in np.flatnonzero(~blank).tolist():
        number = _number(objects[row])
        if number is not None:
            values[row] = number
        elif not (isinstance(objects[row], str) and not objects[row].strip()):
            wrong.append(row)
    values, problems = _bounded(values, column)
    if wrong:
        problems.insert(0, RowProblem(np.array(wrong), lambda row: _no_number(column, row)))
    return values, problems


def _number(value: object) -> float | None:
    """Read one object: Decimal, Fraction, numpy and plain numbers; infinity for one too large."""
    if not isinstance(value, numbers.Number) or isinstance(
        value, bool | np.bool_ | complex | np.complexfloating
    ):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):  # a number that is no real one, such as a time span
        return None


def _bounded(
    values: Float64[np.ndarray, " N"], column: pd.Series
) -> tuple[Float64[np.ndarray, " N"], list[RowProblem]]:
    # Written so that NaN passes.
    beyond = np.flatnonzero(np.abs(values) > LARGEST_VALUE)
    if not beyond.size:
        return values, []
    values = values.copy()
    values[beyond] = np.nan

    def describe(row: int) -> str:
        return (
            f"{cell(column, row)}; values must be finite, within ±1e100. Leave unknown values "
            "blank."
        )

    return values, [RowProblem(beyond, describe)]


def _no_number(column: pd.Series, row: int) -> str:
    value = column.iloc[row]
    return (
        f"{column.name!r} is {shown(value)} ({type(value).__name__}) in {row_of(column, row)}, "
        "which is no number. Write numbers such as 20.5, and leave unknown values blank."
        f"{_decimal_hint(value)}"
    )


def _decimal_hint(value: object) -> str:
    """Say what a comma may be."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d*,\d+", value.strip()):
        return " If the comma is the decimal sign, give decimal ','."
    return ""


def _text_column(column: pd.Series) -> str:
    present = column.dropna()
    parsed = pd.to_numeric(present, errors="coerce")
    wrong = np.flatnonzero((parsed.isna() & (present.str.strip() != "")).to_numpy())
    if not len(present):
        return f"column {column.name!r} is all blank text; it must hold numbers."
    if wrong.size:
        place = int(wrong[0])
        row = int(np.flatnonzero(column.notna().to_numpy())[place])
        return (
            f"column {column.name!r} holds text: {shown(present.iloc[place])} in "
            f"{row_of(column, row)} is no number. Correct it, and convert the column to numbers."
            f"{_decimal_hint(present.iloc[place])}"
        )
    return (
        f"column {column.name!r} holds text such as {shown(present.iloc[0])}; convert it to "
        "numbers (pd.to_numeric)."
    )
