"""Which series a table holds, in order of first appearance, and where each begins.

Rows of one id that follow each other are a run. Where every series is one run, the file can be read
in spans; where series come back later, only their ids and counts are kept.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64

from foretell.data.errors import TableError
from foretell.data.series.file_rows import row_name
from foretell.data.series.ids import MOST_NAMED, blank_ids, read_ids
from foretell.data.tables.blocks import Block

_FEWEST_PENDING = 1 << 20


@dataclass(frozen=True, slots=True)
class Series:
    """The series of a table.

    Attributes:
        ids: In order of first appearance, as `plain_ids` makes them.
        counts: Rows of each.
        run_ids: Number of each run's series; None where there are too many runs to be kept.
        run_rows: First row of each run, and the number of all rows.
        run_places: Where each run begins, and where the last ends; see `Block`.
    """

    ids: pa.Array
    counts: Int64[np.ndarray, " n"]
    run_ids: Int64[np.ndarray, " R"] | None
    run_rows: Int64[np.ndarray, " R1"]
    run_places: Int64[np.ndarray, " R1"]


class SeriesOrder:
    """Numbers series block by block.

    Args:
        column: Name of the id column.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        self._known: pa.Array | None = None
        self._counts = np.zeros(0, dtype=np.int64)
        self._pending: list[pa.Array] = []
        self._num_pending = 0
        self._lengths: list[Int64[np.ndarray, " R"]] = []
        self._runs: list[tuple[Int64[np.ndarray, " R"], ...]] | None = []
        self._numbers: list[Int64[np.ndarray, " R"]] = []
        self._last: pa.Array | None = None
        self._last_number = 0
        self._nested: pa.ChunkedArray | None = None
        self._blank_rows: list[int] = []
        self._num_blank = 0
        self._end = (0, 0)

    def look(self, block: Block) -> None:
        """Look at one more block."""
        column = block.table.column(self._column)
        if pa.types.is_nested(column.type):
            self._nested = self._nested or column
            return
        ids = plain_ids(column)
        starts = _run_starts(ids)
        firsts = ids.take(pa.array(starts))
        if _is_blank(firsts).any():
            self._note_blanks(ids, block.first_row)
        lengths = np.diff(np.append(starts, len(ids)))
        if self._last is not None and ids.slice(0, 1).equals(self._last):
            self._lengthen(int(lengths[0]))  # the last run of the block before goes on
            starts, lengths, firsts = starts[1:], lengths[1:], firsts.slice(1)
        self._last = ids.slice(len(ids) - 1)
        self._end = block.first_row + len(ids), block.end
        if len(starts):
            self._pending.append(firsts)
            self._lengths.append(lengths)
            self._num_pending += len(starts)
            if self._runs is not None:
                self._runs.append((block.first_row + starts, block.places[starts]))
        if self._num_pending > max(_FEWEST_PENDING, len(self._counts)):
            self._fold()

    def settle(self) -> Series:
        """Tell the series.

        Raises:
            TableError: The column's type can't be ids, or rows have none.
        """
        if self._nested is not None:
            read_ids(self._nested.to_pandas().rename(self._column))  # says that they are no ids
        if self._num_blank:
            blank = [row_name(row) for row in self._blank_rows]
            raise TableError(blank_ids(self._column, blank, self._num_blank))
        self._fold()
        assert self._known is not None, "a table without rows was refused"
        if self._runs is None:
            nothing = np.zeros(0, dtype=np.int64)
            return Series(self._known, self._counts, None, nothing, nothing)
        rows, places = (
            np.concatenate([*column, [end]])
            for column, end in zip(zip(*self._runs, strict=True), self._end, strict=True)
        )
        return Series(self._known, self._counts, np.concatenate(self._numbers), rows, places)

    def _note_blanks(self, ids: pa.Array, first_row: int) -> None:
        rows = np.flatnonzero(_is_blank(ids))
        self._num_blank += len(rows)
        self._blank_rows += (first_row + rows[: MOST_NAMED - len(self._blank_rows)]).tolist()

    def _lengthen(self, rows: int) -> None:
        if self._lengths:
            self._lengths[-1][-1] += rows
        else:
            self._counts[self._last_number] += rows

    def _fold(self) -> None:
        """Number the series of the runs since the last time."""
        if not self._pending:
            return
        before = 0 if self._known is None else len(self._known)
        known = [] if self._known is None else [self._known]
        coded = pa.concat_arrays([*known, *self._pending]).dictionary_encode()
        numbers = coded.indices.to_numpy(zero_copy_only=False)[before:].astype(np.int64)
        self._known = coded.dictionary
        counts = np.zeros(len(self._known), dtype=np.int64)
        counts[:before] = self._counts
        np.add.at(counts, numbers, np.concatenate(self._lengths))
        self._counts = counts
        self._numbers.append(numbers)
        self._pending, self._num_pending = [], 0
        self._lengths, self._last_number = [], int(numbers[-1])
        if sum(map(len, self._numbers)) > 2 * len(counts) + _FEWEST_PENDING:
            self._runs, self._numbers = None, []


def plain_ids(column: pa.ChunkedArray) -> pa.Array:
    """Bring ids to a type in which those that are one series are equal."""
    ids = column.combine_chunks()
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if isinstance(ids, pa.ChunkedArray):
        ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], ids.type)
    if pa.types.is_string(ids.type) or pa.types.is_string_view(ids.type):
        return ids.cast(pa.large_string())
    if pa.types.is_binary(ids.type) or pa.types.is_binary_view(ids.type):
        return ids.cast(pa.large_binary())
    if pa.types.is_floating(ids.type):
        return pc.add(ids, pa.scalar(0.0, ids.type))  # -0.0 is 0.0
    return ids


def find_ids(ids: pa.Array, known: pa.Array) -> Int64[np.ndarray, " N"]:
    """Find the number of each id among the known ones, -1 for none."""
    if ids.type == known.type:
        found = pc.fill_null(pc.index_in(ids, value_set=known), -1)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)
    # 1 may be 1.0; what may be equal across types pandas knows.
    places = pd.Index(known.to_pandas()).get_indexer(pd.Index(ids.to_pandas()))
    return np.asarray(places, dtype=np.int64)


def _is_blank(ids: pa.Array) -> Bool[np.ndarray, " N"]:
    blank = ids.is_null(nan_is_null=True)
    if pa.types.is_large_string(ids.type):
        blank = pc.or_(blank, pc.fill_null(pc.equal(pc.utf8_trim_whitespace(ids), ""), False))
    return np.asarray(blank.to_numpy(zero_copy_only=False))


def _run_starts(ids: pa.Array) -> Int64[np.ndarray, " R"]:
    if pa.types.is_null(ids.type):
        return np.zeros(1, dtype=np.int64)
    differs = pc.fill_null(pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)), True)
    changes = np.flatnonzero(differs.to_numpy(zero_copy_only=False)) + 1
    return np.concatenate([[0], changes])
