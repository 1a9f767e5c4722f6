"""Parts of what goes to standard output: kept on disk until all are there, so that it is whole."""

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

from foretell.jobs.output import write_stdout


class Spool:
    """As a journal, for an output that can't be resumed; use it in a `with` block.

    Attributes:
        parts: Parts that are done.
        totals: Sums of the counts of all parts.
    """

    def __init__(self) -> None:
        self.parts = 0
        self.totals: Counter[str] = Counter()
        self._folder = TemporaryDirectory(prefix="foretell-", ignore_cleanup_errors=True)
        self._path = Path(self._folder.name)

    @property
    def work(self) -> Path:
        """A folder for what the job has to put down."""
        return self._path / "work"

    def __enter__(self) -> Self:
        self.work.mkdir()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def add(
        self,
        part: bytes,
        *,
        counts: Mapping[str, int],
        refused: Sequence[object] = (),
        notes: Sequence[object] = (),
    ) -> None:
        """Keep the next part; there is no side file, and no run after this one."""
        self._part(self.parts).write_bytes(part)
        self.parts += 1
        self.totals.update(counts)

    def finish(self, join: Callable[[Iterable[Path], BinaryIO], object] | None) -> None:
        """Write all parts to standard output; None writes nothing."""
        if join is None:
            return
        sys.stdout.flush()
        join(map(self._part, range(self.parts)), cast(BinaryIO, _Stdout()))

    def _part(self, number: int) -> Path:
        return self._path / str(number)


class _Stdout(io.RawIOBase):
    """Standard output, which takes all bytes or fails."""

    def write(self, content: Any) -> int:
        write_stdout(content)
        return len(content)
