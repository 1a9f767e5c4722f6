"""CSV read in blocks of whole rows, each with the place in the file where it begins.

A row is one line, so a block may end at any line end; whether rows and lines agree is checked in
every block. Where they don't, a quote was left open or a row is broken, and the table is refused in
the words of `foretell.data.tables.csv_files`.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from foretell.data.errors import TableError
from foretell.data.series.file_rows import row_name
from foretell.data.tables.ahead import ahead
from foretell.data.tables.blocks import Block
from foretell.data.tables.csv_files import CsvLayout, explain_rows, parse_rows

BLOCK_BYTES = 1 << 23
# A line that long is a quote left open or no line at all; what is wrong is told from so many bytes.
_MOST_BYTES = 1 << 26
_LF, _CR = b"\n\r"


def read_blocks(
    read: Callable[[int], bytes],
    name: str,
    layout: CsvLayout,
    only: Sequence[str],
    *,
    start: int,
    first_row: int = 0,
) -> Iterator[Block]:
    """Read rows up to the end.

    Args:
        read: Reads so many bytes, fewer at the end; it stands at the beginning of a row.
        name: The file, for messages.
        layout: Of the file.
        only: The columns that are wanted.
        start: Where `read` stands in the file.
        first_row: Number of the row there.

    Raises:
        TableError: Rows are broken, or values stand over several lines.
        pyarrow.ArrowInvalid: Text is no UTF-8.
    """
    found = ahead(_whole_lines(read, name, layout, start=start, first_row=first_row))
    for lines in found:
        # A quote left open at the very end swallows one more line end, and is noticed.
        content = lines.content + b"\n" if lines.are_last else lines.content
        table = _parse(content, lines.starts, layout, only)
        if table is None:
            later = (more.content for more in found)
            _tell_trouble(lines.content, later, name, layout, lines.first_row)
        places = lines.starts + lines.start
        yield Block(table, lines.first_row, places, lines.start + len(lines.content))


def read_span(
    content: bytes, layout: CsvLayout, only: Sequence[str], num_rows: int
) -> pa.Table | None:
    """Read rows that `read_blocks` has found before; None where they are so many no more."""
    try:
        table = _rows_of(content, layout, only)
    except pa.ArrowInvalid:
        return None
    return table.select(list(only)) if table.num_rows == num_rows else None


@dataclass(frozen=True, slots=True)
class _Lines:
    """Whole lines of a file: their bytes, where each that is not empty begins, and which they are.

    Attributes:
        content: Their bytes.
        starts: Where in these each line begins that is not empty.
        start: Where in the file they begin.
        first_row: Number of the first row.
        are_last: The file ends with them.
    """

    content: bytes
    starts: Int64[np.ndarray, " N"]
    start: int
    first_row: int
    are_last: bool


def _whole_lines(
    read: Callable[[int], bytes], name: str, layout: CsvLayout, *, start: int, first_row: int
) -> Iterator[_Lines]:
    kept = b""
    while more := read(BLOCK_BYTES):
        cut = _last_line_end(more)
        if cut:
            content, kept = b"".join((kept, memoryview(more)[:cut])), more[cut:]
        else:
            kept += more
            cut = _last_line_end(kept)
            content, kept = kept[:cut], kept[cut:]
        if not cut and len(kept) > _MOST_BYTES:
            later = iter(partial(read, BLOCK_BYTES), b"")
            _tell_trouble(kept, later, name, layout, first_row)
        starts = _row_starts(content)
        if len(starts):
            yield _Lines(content, starts, start, first_row, are_last=False)
            first_row += len(starts)
        start += len(content)
    starts = _row_starts(kept)
    if len(starts):
        yield _Lines(kept, starts, start, first_row, are_last=True)


def _last_line_end(content: bytes) -> int:
    """Find where a block may end: behind its last line end, if it has one."""
    # A CR at the very end may be half of a line end.
    return max(content.rfind(b"\n"), content.rfind(b"\r", 0, -1)) + 1


def _row_starts(block: bytes) -> Int64[np.ndarray, " N"]:
    """Find the lines that are not empty."""
    characters = np.frombuffer(block, np.uint8)
    is_end = characters == _LF
    if b"\r" in block:
        is_cr = characters == _CR
        is_end[:-1] |= is_cr[:-1] & (characters[1:] != _LF)
        is_end[-1] |= is_cr[-1]
    ends = np.flatnonzero(is_end)
    if not len(ends) or ends[-1] != len(block) - 1:
        ends = np.append(ends, len(block))
    starts = np.empty(len(ends), dtype=np.int64)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    is_empty = starts >= ends
    if b"\r" in block:
        is_empty |= (ends - starts == 1) & (characters[np.minimum(starts, len(block) - 1)] == _CR)
    return starts[~is_empty] if is_empty.any() else starts


def _parse(
    block: bytes, starts: Int64[np.ndarray, " N"], layout: CsvLayout, only: Sequence[str]
) -> pa.Table | None:
    """Parse a block; None where its rows are not its lines."""
    has_quotes = b'"' in block
    # Text that is none is refused in any column.
    wanted = list(only) if block.isascii() else list(layout.names)
    try:
        table = _rows_of(block, layout, wanted)
    except pa.ArrowInvalid as error:
        if "columns, got" in str(error) or "straddling" in str(error):
            return None
        raise
    if table.num_rows != len(starts):
        return None
    last = block[starts[-1] :]
    if has_quotes and b'"' in last and not _is_one_line(last, layout):
        return None
    return table.select(list(only))


def _rows_of(content: bytes, layout: CsvLayout, only: Sequence[str]) -> pa.Table:
    return parse_rows(
        pa.BufferReader(content),
        layout.separator,
        layout.names,
        has_header=False,
        only=only,
        block_size=len(content) + 1,
    )


def _is_one_line(line: bytes, layout: CsvLayout) -> bool:
    """Tell whether a line holds no quote that is left open, which would swallow the next ones."""
    row = parse_rows(pa.BufferReader(line), layout.separator, layout.names, has_header=False)
    ends = [pc.match_substring_regex(column, r"[\r\n]") for column in row.columns]
    return not any(pc.any(found).as_py() for found in ends)


def _tell_trouble(
    content: bytes, later: Iterable[bytes], name: str, layout: CsvLayout, first_row: int
) -> NoReturn:
    """Refuse the table for what is wrong in these rows or soon behind them."""
    pieces = [content]
    size = len(content)
    with contextlib.suppress(TableError):  # what is wrong there comes later
        for more in later:
            pieces.append(more)
            size += len(more)
            if size >= _MOST_BYTES:
                break
    whole = b"".join(pieces)
    if size >= _MOST_BYTES:  # no character is cut in two
        whole = whole[: _last_line_end(whole)] or whole
    explain_rows(whole + b"\n", name, layout, first_row)
    raise TableError(
        f"{name} has a line of over {_MOST_BYTES >> 20} MiB in {row_name(first_row)}; a quote may "
        "be left open there. Close or remove it, and write each row in one line."
    )
