"""Answers line by line: to standard output as they come, to a file whole or not at all."""

import csv
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from foretell.jobs.journals.job_folder import naming
from foretell.jobs.journals.journal import MOST_KEPT, Journal, refused_file
from foretell.jobs.lines.answered_lines import REFUSED_COLUMNS, AnsweredLine, LineCounts, line_bytes
from foretell.jobs.output import replacing, write_stdout
from foretell.jobs.packing import packed_writer

_SECONDS_OF_A_PART = 1.0  # to have a part on disk takes some milliseconds, however small it is
_LARGEST_PART_BYTES = 1 << 22
_BLOCK_BYTES = 1 << 20

WriteLines = Callable[[Sequence[AnsweredLine]], None]


class _NothingAnsweredError(Exception):
    """Leaves an output as it was."""


@contextmanager
def direct_output(output: Path | None) -> Iterator[WriteLines]:
    """Hand out what writes lines where nothing can be resumed.

    Args:
        output: A file that appears when all is written, packed where its name ends in .gz, and not
            at all where every line was refused; None for standard output, where every line is
            passed on at once.
    """
    counts = LineCounts()
    with (
        _RefusedFile(None if output is None else refused_file(output)) as refuse,
        suppress(_NothingAnsweredError),
        _writer(output) as write,
    ):

        def write_lines(lines: Sequence[AnsweredLine]) -> None:
            write(line_bytes(lines))
            counts.add(lines)
            refuse.add(lines)

        yield write_lines
        if not counts.has_answers:
            raise _NothingAnsweredError


@contextmanager
def kept_output(journal: Journal) -> Iterator[WriteLines]:
    """Hand out what gives lines to a journal, which makes the output of them in the end.

    Where the block fails what it has written is kept.
    """
    counts, part = LineCounts.of(journal), _Part(journal)

    def write_lines(lines: Sequence[AnsweredLine]) -> None:
        counts.add(lines)
        part.add(lines)

    try:
        yield write_lines
    except BaseException:
        with suppress(OSError):  # told is what failed first, such as a full disk
            part.keep()
        raise
    part.keep()
    join = _join_packed if journal.output.name.endswith(".gz") else _join
    journal.finish(join if counts.has_answers else None)


class _Part:
    """Gathers lines for the next part of a journal, so that small chunks cost little."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lines: list[AnsweredLine] = []
        self._size_bytes = 0
        self._kept_at = -_SECONDS_OF_A_PART

    def add(self, lines: Sequence[AnsweredLine]) -> None:
        self._lines += lines
        self._size_bytes += sum(len(line.text) for line in lines)
        is_due = time.monotonic() - self._kept_at >= _SECONDS_OF_A_PART
        if is_due or self._size_bytes >= _LARGEST_PART_BYTES:
            self.keep()

    def keep(self) -> None:
        # Taken out first: an interruption on the way back would have them kept a second time.
        lines, self._lines, self._size_bytes = self._lines, [], 0
        if not lines:
            return
        refused = [(line.number, line.refused) for line in lines if line.refused is not None]
        truncated = [line.number for line in lines if line.truncated]
        counts = {"line": len(lines), "refused": len(refused), "truncated": len(truncated)}
        self._journal.add(
            line_bytes(lines), counts=counts, refused=refused, notes=truncated[:MOST_KEPT]
        )
        self._kept_at = time.monotonic()


def _join(parts: Iterable[Path], target: Path) -> None:
    with target.open("wb") as file:
        for part in parts:
            with part.open("rb") as content:
                shutil.copyfileobj(content, file)


def _join_packed(parts: Iterable[Path], target: Path) -> None:
    with target.open("wb") as file, packed_writer(file) as write:
        for part in parts:
            with part.open("rb") as content:
                while block := content.read(_BLOCK_BYTES):
                    write(block)


@contextmanager
def _writer(output: Path | None) -> Iterator[Callable[[bytes], object]]:
    if output is None:
        sys.stdout.flush()
        yield write_stdout
        return
    with naming(output), replacing(output, ".txt") as partial, partial.open("wb") as file:
        if output.name.endswith(".gz"):
            with packed_writer(file) as write:
                yield write
        else:
            yield file.write


class _RefusedFile:
    """Gathers refused lines in a CSV file, which appears at the end if there are any.

    Without any an old one is removed.
    """

    def __init__(self, target: Path | None) -> None:
        self._target = target
        self._write: Callable[[tuple[object, ...]], object] = lambda _: None
        self._has_any = False
        self._files = ExitStack()

    def add(self, lines: Sequence[AnsweredLine]) -> None:
        for line in lines:
            if line.refused is None:
                continue
            if not self._has_any:
                self._begin()
            self._write((line.number, line.refused))

    def _begin(self) -> None:
        self._has_any = True
        if self._target is not None:
            partial = self._files.enter_context(replacing(self._target, ".csv"))
            file = self._files.enter_context(partial.open("w", encoding="utf-8", newline=""))
            self._write = csv.writer(file, lineterminator="\n").writerow
            self._write(REFUSED_COLUMNS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._files.__exit__(kind, error, traceback)
        if kind is None and not self._has_any and self._target is not None:
            self._target.unlink(missing_ok=True)
