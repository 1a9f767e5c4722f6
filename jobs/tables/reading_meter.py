"""How far a job over a table is before its first series: copying, reading and sorting take long."""

from collections.abc import Callable
from dataclasses import replace

from foretell.data.tables.table_read import TableRead
from foretell.jobs.summary import JobProgress, Meter

_SHORT_S = 1.0


class ReadingMeter:
    """Makes of bytes what a job tells of its progress; what is over in a second isn't told.

    Args:
        progress: Is told.
    """

    def __init__(self, progress: Callable[[JobProgress], None]) -> None:
        self._progress = progress
        self._reading = ""
        self._meter = Meter()

    def hear(self, read: TableRead) -> None:
        """Hear how far a table is read."""
        reading = f"{read.name} {read.doing}"
        if reading != self._reading:
            total = None if read.total_bytes is None else max(1, _megabytes(read.total_bytes))
            self._reading, self._meter = reading, Meter(total=total)
        if self._meter.seconds >= _SHORT_S:
            done = self._meter.progress(_megabytes(read.done_bytes))
            self._progress(replace(done, reading=reading))


def _megabytes(size_bytes: int) -> int:
    return round(size_bytes / 1e6)
