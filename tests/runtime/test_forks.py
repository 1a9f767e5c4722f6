"""A forked child of a process that has a model loaded can use it, or is told what to do instead.

gunicorn --preload and multiprocessing fork after loading. Threads and onnxruntime's locks are lost
or left locked in the child: without care its first call never ends.
"""

import os
import subprocess
import sys

import pytest

from foretell.runtime.forks import ForkSafe

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# Counts to `steps` in onnxruntime, for ever if that is large.
START = """
import os, sys, threading
import numpy as np, onnx.parser, onnxruntime
from pathlib import Path
from foretell.data.errors import BundleError
from foretell.runtime.devices import open_graph

file = Path(sys.argv[1]) / "count.onnx"
model = onnx.parser.parse_model('''
    <ir_version: 10, opset_import: ["": 20]>
    count (int64[1] start, int64[1] steps) => (int64[1] end)
    <bool go = {1}>
    {
        trips = Squeeze(steps)
        end = Loop(trips, go, start) <body = round (int64 i, bool on, int64[1] before)
            => (bool on_out, int64[1] after) <int64 one = {1}>
            { on_out = Identity(on)
              after = Add(before, one) }>
    }
''')
file.write_bytes(model.SerializeToString())
graph = open_graph(file, "count.onnx", "cpu")

def count(steps, options=None):
    inputs = {"start": np.array([0]), "steps": np.array([steps])}
    return int(graph.run(None, inputs, options)[0][0])

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(child, 0)

options = onnxruntime.RunOptions()

def for_ever():
    try:
        count(10**15, options)
    except Exception:
        pass

def begin():
    thread = threading.Thread(target=for_ever)
    thread.start()
    while not graph._running:
        pass
    return thread

print(count(3), flush=True)
"""


def run(tmp_path, script):
    command = [sys.executable, "-c", START + script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_idle_model_is_shared_with_the_child(tmp_path):
    """Preloading is done to have a model in memory once."""
    lines = run(
        tmp_path, "in_child(lambda: print(count(4), len(graph._inherited)))\nprint(count(5))"
    )
    assert lines == ["3", "4 0", "5"]


def test_a_model_that_computes_is_opened_anew_in_the_child(tmp_path):
    script = """
thread = begin()
in_child(lambda: print(count(4), count(5), len(graph._inherited)))
options.terminate = True
thread.join()
print(count(6))
"""
    assert run(tmp_path, script) == ["3", "4 5 1", "6"]


def test_children_of_children_and_their_threads_can_too(tmp_path):
    script = """
def child():
    threads = [threading.Thread(target=lambda: found.append(count(4))) for _ in range(4)]
    found = []
    for one in threads: one.start()
    for one in threads: one.join()
    print(found, len(graph._inherited), flush=True)
    in_child(lambda: print(count(5), len(graph._inherited)))

thread = begin()
in_child(child)
options.terminate = True
thread.join()
"""
    assert run(tmp_path, script) == ["3", "[4, 4, 4, 4] 1", "5 1"]


def test_a_file_that_has_changed_is_not_taken_for_the_model(tmp_path):
    script = """
thread = begin()
file.write_bytes(b"another model")

def child():
    for _ in range(2):
        try:
            count(4)
        except BundleError as error:
            print(error)

in_child(child)
options.terminate = True
thread.join()
"""
    first, *told = run(tmp_path, script)
    assert first == "3"
    assert len(told) == 2
    assert all("count.onnx has changed since" in line for line in told)
    assert all("load the model again" in line for line in told)


class OnCuda:
    """What onnxruntime shows of a session on a GPU; a machine without one can't open any."""

    def get_providers(self):
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    def run(self, outputs, inputs, options):
        return [1]


def test_cuda_survives_no_fork_and_says_so(monkeypatch):
    graph = ForkSafe(OnCuda, b"")
    assert graph.run(None, {}) == [1]
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"CUDA survives no fork; load it in this process"):
            graph.run(None, {})
        with pytest.raises(RuntimeError, match=r"or start processes with 'spawn'"):
            graph.get_providers()
