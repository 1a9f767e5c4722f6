"""A text file cut into chunks of lines, which any process that sees the file can read alone."""

import gzip
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from foretell.data.errors import TextError
from foretell.data.standard_input import GZIP
from foretell.data.text.lines import Line, lines_at
from foretell.jobs.lines.text_file import TextFile, look_at_text

_BLOCK_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 22  # a chunk of this size is full, however few its lines are


@dataclass(frozen=True, slots=True)
class LineChunk:
    """Some lines of a file.

    Attributes:
        first: Number of the first, from 1.
        start: Byte at which it starts.
        size: Bytes of all, their ends included.
    """

    first: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class LinePlan:
    """A plain text file and its chunks; can be pickled.

    Attributes:
        text: The file.
        chunks: In the order of the file.
    """

    text: TextFile
    chunks: tuple[LineChunk, ...]

    def read(self, number: int) -> list[Line]:
        """Read a chunk.

        Raises:
            TextError: The file can't be read, or was changed since the plan was made.
        """
        chunk, path = self.chunks[number], Path(self.text.path)
        self.text.check()
        lines = lines_at(path, chunk.start, chunk.size, first=chunk.first)
        self.text.check()
        return lines


def plan_lines(text: TextFile, work: Path, *, most_lines: int, after: int = 0) -> LinePlan:
    """Cut the lines of a text, but for the first `after`, into chunks.

    Args:
        text: A file that was looked at; one packed by gzip is unpacked first, since only a plain
            one can be read from anywhere.
        work: Folder for what is unpacked.
        most_lines: Most lines of a chunk.
        after: Lines to leave out.

    Raises:
        TextError: It can't be read.
    """
    plain = _unpacked(text, work)
    chunks: list[LineChunk] = []
    first = start = end = 0  # of the chunk that is being filled: lines and bytes before it
    for number, end in _line_ends(Path(plain.path)):
        if number <= after:
            first, start = number, end
        elif number - first >= most_lines or end - start >= _CHUNK_BYTES:
            chunks.append(LineChunk(first + 1, start, end - start))
            first, start = number, end
    if end > start:
        chunks.append(LineChunk(first + 1, start, end - start))
    return LinePlan(plain, tuple(chunks))


def _line_ends(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the number of each line, from 1, and the byte behind its end."""
    number = position = last = 0
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                for place in np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")).tolist():
                    number, last = number + 1, position + place + 1
                    yield number, last
                position += len(block)
    except OSError as error:
        raise TextError(f"{path} can't be read ({error.strerror or error}).") from error
    if position > last:
        yield number + 1, position


def _unpacked(text: TextFile, work: Path) -> TextFile:
    path = Path(text.path)
    try:
        with path.open("rb") as file:
            if file.read(len(GZIP)) != GZIP:
                return replace(text, path=str(path.absolute()))
        plain = (work / "text").absolute()
        with gzip.open(path) as packed, plain.open("wb") as target:
            shutil.copyfileobj(packed, target, _BLOCK_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TextError(f"{path} is incomplete or damaged ({error}); copy it again.") from error
    except OSError as error:
        raise TextError(f"{path} can't be read ({error.strerror or error}).") from error
    return look_at_text(str(plain))
