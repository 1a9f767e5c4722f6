"""A Parquet file or folder that is looked at once, and then read in spans of rows."""

import bisect
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from foretell.data.errors import TableError
from foretell.data.tables.blocks import Block, Span
from foretell.data.tables.parquet_files import check_zones, find_parquet, open_dataset
from foretell.data.tables.seen_files import SeenFile, digest_of
from foretell.data.tables.table_read import Heard, nobody

_BATCH_ROWS = 1 << 18


@dataclass(slots=True)
class _Reader:
    """Reads a file onwards.

    Attributes:
        place: Of the file among all.
        row: Of the file, at which it stands.
        tables: What follows.
        rest: What it has in hand of them.
    """

    place: int
    row: int
    tables: Iterator[pa.Table]
    rest: pa.Table | None = None

    def read(self, end: int) -> list[pa.Table]:
        """Read up to a row, or to the end of the file."""
        pieces = []
        while self.row < end:
            table = self.rest if self.rest is not None else next(self.tables, None)
            if table is None:
                break
            piece = table.slice(0, end - self.row)
            pieces.append(piece)
            self.row += piece.num_rows
            is_all = piece.num_rows == table.num_rows
            self.rest = None if is_all else table.slice(piece.num_rows)
        return pieces


class _Bookmark:
    """Where the last span ended: the next one mostly begins there, in the midst of a row group.

    Any thread may come; a copy in another process begins without one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader: _Reader | None = None

    def __reduce__(self) -> tuple[type["_Bookmark"], tuple[()]]:
        return _Bookmark, ()

    def take(self, place: int, row: int) -> _Reader | None:
        """Take the reader, if it stands at that row; it is nobody else's then."""
        with self._lock:
            reader = self._reader
            if reader is None or (reader.place, reader.row) != (place, row):
                return None
            self._reader = None
            return reader

    def put(self, reader: _Reader) -> None:
        """Leave a reader for whoever comes next."""
        with self._lock:
            self._reader = reader


