"""A table cut into chunks of whole series, so that it may be larger than memory.

`plan_table` goes through the whole input once and settles what depends on all of it: how dates are
read, which columns are numbers, which series there are and where their rows stand. `TablePlan.read`
then reads any chunk alone, in any order, by any thread, process or machine that sees the files. All
chunks together are the table that `read_table` reads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Int64

from foretell.data.errors import TableError
from foretell.data.series.future import all_unknown, check_kinds, some_unknown
from foretell.data.series.ids import id_at
from foretell.data.series.options import Columns
from foretell.data.series.rows import check_columns
from foretell.data.tables.blocks import Source
from foretell.data.tables.csv_files import CsvFormat
from foretell.data.tables.kept_rows import MOST_BYTES, KeptRows
from foretell.data.tables.look import TableForm, TableLook
from foretell.data.tables.parts import TableParts, parts_of
from foretell.data.tables.reading import errors_told, name_of
from foretell.data.tables.seen_files import digest_of
from foretell.data.tables.series_order import Series, find_ids
from foretell.data.tables.sources import open_source
from foretell.data.tables.table_read import Heard, TableRead

# Some 30 MB as a DataFrame, and with 200 steps a series 1,300 series: many times what a model takes
# at once, while a few chunks in flight stay far below a gigabyte.
MOST_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """Where a chunk stands.

    Attributes:
        number: Of the chunk, from 0.
        first_series: Place of its first series among all, by first appearance, from 0.
        num_series: Series in it.
        num_rows: Rows of history in it.
    """

    number: int
    first_series: int
    num_series: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class TableChunk:
    """Some whole series of a table.

    Attributes:
        table: Their history, the rows of each series together.
        future: Their rows of the future table, maybe none of them; None where there is no such
            table.
        first_series: Place of the first series among all, by first appearance, from 0.
    """

    table: pd.DataFrame
    future: pd.DataFrame | None
    first_series: int


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How a table is read in chunks; a small value that can be pickled.

    Attributes:
        num_rows: Rows of history.
        num_series: Series.
        is_partitioned: Whether rows of a series stood apart and had to be sorted into files.
        partition_bytes: Size of these files.
        fingerprint: SHA-256 over all input; another input has another.
        chunks: In order of first appearance of their series.
        warnings: What of the input is not used, a sentence each.
    """

    num_rows: int
    num_series: int
    is_partitioned: bool
    partition_bytes: int
    fingerprint: str
    chunks: tuple[ChunkRef, ...]
    warnings: tuple[str, ...]
    _history: TableParts
    _future: TableParts | None

    def read(self, number: int) -> TableChunk:
        """Read one chunk.

        Raises:
            TableError: The input has changed, has vanished, or can't be read.
        """
        with errors_told(self._history.name):
            table = self._history.read(number)
        future = None
        if self._future is not None:
            with errors_told(self._future.name):
                future = self._future.read(number)
            ids = self._history.id_column
            future = future[future[ids].isin(table[ids].unique())]
        return TableChunk(table, future, self.chunks[number].first_series)


def plan_table(
    data: str | Path,
    *,
    future: str | Path | None = None,
    csv: CsvFormat,
    columns: Columns,
    work: Path,
    most_rows: int = MOST_ROWS,
    most_series: int = MOST_ROWS,
    most_kept_bytes: int = MOST_BYTES,
    tell: Callable[[str], None] | None = None,
    read: Callable[[TableRead], object] | None = None,
) -> TablePlan:
    """Go through a table once, and cut it into chunks of whole series.

    Args:
        data: Path of the table; "-" is CSV on standard input.
        future: Path of the table of known-future covariates, if there is one.
        csv: How CSV files are written.
        columns: Names of the columns; no others are read.
        work: Folder for copies of what gives its bytes only once, and for sorted rows; made where
            it is needed.
        most_rows: Rows of a chunk, unless one series has more.
        most_series: Series of a chunk, whose answers may be longer than they are.
        most_kept_bytes: What rows may take, of each table, that stay in memory and so are read
            once; those of other processes are read by these.
        tell: Is told of copies and sorting, and what they cost.
        read: Is told how far copying, reading and sorting are, in whatever thread.

    Raises:
        TableError: What `read_table` and `read_rows` raise for the whole table.
    """
    most = (most_rows, most_series, most_kept_bytes)
    told = (tell or (lambda _: None), read or (lambda _: None))
    planner = _Planner(csv, columns, Path(work).absolute(), *most, *told)
    return planner.plan(data, future)


