"""Answers line by line: to standard output as they come, to a file whole or not at all."""

import csv
import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from foretell.jobs.output import replacing

MOST_KEPT = 20  # refusals that are named to people; the file has them all


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """Why a line got no answer.

    Attributes:
        number: Its place in the file, from 1.
        reason: One sentence: what, got, expected, what to do.
    """

    number: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.number:,}: {self.reason}"


def refused_file(output: Path | None) -> Path | None:
    """Where the refused lines and their reasons go; None when the answers go to stdout."""
    return output and output.parent / f"{output.name}.refused.csv"


@contextmanager
def line_writer(output: Path | None) -> Iterator[Callable[[str], object]]:
    """Hand out what writes a text, in UTF-8 and with LF ends whatever the machine's habits are.

    Args:
        output: A file that appears when all is written, packed where its name ends in .gz; None
            for standard output, where every text is passed on at once.
    """
    if output is not None:
        with replacing(output, ".txt") as partial, partial.open("wb") as file:
            if output.name.endswith(".gz"):  # without name and time: the same text, the same bytes
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    yield lambda text: packed.write(text.encode())
            else:
                yield lambda text: file.write(text.encode())
        return

    def pass_on(text: str) -> None:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()

    sys.stdout.flush()
    yield pass_on


class RefusedLines:
    """Gathers the refused lines: the first ones for people, all of them in a CSV file.

    The file appears at the end, if any line was refused; else an old one is removed.

    Attributes:
        count: How many there are.
        first: The first ones.
    """

    def __init__(self, target: Path | None) -> None:
        self.count = 0
        self.first: list[RefusedLine] = []
        self._target = target
        self._write: Callable[[tuple[object, ...]], object] = lambda _: None
        self._files = ExitStack()

    def add(self, line: RefusedLine) -> None:
        """Note a line."""
        if self.count == 0 and self._target is not None:
            partial = self._files.enter_context(replacing(self._target, ".csv"))
            file = self._files.enter_context(partial.open("w", encoding="utf-8", newline=""))
            self._write = csv.writer(file, lineterminator="\n").writerow
            self._write(("line", "reason"))
        self._write((line.number, line.reason))
        self.count += 1
        if len(self.first) < MOST_KEPT:
            self.first.append(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._files.__exit__(kind, error, traceback)
        if kind is None and self.count == 0 and self._target is not None:
            self._target.unlink(missing_ok=True)
