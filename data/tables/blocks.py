"""Pieces of a table's file: blocks in which it is gone through, and spans that are read again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa
from jaxtyping import Int64
from numpy import ndarray

from foretell.data.tables.table_read import Heard


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a table as they stand in its file.

    Attributes:
        table: Their columns; from CSV all are text.
        first_row: Number of the first of them, from 0.
        places: Where each begins: bytes in CSV, rows in Parquet.
        end: Where the next block begins.
    """

    table: pa.Table
    first_row: int
    places: Int64[ndarray, " N"]
    end: int


@dataclass(frozen=True, slots=True)
class Span:
    """Rows that stand together in a file.

    Attributes:
        first_row: Number of the first, from 0.
        num_rows: How many.
        start: Where the first begins: bytes in CSV, rows in Parquet.
        end: Where the last ends.
    """

    first_row: int
    num_rows: int
    start: int
    end: int


@runtime_checkable  # so that tests can check signatures
class Source(Protocol):
    """A table's file, or folder of files, that is gone through once and then read in spans.

    Attributes:
        name: For messages.
        names: All columns of the table.
        only: The columns that are wanted, in order of the table.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def only(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def size_bytes(self) -> int:
        """Of all files."""
        ...

    def blocks(self, heard: Heard = ...) -> Iterator[Block]:
        """Go through all rows in order.

        Args:
            heard: Is told how far it is, in whatever thread reads.

        Raises:
            TableError: Rows are broken, or the file changes meanwhile.
        """
        ...

    def digest(self) -> str:
        """Return the SHA-256 of all bytes, once they have been gone through."""
        ...

    def empty(self) -> pa.Table:
        """Make a table without rows, of the columns that are wanted."""
        ...

    def check(self, span: Span) -> None:
        """Make sure that the files in which a span lies hold what they held.

        Raises:
            TableError: A file has changed, or is gone.
        """
        ...

    def read(self, span: Span) -> pa.Table:
        """Read the rows of a span, once all blocks have been gone through.

        Raises:
            TableError: The file has changed, or is gone.
        """
        ...
