"""A part of a larger table: which rows of the file its rows are, and what the whole has settled.

A table larger than memory is read in parts. A message must name the row of the file, not of the
part; and what the whole column decides (are these steps or dates? is this column text, or does it
hold a few words among its numbers?) must not be decided anew by each part. Both travel with the
DataFrame itself, in its index and its `attrs`, because it passes through doors that take a table
and nothing else. A table without these marks is a whole one.
"""

from typing import cast

import pandas as pd
from jaxtyping import Int64
from numpy import ndarray

from foretell.data.calendars.zones import StampKind

_INDEX = "foretell_file_row"
_KIND = "foretell_stamp_kind"


def row_name(row: int) -> str:
    """Name a row for a person: the first one below the header is row 1."""
    return f"row {row + 1}"


def row_of(column: pd.Series, place: int) -> str:
    """Name the row of a place in a column: of the file, where the column tells it."""
    return row_name(int(column.index[place]) if column.index.name == _INDEX else place)


def file_rows(rows: Int64[ndarray, " N"] | range | list[int]) -> pd.Index:
    """Make the index of a part from the rows of the file, counted from 0."""
    return pd.Index(rows, name=_INDEX)


def settle(part: pd.DataFrame, kind: StampKind) -> None:
    """Mark a part of a table that was judged as a whole: only its single rows are judged now.

    Args:
        part: Has the index of `file_rows`.
        kind: What the whole table's stamps are.
    """
    part.attrs[_KIND] = kind


def settled_kind(table: pd.DataFrame) -> StampKind | None:
    """Tell what the stamps are of the whole that this is a part of; None for a whole table."""
    return cast("StampKind | None", table.attrs.get(_KIND))
