"""A Parquet file or folder that is looked at once, and then read in spans of rows."""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from foretell.data.errors import TableError
from foretell.data.tables.blocks import Block, Span
from foretell.data.tables.parquet_files import check_zones, find_parquet, open_dataset
from foretell.data.tables.seen_files import SeenFile, digest_of

_BATCH_ROWS = 1 << 18


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

    def blocks(self) -> Iterator[Block]:
        """Go through all rows.

        Raises:
            TableError: A file changes meanwhile.
        """
        first_row = 0
        is_first_time = not self.seen
        if is_first_time:
            self.seen = [SeenFile.hashed(file) for file in self.files]
        for place, file in enumerate(self.files):
            fragment = self._fragment(file)
            if is_first_time:
                self.row_groups.append([group.num_rows for group in fragment.row_groups])
            for table in self._tables(fragment):
                end = first_row + table.num_rows
                yield Block(table, first_row, np.arange(first_row, end), end)
                first_row = end
            self.seen[place].check()

    def empty(self) -> pa.Table:
        """Make a table without rows."""
        return self.schema.empty_table().select(list(self.only))

    def read(self, span: Span) -> pa.Table:
        """Read the rows of a span.

        Raises:
            TableError: A file has changed, or is gone.
        """
        ends = np.cumsum([sum(groups) for groups in self.row_groups]).tolist()
        pieces: list[pa.Table] = []
        for place in range(bisect.bisect_right(ends, span.start), len(ends)):
            before = ends[place - 1] if place else 0
            if before >= span.end:
                break
            self.seen[place].check()
            pieces += self._read_file(place, max(span.start - before, 0), span.end - before)
            self.seen[place].check()
        table = pa.concat_tables(pieces)
        if table.num_rows != span.num_rows:  # files that are copies may be cut otherwise
            raise TableError(f"{self.name} has changed since the job began; start the job anew.")
        return table

    def _read_file(self, place: int, start: int, end: int) -> Iterator[pa.Table]:
        """Read the rows from `start` to `end` of one file."""
        bounds = np.concatenate([[0], np.cumsum(self.row_groups[place])])
        groups = np.flatnonzero((bounds[1:] > start) & (bounds[:-1] < end)).tolist()
        row = int(bounds[groups[0]])
        for table in self._tables(self._fragment(self.files[place]), groups):
            low, high = max(start - row, 0), min(end - row, table.num_rows)
            row += table.num_rows
            if low < high:
                yield table.slice(low, high - low)
            if row >= end:
                return

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
                    yield table
