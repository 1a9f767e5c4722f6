"""Lines of text files in bounded memory; from a pipe as they come.

A line ends at LF, and at nothing else that Unicode or an editor may take for an end: a file has as
many lines as `wc -l` counts, and one more where the last has no end. A CR before the LF and a byte
order mark at the start belong to the file, not to its text.
"""

import errno
import gzip
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, FileIO
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, cast

from foretell.data.errors import TextError
from foretell.data.standard_input import GZIP, packed_problem

LARGEST_LINE_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST_NAMED = 10  # bad lines

Seen = Callable[[memoryview], object]  # gets what is read of a file, as it stands there


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text file.

    Attributes:
        number: Its place in the file, from 1.
        text: What it says; empty where it can't be read.
        problem: Why it can't be read; None where it can.
    """

    number: int
    text: str
    problem: str | None = None


def source_name(source: str | Path) -> str:
    """Name a source in messages."""
    return "standard input" if str(source) == "-" else str(source)


def check_sources(*sources: str | Path) -> None:
    """Refuse texts that can't be read, before any work is done.

    Nothing is opened: a pipe that is opened and closed again has lost what its writer sent.

    Raises:
        TextError: Files don't exist, are folders or may not be read, or standard input is closed;
            all of them are named.
    """
    if problems := [problem for source in sources if (problem := _source_problem(source))]:
        raise TextError(problems)


def arriving_lines(source: str | Path, *, seen: Seen | None = None) -> Iterator[list[Line]]:
    """Yield the lines that each read completes, none or many, those that are no text among them.

    Args:
        source: A file, plain or packed by gzip, or "-" for standard input.
        seen: Gets the bytes of a file, packed or not, as they are read; at the end it has all.

    Raises:
        TextError: It can't be read; a packed file is damaged.
    """
    numbers = count(1)
    for records in arriving_records(source, seen=seen):
        yield [_line(next(numbers), record) for record in records]


def arriving_records(
    source: str | Path, *, seen: Seen | None = None
) -> Iterator[list[bytes | None]]:
    """Yield the lines that each read completes, as bytes; None stands for one that is too long.

    Args:
        source: See `arriving_lines`.
        seen: See there.

    Raises:
        TextError: As `arriving_lines` does.
    """
    yield from _records(_blocks(source, seen))


def lines_at(path: str | Path, start: int, size: int, *, first: int) -> list[Line]:
    """Read some lines of a plain file, as `arriving_lines` reads them among all.

    Args:
        path: The file.
        start: Byte at which the first of them starts.
        size: Bytes of them, their ends included.
        first: Number of the first.

    Raises:
        TextError: It can't be read, or ends before.
    """
    numbers = count(first)
    records = (record for some in _records(_range(path, start, size)) for record in some)
    return [_line(next(numbers), record) for record in records]


def _records(blocks: Iterable[bytes]) -> Iterator[list[bytes | None]]:
    pending, too_long = b"", False
    for block in blocks:
        *ended, pending = (pending + block).split(b"\n")
        whole: list[bytes | None] = [*ended]
        if whole and too_long:
            whole[0], too_long = None, False
        if len(pending) > LARGEST_LINE_BYTES:
            pending, too_long = b"", True
        yield whole
    if pending or too_long:
        yield [None if too_long else pending]


def count_lines(source: str | Path) -> int:
    """Count the lines of a file, text or not.

    Raises:
        TextError: It can't be read.
    """
    return sum(len(records) for records in arriving_records(source))


def line_counts(counts: Sequence[tuple[str | Path, int]]) -> str:
    """Tell how many lines each source has: "a.en has 2 lines, a.de has 1 line"."""
    return ", ".join(
        f"{source_name(source)} has {number:,} line{'' if number == 1 else 's'}"
        for source, number in counts
    )


def read_lines(source: str | Path) -> Iterator[str]:
    """Read the lines of a text file; all of them must be text.

    Args:
        source: A file, plain or packed by gzip, or "-" for standard input.

    Raises:
        TextError: The file can't be read, or lines of it are no UTF-8; the first of them are named.
    """
    lines = (line for lines in arriving_lines(source) for line in lines)
    for line in lines:
        if line.problem is not None:
            raise TextError(_problems(source_name(source), line, lines))
        yield line.text


def read_parallel(sources: Sequence[str | Path]) -> Iterator[tuple[str, ...]]:
    """Read files whose lines belong together: line i of each.

    Raises:
        TextError: As `read_lines` does; or the files have different numbers of lines, which is
            found at the end and tells all numbers.
    """
    if sum(str(source) == "-" for source in sources) > 1:
        raise TextError("standard input can be read once; give files for the others.")
    counts = [0] * len(sources)
    even = True
    for lines in zip_longest(*map(read_lines, sources)):
        counts = [n + (line is not None) for n, line in zip(counts, lines, strict=True)]
        even = even and None not in lines
        if even:
            yield lines
    if not even:
        found = line_counts(list(zip(sources, counts, strict=True)))
        raise TextError(f"line i of each file belongs to line i of the others, but {found}.")


def _source_problem(source: str | Path) -> str | None:
    if str(source) == "-":
        closed = "standard input is closed; leave it open, or give a file."
        return closed if sys.stdin is None else None
    try:
        if stat.S_ISDIR(os.stat(source).st_mode):
            reason = os.strerror(errno.EISDIR)
        elif not os.access(source, os.R_OK):
            reason = os.strerror(errno.EACCES)
        else:
            return None
    except OSError as error:
        reason = error.strerror or str(error)
    return f"{source_name(source)} can't be read ({reason})."


def _blocks(source: str | Path, seen: Seen | None) -> Iterator[bytes]:
    name = source_name(source)
    if str(source) == "-":
        check_sources(source)
        if (problem := packed_problem()) is not None:  # else each of its lines would be refused
            raise TextError(problem)
    try:
        with _opened(source, seen) as file:
            while block := file.read1(_BLOCK_BYTES):
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TextError(f"{name} is incomplete or damaged ({error}); copy it again.") from error
    except OSError as error:
        raise TextError(f"{name} can't be read ({error.strerror or error}).") from error


def _range(path: str | Path, start: int, size: int) -> Iterator[bytes]:
    name = source_name(path)
    try:
        with Path(path).open("rb") as file:
            file.seek(start)
            while size:
                block = file.read(min(size, _BLOCK_BYTES))
                if not block:
                    raise TextError(f"{name} is shorter than it was when its lines were counted.")
                size -= len(block)
                yield block
    except OSError as error:
        raise TextError(f"{name} can't be read ({error.strerror or error}).") from error


class _Watched(FileIO):
    """A file that shows what is read of it."""

    def __init__(self, path: Path, seen: Seen) -> None:
        super().__init__(path)
        self._seen = seen

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer) or 0
        self._seen(memoryview(buffer)[:count])
        return count


@contextmanager
def _opened(source: str | Path, seen: Seen | None) -> Iterator[BufferedReader | gzip.GzipFile]:
    if str(source) == "-":
        yield cast(BufferedReader, sys.stdin.buffer)
        return
    path = Path(source)
    opened = path.open("rb") if seen is None else BufferedReader(_Watched(path, seen))
    with cast(BufferedReader, opened) as file:
        if file.peek(len(GZIP)).startswith(GZIP):
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked
        else:
            yield file


def _line(number: int, record: bytes | None) -> Line:
    if record is None or len(record) > LARGEST_LINE_BYTES:
        problem = f"it is longer than {LARGEST_LINE_BYTES:,} bytes; break it into sentences."
        return Line(number, "", problem)
    if number == 1:
        record = record.removeprefix(_BYTE_ORDER_MARK)
    place = record.find(b"\0")  # valid UTF-8, but what half of UTF-16 looks like
    if place < 0:
        try:
            return Line(number, record.removesuffix(b"\r").decode())
        except UnicodeDecodeError as error:
            place = error.start
    problem = f"byte {place + 1} is 0x{record[place]:02x}, which is no text in UTF-8; save it so."
    return Line(number, "", problem)


def _problems(name: str, first: Line, rest: Iterator[Line]) -> list[str]:
    """Name the first bad lines; the others are counted."""
    bad = [first, *(line for line in rest if line.problem is not None)]
    problems = [f"{name}, line {line.number:,}: {line.problem}" for line in bad[:_MOST_NAMED]]
    if len(bad) > _MOST_NAMED:
        problems.append(f"{name}: so are {len(bad) - _MOST_NAMED:,} more lines.")
    return problems
