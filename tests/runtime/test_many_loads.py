"""A process that loads again and again, as one that gets a model with each task, stays small."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import gc, os, sys, threading
from foretell.runtime import load

def state():
    gc.collect()
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(60)
    pages = int(open("/proc/self/statm").read().split()[1])
    return (threading.active_count(), len(os.listdir("/proc/self/fd")), pages)

def use(times):
    for _ in range(times):
        for path in sys.argv[1:]:
            model = load(path, device="cpu", threads=2)
            model._session.for_each(lambda _: None, range(8))
        del model
    return state()

use(5)
print(*use(1))
print(*use(20))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="memory is read in /proc")
def test_models_that_are_dropped_leave_nothing(make_bundle, make_translator):
    """No thread, no open file, and no memory but some of the heap: 40 loads more, 60 KiB each."""
    paths = [str(make_bundle()), str(make_translator())]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    before, after = (list(map(int, line.split())) for line in done.stdout.splitlines())
    assert before[0] == 1
    assert after[:2] == before[:2]
    assert (after[2] - before[2]) * 4096 < 2 * 1024**2
