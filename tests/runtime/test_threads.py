"""A session brings no threads of its own; what isn't there neither spins nor is pinned."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
import sys
import numpy as np
from foretell.data.bundles.bundle import read_bundle
from foretell.runtime.session import Session

count = lambda: len(os.listdir("/proc/self/task"))
bundle = read_bundle(sys.argv[1])
found = []
for _ in range(3):
    sessions = [Session(bundle, name, device="cpu") for name in ("encoder.onnx", "decoder.onnx")]
    sessions[0].run({"src": np.array([[5, 6, 3]]), "src_mask": np.ones((1, 3), dtype=bool)})
    found.append((count(), sessions))
print(*[number for number, _ in found])
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_no_session_adds_a_thread(translator_bundle_path):
    """Elsewhere idle sessions burned whole cores, slowed each other, and crashed in cpusets."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, translator_bundle_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *others = map(int, done.stdout.split())
    assert others == [first] * 2
