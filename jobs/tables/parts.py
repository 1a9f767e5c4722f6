"""Tables written in parts: each part by itself, and at the end one file made of all of them.

The file is the one that the whole table would make, whatever parts it came in.
"""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from foretell.jobs.output import table_format
from foretell.jobs.packing import packed_writer
from foretell.jobs.tables.text import header_line, table_lines

_BLOCK_BYTES = 1 << 20
_GROUP_ROWS = 1 << 20  # of a row group, as pyarrow has it
_GROUP_BYTES = 1 << 28
# A line: its id, which may stand in quotes; its stamp; all the rest.
_LINE = re.compile(rb"""((?:"(?:[^"]|"")*"|[^",\n]*),)([^,\n]*)(,[^\n]*\n)""")
# A stamp: its day; time, with 0, 3, 6 or 9 digits behind the point; the offset, where there are
# zones. See `table_lines`.
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d)( \d\d:\d\d:\d\d)?(\.\d+)?([+-][\d:]+)?")


@runtime_checkable  # so that tests can check signatures
class PartFormat(Protocol):
    """How the parts of a table are written."""

    def part(self, table: pd.DataFrame, horizon: int) -> bytes:
        """Write one part: `horizon` rows of each series."""

    def join(self, parts: Iterable[Path], target: BinaryIO) -> None:
        """Make one file of all parts, in their order."""


def part_format(output: Path | None, columns: Sequence[str]) -> PartFormat:
    """Choose how parts are written, by the name of the output; None is CSV on standard output.

    Args:
        output: Where the file shall stand.
        columns: Names of the table's columns.

    Raises:
        OptionError: The output has another ending.
    """
    ending = ".csv" if output is None else table_format(output)
    if ending == ".parquet":
        return ParquetParts()
    return CsvParts(columns, is_packed=ending == ".csv.gz")


class CsvParts:
    """Parts are lines; the file is a header and all of them, packed or not."""

    def __init__(self, columns: Sequence[str], *, is_packed: bool = False) -> None:
        self._header = header_line(columns)
        self._is_packed = is_packed

    def part(self, table: pd.DataFrame, horizon: int) -> bytes:
        """Write lines; see `table_lines`."""
        return bytes(table_lines(table, horizon))

    def join(self, parts: Iterable[Path], target: BinaryIO) -> None:
        """Write header and lines, all stamps with as much of the time as any has."""
        if not self._is_packed:
            for block in self._blocks(list(parts)):
                target.write(block)
            return
        with packed_writer(target) as write:
            for block in self._blocks(list(parts)):
                write(block)

    def _blocks(self, parts: list[Path]) -> Iterator[bytes]:
        yield self._header
        told = [_told(part) for part in parts]
        most = max(filter(None, told), default=0)
        for part, digits in zip(parts, told, strict=True):
            if digits is not None and digits < most:
                yield _with_time(part, most)
                continue
            with part.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    yield block


def _told(part: Path) -> int | None:
    """Tell how many characters the stamps of a part have for the time; None of other stamps."""
    with part.open("rb") as file:
        first = b""
        while (line := _LINE.match(first)) is None and (block := file.readline()):
            first += block
    stamp = None if line is None else _STAMP.fullmatch(line[2])
    return None if stamp is None else len(stamp[2] or b"") + len(stamp[3] or b"")


def _with_time(part: Path, most: int) -> bytes:
    """Write the lines of a part with more of the time, which is noughts."""

    def write(line: re.Match[bytes]) -> bytes:
        stamp = _STAMP.fullmatch(line[2])
        assert stamp is not None  # as the first one is
        time = (stamp[2] or b" 00:00:00") + (stamp[3] or b".")
        told = stamp[1] + time.ljust(most, b"0")[:most] + (stamp[4] or b"")
        return line[1] + told + line[3]

    return _LINE.sub(write, part.read_bytes())


class ParquetParts:
    """Parts are streams of Arrow; the file has row groups of one size."""

    def part(self, table: pd.DataFrame, horizon: int) -> bytes:
        """Write an Arrow stream that keeps the types of the columns."""
        arrow = pa.Table.from_pandas(table, preserve_index=False)
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, arrow.schema) as stream:
            stream.write_table(arrow)
        return sink.getvalue()

    def join(self, parts: Iterable[Path], target: BinaryIO) -> None:
        """Write a Parquet file, bounded in memory by its row groups."""
        parts = list(parts)
        schema = _schema(parts)
        row_bytes = max(1, 8 * len(schema))
        most = max(1, min(_GROUP_ROWS, _GROUP_BYTES // row_bytes))
        with pq.ParquetWriter(target, schema) as writer:
            for group in _groups((_read(part) for part in parts), schema, most):
                writer.write_table(group, row_group_size=most)


def _read(part: Path) -> pa.Table:
    with pa.memory_map(str(part)) as file, pa.ipc.open_stream(file) as stream:
        return stream.read_all()


def _schema(parts: list[Path]) -> pa.Schema:
    """Find the one schema of all parts: where they differ, some values were of narrower types."""
    schemas: list[pa.Schema] = []
    for part in parts:
        with pa.memory_map(str(part)) as file, pa.ipc.open_stream(file) as stream:
            if stream.schema not in schemas:
                schemas.append(stream.schema)
    if len(schemas) == 1:
        return schemas[0]
    return pa.unify_schemas(schemas, promote_options="permissive")


def _groups(tables: Iterable[pa.Table], schema: pa.Schema, most: int) -> Iterator[pa.Table]:
    """Cut tables anew, into row groups of one size."""
    waiting = schema.empty_table()
    for table in tables:
        waiting = pa.concat_tables([waiting, table.cast(schema)])
        while len(waiting) >= most:
            yield waiting.slice(0, most).combine_chunks()
            waiting = waiting.slice(most)
    if len(waiting):
        yield waiting.combine_chunks()
