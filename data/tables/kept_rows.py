"""Rows of a table that stay in memory when it has been gone through, so that they are read once.

Ids are kept as runs, texts of stamps as numbers of distinct ones, and numbers as such: a fifth of
what the rows are as text. As many are kept as there is room for, from the table's beginning.
"""

import bisect
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

# Of id, stamp and value some twenty million rows; of a table that is larger its first part.
MOST_BYTES = 1 << 28


class KeptRows:
    """The first rows of a table, typed. Any thread may read; a copy in another process has none.

    Args:
        most_bytes: What they may take.
    """

    def __init__(self, most_bytes: int = 0) -> None:
        self._left = most_bytes
        self._tables: list[pa.Table] = []
        self._ends: list[int] = []
        self._coded: set[str] = set()

    def __reduce__(self) -> tuple[type["KeptRows"], tuple[()]]:
        return KeptRows, ()

    def add(self, table: pa.Table, coded: Iterable[str] = ()) -> None:
        """Keep the rows that follow; none any more once there was no room.

        Args:
            table: The rows.
            coded: Columns that are numbers of distinct texts only to be shorter.
        """
        self._coded |= set(coded)
        columns = [_compact(column) for column in table.columns]
        table = pa.table(columns, names=table.column_names)
        self._left -= table.nbytes
        if self._left < 0:
            self.end()
            return
        self._tables.append(table)
        self._ends.append((self._ends[-1] if self._ends else 0) + table.num_rows)

    def end(self) -> None:
        """Keep no more rows."""
        self._left = -1

    def drop(self) -> None:
        """Keep none, nor any more."""
        self.end()
        self._tables, self._ends = [], []

    @property
    def is_full(self) -> bool:
        """Whether no more rows are kept."""
        return self._left < 0

    def rows(self, first: int, count: int) -> pa.Table | None:
        """Return some rows; None where not all of them were kept.

        Args:
            first: Number of the first, from 0.
            count: How many.
        """
        end = first + count
        if not self._ends or end > self._ends[-1]:
            return None
        pieces = []
        place = bisect.bisect_right(self._ends, first)
        while first < end:
            table = self._tables[place]
            start = self._ends[place] - table.num_rows
            pieces.append(table.slice(first - start, end - first))
            first, place = self._ends[place], place + 1
        found = pa.concat_tables(pieces)
        columns = {
            name: self._whole(name, column)
            for name, column in zip(found.column_names, found.columns, strict=True)
        }
        return pa.table(columns)

    def _whole(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_run_end_encoded(column.type):
            return pc.run_end_decode(column)
        if name in self._coded:
            # Few rows have all the texts of their blocks with them, which may be many more.
            num_texts = sum(len(chunk.dictionary) for chunk in column.chunks)
            return column if num_texts <= len(column) else column.cast(column.type.value_type)
        return column


def _compact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write equal texts that follow each other once, as the long ones that pandas works with."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    return pc.run_end_encode(column.cast(pa.large_string()))
