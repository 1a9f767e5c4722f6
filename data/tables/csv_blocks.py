"""CSV read in blocks of whole rows, each with the place in the file where it begins.

A row is one line, so a block may end at any line end; whether rows and lines agree is checked in
every block. Where they don't, a quote was left open or a row is broken, and the table is refused in
the words of `foretell.data.tables.csv_files`.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from foretell.data.errors import TableError
from foretell.data.tables.blocks import Block
from foretell.data.tables.csv_files import CsvLayout, explain_rows, parse_rows
from foretell.data.tables.file_rows import row_name

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
    kept = b""
    while True:
        more = read(BLOCK_BYTES)
        content = kept + more
        cut = _last_line_end(content) if more else len(content)
        block, kept = content[:cut], content[cut:]
        if not cut and len(kept) > _MOST_BYTES:
            _tell_trouble(kept, read, name, layout, first_row)
        starts = _row_starts(block)
        if len(starts):
            # A quote left open at the very end swallows one more line end, and is noticed.
            table = _parse(block if more else block + b"\n", starts, layout, only)
            if table is None:
                _tell_trouble(block + kept, read, name, layout, first_row)
            yield Block(table, first_row, starts + start, start + len(block))
            first_row += len(starts)
        start += len(block)
        if not more:
            return


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
    starts = np.concatenate([[0], ends[:-1] + 1])
    is_empty = starts >= ends
    if b"\r" in block:
        is_empty |= (ends - starts == 1) & (characters[np.minimum(starts, len(block) - 1)] == _CR)
    return starts[~is_empty].astype(np.int64)


def _parse(
    block: bytes, starts: Int64[np.ndarray, " N"], layout: CsvLayout, only: Sequence[str]
) -> pa.Table | None:
    """Parse a block; None where its rows are not its lines."""
    has_quotes = b'"' in block
    # Text that is none is refused in any column.
    wanted = list(only) if block.isascii() else list(layout.names)
    try:
        table = parse_rows(
            pa.BufferReader(block),
            layout.separator,
            layout.names,
            has_header=False,
            only=wanted,
            block_size=len(block) + 1,
        )
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


def _is_one_line(line: bytes, layout: CsvLayout) -> bool:
    """Tell whether a line holds no quote that is left open, which would swallow the next ones."""
    row = parse_rows(pa.BufferReader(line), layout.separator, layout.names, has_header=False)
    ends = [pc.match_substring_regex(column, r"[\r\n]") for column in row.columns]
    return not any(pc.any(found).as_py() for found in ends)


def _tell_trouble(
    content: bytes, read: Callable[[int], bytes], name: str, layout: CsvLayout, first_row: int
) -> None:
    """Refuse the table for what is wrong in these rows or soon behind them."""
    pieces = [content]
    size = len(content)
    while size < _MOST_BYTES and (more := read(BLOCK_BYTES)):
        pieces.append(more)
        size += len(more)
    whole = b"".join(pieces)
    if size >= _MOST_BYTES:  # no character is cut in two
        whole = whole[: _last_line_end(whole)] or whole
    explain_rows(whole + b"\n", name, layout, first_row)
    raise TableError(
        f"{name} has a line of over {_MOST_BYTES >> 20} MiB in {row_name(first_row)}; a quote may "
        "be left open there. Close or remove it, and write each row in one line."
    )
