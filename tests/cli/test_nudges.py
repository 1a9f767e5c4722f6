"""Signals are heard by a process that waits, whatever moment they come in."""

import subprocess
import sys

import pytest

WAITS = {
    "a read": "os.read(0, 1)",
    "a line": "sys.stdin.buffer.readline()",
    "a lock": "threading.Lock().acquire() and lock.acquire()",
}
PROGRAM = """
import os, signal, sys, threading, time
from foretell.cli.nudges import nudge_waits
nudge_waits()
lock = threading.Lock()
lock.acquire()
def interrupt():
    # The thread that gets the signal isn't the one that waits, as if it came too early for that.
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
other = threading.Timer(0.3, interrupt)
other.start()
try:
    {wait}
except KeyboardInterrupt:
    print("heard")
    {again}
"""


def run(wait, again="pass"):
    program = PROGRAM.format(wait=WAITS[wait], again=again)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as process:
        code = process.wait(60)  # its standard input stays open, and empty
        return code, process.stdout.read()


@pytest.mark.parametrize("wait", WAITS)
def test_a_signal_that_another_thread_got_ends_the_wait(wait):
    assert run(wait) == (0, "heard\n")


def test_nudges_end_no_wait_but_that_one():
    """What is done after an interruption, such as cleaning up, is not interrupted by them."""
    again = "time.sleep(1.6); print('slept')"
    assert run("a read", again) == (0, "heard\nslept\n")