@dataclass(frozen=True, slots=True)
class _Planner:
    csv: CsvFormat
    columns: Columns
    work: Path
    most_rows: int
    most_series: int
    most_kept_bytes: int
    tell: Callable[[str], None]
    read: Callable[[TableRead], object]

    def plan(self, data: str | Path, future: str | Path | None) -> TablePlan:
        columns = self.columns
        covariates = (*columns.future_covariates, *columns.past_covariates)
        history = self._open(data, "data", (columns.y, *covariates, *columns.static))
        ahead = None
        if future is not None:
            ahead = self._open(future, "future", columns.future_covariates)
        for look in (history, ahead):
            if look is not None:
                with errors_told(look.source.name):
                    look.run(self._heard(look.source, "read"))
        series, form = history.settle()
        starts = _cut(series.counts, self.most_rows, self.most_series)
        chunk_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        num_chunks = len(starts) - 1
        parts = self._parts(history, form, series, chunk_of, num_chunks, "data")
        future_parts = None
        warnings: tuple[str, ...] = ()
        if ahead is not None:
            future_series, future_form = ahead.settle()
            places = find_ids(future_series.ids, series.ids)
            if columns.future_covariates:
                check_kinds(form.kind, future_form.kind)
                warnings = _unknown_ids(future_series.ids, places, series.ids)
            future_chunk_of = np.where(places < 0, -1, chunk_of[places])
            future_parts = self._parts(
                ahead, future_form, future_series, future_chunk_of, num_chunks, "future"
            )
        sizes = [one.files_bytes for one in (parts, future_parts) if one is not None]
        bounds = np.concatenate([[0], np.cumsum(series.counts)])[starts].tolist()
        return TablePlan(
            num_rows=history.num_rows,
            num_series=len(series.counts),
            is_partitioned=any(size is not None for size in sizes),
            partition_bytes=sum(size or 0 for size in sizes),
            fingerprint=digest_of(
                [look.source.digest() for look in (history, ahead) if look is not None]
            ),
            chunks=tuple(
                ChunkRef(number, first, end - first, bounds[number + 1] - bounds[number])
                for number, (first, end) in enumerate(pairwise(starts.tolist()))
            ),
            warnings=warnings,
            _history=parts,
            _future=future_parts,
        )

    def _open(self, path: str | Path, role: str, numeric: tuple[str, ...]) -> TableLook:
        wanted = (self.columns.unique_id, self.columns.ds, *numeric)
        with errors_told(name_of(path)):
            source = open_source(
                path,
                wanted,
                csv=self.csv,
                columns=self.columns,
                copy=self.work / f"{role}.csv",
                tell=self.tell,
                seen=lambda size: self.read(TableRead(name_of(path), "copied", size, None)),
            )
        # A column that is missing is told before hours of reading.
        check_columns(pd.DataFrame(columns=list(source.names), index=[0]), wanted)
        kept = KeptRows(self.most_kept_bytes)
        return TableLook(source, self.csv, self.columns, numeric, kept=kept)

    def _parts(
        self,
        look: TableLook,
        form: TableForm,
        series: Series,
        chunk_of: Int64[np.ndarray, " n"],
        num_chunks: int,
        role: str,
    ) -> TableParts:
        with errors_told(look.source.name):
            return parts_of(
                look.source,
                form,
                series,
                chunk_of,
                num_chunks=num_chunks,
                most_rows=self.most_rows,
                folder=self.work,
                role=role,
                tell=self.tell,
                heard=self._heard(look.source, "sorted"),
                kept=look.kept,
            )

    def _heard(self, source: Source, doing: str) -> Heard:
        size = source.size_bytes
        return lambda share: self.read(TableRead(source.name, doing, round(share * size), size))


def _cut(
    counts: Int64[np.ndarray, " n"], most_rows: int, most_series: int
) -> Int64[np.ndarray, " c1"]:
    """Find the first series of each chunk, and the number of all series."""
    ends = np.cumsum(counts)
    starts = [0]
    while starts[-1] < len(counts):
        first = starts[-1]
        before = ends[first - 1] if first else 0
        end = int(np.searchsorted(ends, before + most_rows, side="right"))
        starts.append(max(min(end, first + most_series), first + 1))
    return np.array(starts)


def _unknown_ids(
    ids: pa.Array, places: Int64[np.ndarray, " m"], known: pa.Array
) -> tuple[str, ...]:
    """Warn of ids of the future table that are unknown; refuse it if all are."""
    wrong = np.flatnonzero(places < 0)
    if not wrong.size:
        return ()
    unknown = pd.Index(ids.take(pa.array(wrong)).to_pandas())
    if len(wrong) == len(places):
        ours = id_at(pd.Index(known.slice(0, 1).to_pandas()), 0)
        raise TableError(all_unknown(id_at(unknown, 0), ours))
    return (some_unknown(unknown.tolist()),)
