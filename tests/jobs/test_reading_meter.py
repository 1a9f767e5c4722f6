"""What is told of a table that is read: megabytes, and nothing of what is over at once."""

import pytest

from foretell.data.tables.table_read import TableRead
from foretell.jobs import summary
from foretell.jobs.tables.reading_meter import ReadingMeter

MB = 1_000_000


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(summary.time, "perf_counter", lambda: now[0])
    return now


def test_rate_and_time_left_are_those_of_each_way_through_the_file(clock):
    told = []
    meter = ReadingMeter(told.append)
    for doing in ("read", "sorted"):
        for second in range(4):
            meter.hear(TableRead("in.csv", doing, second * 50 * MB, 200 * MB))
            clock[0] += 1.0
    assert [(one.reading, one.done, one.total, one.rate, one.left_s) for one in told] == [
        (f"in.csv {doing}", done, 200, 50.0, left)
        for doing in ("read", "sorted")
        for done, left in ((50, 3.0), (100, 2.0), (150, 1.0))
    ]


def test_what_nobody_knows_is_left_out(clock):
    told = []
    meter = ReadingMeter(told.append)
    meter.hear(TableRead("standard input", "copied", MB, None))
    clock[0] += 2.0
    meter.hear(TableRead("standard input", "copied", 5 * MB, None))
    ((one),) = told
    assert (one.done, one.total, one.left_s, one.reading) == (
        5,
        None,
        None,
        "standard input copied",
    )


def test_a_short_table_is_read_in_silence(clock):
    told = []
    meter = ReadingMeter(told.append)
    for part in range(100):
        meter.hear(TableRead("in.csv", "read", part, 99))
        clock[0] += 0.009
    assert told == []
