"""The rows of one table that belong to the chunks of a plan: spans of its file, or sorted files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Int64

from foretell.data.tables.blocks import Source, Span
from foretell.data.tables.chunk_files import ChunkFiles, sort_rows
from foretell.data.tables.kept_rows import KeptRows
from foretell.data.tables.look import TableForm
from foretell.data.tables.parquet_source import ParquetSource
from foretell.data.tables.series_order import Series, plain_ids
from foretell.data.tables.table_read import Heard, nobody

# A part is read by decoding the row groups it lies in, which may be so many times as large.
_MOST_DECODED = 16


@dataclass(frozen=True, slots=True)
class TableParts:
    """The rows of one table by chunk.

    Attributes:
        source: The table.
        form: How a part is read.
        spans: The rows of each chunk, None for none; None where rows had to be sorted.
        files: The sorted rows; None where spans do.
        are_grouped: The rows of each series stand together in every span.
        kept: Rows that need not be read again.
    """

    source: Source
    form: TableForm
    spans: tuple[Span | None, ...] | None
    files: ChunkFiles | None
    are_grouped: bool = False
    kept: KeptRows = field(default_factory=KeptRows, compare=False)

    @property
    def name(self) -> str:
        """The table, for messages."""
        return self.source.name

    @property
    def id_column(self) -> str:
        """Name of the id column."""
        return self.form.unique_id

    @property
    def files_bytes(self) -> int | None:
        """Size of the sorted files; None where there are none."""
        return None if self.files is None else sum(self.files.sizes)

    def read(self, number: int) -> pd.DataFrame:
        """Read the rows of a chunk, those of each series together.

        Raises:
            TableError: The input has changed, or is gone.
            OSError, pyarrow.ArrowException: It can't be read.
        """
        rows: Int64[np.ndarray, " N"] | range
        if self.files is not None:
            table, rows = self.files.read(number)
        else:
            assert self.spans is not None
            span = self.spans[number]
            if span is None:
                return self.form.frame(self.source.empty(), range(0))
            table = self._read(span)
            rows = range(span.first_row, span.first_row + span.num_rows)
        if not self.are_grouped:
            coded = plain_ids(table.column(self.id_column)).dictionary_encode()
            series = coded.indices.to_numpy(zero_copy_only=False)
            if (np.diff(series) < 0).any():
                order = np.argsort(series, kind="stable")
                table, rows = table.take(order), np.asarray(rows)[order]
        return self.form.frame(table, rows)

    def _read(self, span: Span) -> pa.Table:
        kept = self.kept.rows(span.first_row, span.num_rows)
        if kept is None:
            return self.source.read(span)
        self.source.check(span)  # an input that goes away is told, wherever its rows are
        return kept


def parts_of(
    source: Source,
    form: TableForm,
    series: Series,
    chunk_of: Int64[np.ndarray, " n"],
    *,
    num_chunks: int,
    most_rows: int,
    folder: Path,
    role: str,
    tell: Callable[[str], None],
    heard: Heard = nobody,
    kept: KeptRows,
) -> TableParts:
    """Find the rows of each chunk in a table's file; sort them into files where they stand apart.

    Args:
        source: The table, which has been gone through.
        form: How parts of it are read.
        series: Its series.
        chunk_of: The chunk of each series; -1 for one that belongs to none.
        num_chunks: Of the plan; this table may have rows in some of them only.
        most_rows: Rows of a chunk.
        folder: For sorted files.
        role: How their names begin.
        tell: Is told what sorting costs.
        heard: Is told how far it is.
        kept: Rows of the table that are in memory.

    Raises:
        TableError: The table has changed, or the folder can't hold the files.
    """
    spans = _spans(series, chunk_of, num_chunks)
    too_large = 0
    if isinstance(source, ParquetSource) and source.most_group_rows > _MOST_DECODED * most_rows:
        too_large = source.most_group_rows
    if spans is not None and not too_large:
        assert series.run_ids is not None, "there are spans"
        are_grouped = len(series.run_ids) == len(series.counts)
        return TableParts(source, form, spans, None, are_grouped, kept)
    reason = (
        f"has row groups of up to {too_large:,} rows, too large to be read in parts"
        if too_large
        else "has rows of one series that don't follow each other"
    )
    tell(f"{source.name} {reason}; its rows are sorted into files first.")
    kept.drop()  # they are read from those, and sorting has need of the memory
    files = sort_rows(
        source,
        form.unique_id,
        series.ids,
        chunk_of,
        num_chunks,
        folder=folder,
        name=role,
        tell=tell,
        heard=heard,
    )
    return TableParts(source, form, None, files)


def _spans(
    series: Series, chunk_of: Int64[np.ndarray, " n"], num_chunks: int
) -> tuple[Span | None, ...] | None:
    """Find the rows of each chunk; None where those of a chunk don't stand together."""
    if series.run_ids is None:
        return None
    chunks = chunk_of[series.run_ids]
    used = np.flatnonzero(chunks >= 0)
    if (np.diff(chunks[used]) < 0).any():
        return None
    spans: list[Span | None] = []
    bounds = np.searchsorted(chunks[used], np.arange(num_chunks + 1))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if low == high:
            spans.append(None)
            continue
        first, end = used[low], used[high - 1] + 1
        rows, places = series.run_rows[[first, end]], series.run_places[[first, end]]
        spans.append(Span(int(rows[0]), int(rows[1] - rows[0]), int(places[0]), int(places[1])))
    return tuple(spans)
