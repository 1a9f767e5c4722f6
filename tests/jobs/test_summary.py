"""What a job tells of itself must be true: people plan nights by it, and buy machines."""

import os
import subprocess
import sys

import numpy as np
import pytest

from foretell.jobs import summary
from foretell.jobs.summary import JobSummary, Meter, peak_memory_bytes, rate_text


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(summary.time, "perf_counter", lambda: now[0])
    return now


def test_the_time_left_is_that_of_the_items_of_this_run(clock):
    """What earlier runs did took no time of this one; counted in, the rest would look short."""
    meter = Meter(done=900, total=1000)
    assert meter.progress(0).left_s is None
    clock[0] += 10
    told = meter.progress(20)
    assert (told.done, told.total, told.rate, told.left_s) == (920, 1000, 2.0, 40.0)
    clock[0] += 10
    assert meter.progress(100).left_s == 0


def test_where_nobody_knows_how_many_there_are_no_time_is_told(clock):
    meter = Meter()
    clock[0] += 4
    told = meter.progress(8)
    assert (told.done, told.total, told.rate, told.left_s) == (8, None, 2.0, None)


def test_the_share_is_of_all_threads_and_of_this_run(clock):
    busy = [7.0]
    meter = Meter(busy_s=lambda: busy[0], threads=2)
    clock[0] += 10
    busy[0] += 15
    told = meter.summary(30)
    assert (told.num_items, told.seconds, told.busy_share) == (30, 10.0, 0.75)
    assert told.text("lines").startswith("10.0 s (3 lines/s, peak memory ")
    assert told.text("lines").endswith(" MiB, compute threads busy 75%)")
    assert Meter().summary(0).busy_share is None


def test_a_summary_is_one_line():
    told = JobSummary(num_items=12_000, seconds=6.0, peak_memory_bytes=300 << 20)
    assert told.text("lines") == "6.0 s (2,000 lines/s, peak memory 300 MiB)"


@pytest.mark.parametrize(
    ("rate", "text"), [(0.123, "0.12"), (3.14, "3.1"), (9.99, "10"), (1949.6, "1,950"), (0, "0")]
)
def test_rates(rate, text):
    assert rate_text(rate) == text


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux alone tells it")
def test_the_peak_is_not_that_of_whoever_started_the_process():
    """A test, a notebook or a scheduler of gigabytes starts commands of some megabytes."""
    held = np.ones(max(0, (400 << 20) - peak_memory_bytes()) + (64 << 20), dtype=np.uint8)
    code = "from foretell.jobs.summary import peak_memory_bytes; print(peak_memory_bytes())"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(told.stdout) < 200 << 20 < peak_memory_bytes()
    del held


def test_the_peak_holds_what_was_held():
    size = peak_memory_bytes() + (64 << 20)
    block = np.ones(size, dtype=np.uint8)
    assert peak_memory_bytes() > size
    del block
    assert peak_memory_bytes() > size
