"""How long whoever finds a queue full is told to wait."""

import time

from foretell.runtime.queues.pace import Pace
from foretell.runtime.queues.scheduler import Scheduler
from foretell.runtime.queues.work import Batch, QueuedRow, Request, Row


def _batch(num_rows):
    owner = Scheduler(threads=1)
    row = QueuedRow(Row(lambda batch: None, "k", None), Request(owner), 0.0)
    return Batch(owner, [row] * num_rows)


def test_the_age_of_a_batch_that_takes_longer_counts():
    started = _batch(1)
    started.started_at = time.monotonic() - 7.0
    pace = Pace()
    pace.note(started, 0.001)
    assert 7.0 <= pace.retry_after_s(0, 2, [started]) < 30.0
    assert pace.retry_after_s(10**6, 2, [started]) == 30.0
    assert pace.retry_after_s(0, 2, []) == 0.05


def test_rows_that_share_a_batch_have_their_turn_together():
    pace = Pace()
    pace.note(_batch(32), 2.0)
    assert pace.retry_after_s(33, 1, []) == 4.0
    assert pace.retry_after_s(33, 2, []) == 2.0