@dataclass(slots=True)
class ParquetSource:
    """A Parquet file, or a folder of them.

    Attributes:
        name: For messages.
        path: Of the file or folder.
        files: In order of their rows.
        schema: Of the whole table.
        only: The columns that are wanted, in order of the table.
        seen: The files as they were, once all blocks have been looked at.
        row_groups: Numbers of rows in each file's row groups.
    """

    name: str
    path: Path
    files: tuple[Path, ...]
    schema: pa.Schema
    only: tuple[str, ...]
    seen: list[SeenFile] = field(default_factory=list)
    row_groups: list[list[int]] = field(default_factory=list)
    _bookmark: _Bookmark = field(default_factory=_Bookmark, repr=False, compare=False)

    @classmethod
    def open(cls, path: Path, wanted: Sequence[str]) -> "ParquetSource":
        """Find the files and their columns.

        Raises:
            TableError: There are no files, or columns have one name or a time zone that is none.
        """
        name, path = str(path), path.absolute()  # other processes may stand elsewhere
        files = find_parquet(path)
        schema = open_dataset(files, path, wanted=wanted).schema
        check_zones(schema, name)
        only = tuple(name for name in schema.names if name in wanted)
        return cls(name, path, tuple(files), schema, only)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the table."""
        return tuple(self.schema.names)

    def digest(self) -> str:
        """SHA-256 over the names and contents of all files, once they were seen."""
        names = [file.relative_to(self.path).as_posix() for file in self.files]
        return digest_of([*names, *(seen.sha256 for seen in self.seen)])

    @property
    def most_group_rows(self) -> int:
        """Rows of the largest row group, all of which may be decoded for one row."""
        return max((max(groups, default=0) for groups in self.row_groups), default=0)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        if self.seen:
            return sum(seen.state.size for seen in self.seen)
        return sum(file.stat().st_size for file in self.files)

    def blocks(self, heard: Heard = nobody) -> Iterator[Block]:
        """Go through all rows; see `Source.blocks`.

        Raises:
            TableError: A file changes meanwhile.
        """
        first_row, bytes_before, begun = 0, 0, 0.0
        size_bytes = max(1, self.size_bytes)
        is_first_time = not self.seen
        if is_first_time:
            begun = 0.5  # once for the sum, once for the rows
            self.seen = self._hashed(lambda share: heard(begun * share), size_bytes)
        for place, file in enumerate(self.files):
            fragment = self._fragment(file)
            if is_first_time:
                self.row_groups.append([group.num_rows for group in fragment.row_groups])
            first_of_file, num_rows = first_row, sum(self.row_groups[place])
            file_bytes = self.seen[place].state.size
            for table in self._tables(fragment):
                end = first_row + table.num_rows
                yield Block(table, first_row, np.arange(first_row, end), end)
                first_row = end
                done = bytes_before + file_bytes * (first_row - first_of_file) / num_rows
                heard(begun + (1 - begun) * done / size_bytes)
            bytes_before += file_bytes
            self.seen[place].check()

    def _hashed(self, heard: Heard, size_bytes: int) -> list[SeenFile]:
        found, before = [], 0
        for file in self.files:
            found.append(SeenFile.hashed(file, partial(_tell_share, heard, before, size_bytes)))
            before += found[-1].state.size
        return found

    def empty(self) -> pa.Table:
        """Make a table without rows."""
        return self.schema.empty_table().select(list(self.only))

    def check(self, span: Span) -> None:
        """Make sure that the span's files hold what they held; see `Source.check`."""
        for place, _ in self._files_of(span):
            self.seen[place].check()

    def read(self, span: Span) -> pa.Table:
        """Read the rows of a span.

        Raises:
            TableError: A file has changed, or is gone.
        """
        pieces: list[pa.Table] = []
        for place, before in self._files_of(span):
            self.seen[place].check()
            pieces += self._read_file(place, max(span.start - before, 0), span.end - before)
            self.seen[place].check()
        table = pa.concat_tables(pieces)
        if table.num_rows != span.num_rows:  # files that are copies may be cut otherwise
            raise TableError(f"{self.name} has changed since the job began; start the job anew.")
        return table

    def _files_of(self, span: Span) -> Iterator[tuple[int, int]]:
        """Find the files in which a span lies, each with the rows before it."""
        ends = np.cumsum([sum(groups) for groups in self.row_groups]).tolist()
        for place in range(bisect.bisect_right(ends, span.start), len(ends)):
            before = ends[place - 1] if place else 0
            if before >= span.end:
                break
            yield place, before

    def _read_file(self, place: int, start: int, end: int) -> list[pa.Table]:
        """Read the rows from `start` to `end` of one file."""
        reader = self._bookmark.take(place, start)
        if reader is None:
            bounds = np.concatenate([[0], np.cumsum(self.row_groups[place])])
            first = int(np.searchsorted(bounds, start, side="right")) - 1
            groups = list(range(first, len(self.row_groups[place])))
            tables = self._tables(self._fragment(self.files[place]), groups)
            reader = _Reader(place, int(bounds[first]), tables)
            reader.read(start)
        pieces = reader.read(end)
        self._bookmark.put(reader)
        return pieces

    def _fragment(self, file: Path) -> pads.ParquetFileFragment:
        return next(iter(open_dataset([file], self.path, self.schema).get_fragments()))

    def _tables(
        self, fragment: pads.ParquetFileFragment, groups: list[int] | None = None
    ) -> Iterator[pa.Table]:
        """Read row groups one after the other, in pieces of some 100,000 rows."""
        for group in range(fragment.num_row_groups) if groups is None else groups:
            batches = fragment.subset(row_group_ids=[group]).to_batches(
                schema=self.schema,
                columns=list(self.only),
                batch_size=_BATCH_ROWS,
                batch_readahead=1,
                fragment_readahead=0,
            )
            for batch in batches:
                if batch.num_rows:
                    table = pa.Table.from_batches([batch])
                    table.validate(full=True)
                    yield _without_views(table)


def _without_views(table: pa.Table) -> pa.Table:
    """Write out texts that are views of others: much of Arrow can't take rows of them."""
    for place, column in enumerate(table.columns):
        if pa.types.is_string_view(column.type):
            name = table.column_names[place]
            table = table.set_column(place, name, column.cast(pa.large_string()))
    return table


def _tell_share(heard: Heard, before: int, total: int, seen: int) -> None:
    heard((before + seen) / total)
