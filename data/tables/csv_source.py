"""A CSV file that is looked at once, and then read in spans."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import pyarrow as pa

from foretell.data.tables.blocks import Block, Span
from foretell.data.tables.csv_blocks import read_blocks, read_span
from foretell.data.tables.csv_files import CsvLayout
from foretell.data.tables.seen_files import Digest, FileState, SeenFile
from foretell.data.tables.table_read import Heard, nobody

_MOST_BYTES = 1 << 26  # of a span that is read at once


@dataclass(slots=True)
class CsvSource:
    """A CSV file.

    Attributes:
        name: For messages.
        path: Of the input itself, or of a copy of what gives its bytes only once.
        layout: What its header tells.
        only: The columns that are wanted, in order of the file.
        seen: The file as it was, once all its blocks have been looked at.
    """

    name: str
    path: Path
    layout: CsvLayout
    only: tuple[str, ...]
    seen: SeenFile | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the file."""
        return self.layout.names

    def digest(self) -> str:
        """SHA-256 of the file, once it was seen."""
        return self._seen().sha256

    @property
    def size_bytes(self) -> int:
        """Of the file."""
        return self.path.stat().st_size if self.seen is None else self.seen.state.size

    def blocks(self, heard: Heard = nobody) -> Iterator[Block]:
        """Go through all rows; see `Source.blocks`.

        Raises:
            TableError: Rows are broken, or the file changes meanwhile.
        """
        with self.path.open("rb") as file:
            state = FileState.of(os.fstat(file.fileno()))
            digest = Digest(file.read)
            left = self.layout.start
            while left and (skipped := digest.read(left)):
                left -= len(skipped)

            def read(size: int) -> bytes:
                content = digest.read(size)
                heard(digest.size / max(state.size, digest.size, 1))
                return content

            start = self.layout.start
            yield from read_blocks(read, self.name, self.layout, self.only, start=start)
        if self.seen is None:
            self.seen = SeenFile(self.path, state, digest.hexdigest())
        self.seen.check()

    def empty(self) -> pa.Table:
        """Make a table without rows."""
        return pa.table({name: pa.array([], pa.string()) for name in self.only})

    def check(self, _span: Span) -> None:
        """Make sure that the file holds what it held; see `Source.check`."""
        self._seen().check()

    def read(self, span: Span) -> pa.Table:
        """Read the rows of a span.

        Raises:
            TableError: The file has changed, or is gone.
        """
        self.check(span)
        with self.path.open("rb") as file:
            file.seek(span.start)
            table = None
            if span.end - span.start <= _MOST_BYTES:
                content = file.read(span.end - span.start)
                table = read_span(content, self.layout, self.only, span.num_rows)
                del content
            if table is None:
                file.seek(span.start)
                found = read_blocks(
                    _Bounded(file, span.end - span.start).read,
                    self.name,
                    self.layout,
                    self.only,
                    start=span.start,
                    first_row=span.first_row,
                )
                table = pa.concat_tables([block.table for block in found])
        self.check(span)
        return table

    def _seen(self) -> SeenFile:
        assert self.seen is not None, "spans come from its blocks"
        return self.seen


class _Bounded:
    """Reads a file up to a number of bytes."""

    def __init__(self, file: BufferedReader, left: int) -> None:
        self._file = file
        self._left = left

    def read(self, size: int) -> bytes:
        content = self._file.read(min(size, self._left))
        self._left -= len(content)
        return content
