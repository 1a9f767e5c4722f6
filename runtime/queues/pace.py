"""How fast a model has been of late, and so when a full queue may have room again."""

import math
import time
from collections.abc import Collection

from foretell.runtime.queues.work import Batch

_LEAST_S, _MOST_S = 0.05, 30.0
_UNKNOWN_S = 1.0  # a batch takes so long where none has ended yet
_NEW = 0.2  # of the mean that the newest batch makes


class Pace:
    """Means over the batches of late. Not for several threads."""

    def __init__(self) -> None:
        self._batch_s = 0.0
        self._batch_rows = 0.0

    def note(self, batch: Batch, compute_s: float) -> None:
        """Take in a batch that has run to its end."""
        share = _NEW if self._batch_rows else 1.0
        self._batch_s += share * (compute_s - self._batch_s)
        self._batch_rows += share * (len(batch.rows) - self._batch_rows)

    def retry_after_s(self, rows: int, threads: int, running: Collection[Batch]) -> float:
        """Seconds in which what waits has had its turn, never below what one batch takes.

        A batch that runs longer than those before it counts with its age.

        Args:
            rows: That wait.
            threads: Batches that run at a time.
            running: Those that run.
        """
        now = time.monotonic()
        batch_s = max(
            self._batch_s if self._batch_rows else _UNKNOWN_S,
            *(now - batch.started_at for batch in running),
            _LEAST_S,
        )
        batch_rows = self._batch_rows or max([1, *(len(batch.rows) for batch in running)])
        turns = max(1, math.ceil(rows / batch_rows / threads))
        return min(turns * batch_s, _MOST_S)
