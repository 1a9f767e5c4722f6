"""What computes here tells nobody: onnxruntime's own builds would report each process and model."""

import os
import subprocess
import sys

SCRIPT = """
import sys
from foretell.runtime import load
load(sys.argv[1], device="cpu", threads=1)
"""


def run(bundle, home):
    """In a process that knows of no CI, where onnxruntime would be silent by itself."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(home),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, bundle],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr, [path for path in home.rglob("*") if path.is_file()]


def test_loading_a_model_writes_nothing_and_reports_nothing(bundle_path, tmp_path):
    """Where telemetry begins, it keeps an id and a store of events in the user's folder."""
    assert run(bundle_path, tmp_path) == ("", [])


def test_a_user_who_wants_it_may_have_it():
    """What stands in the environment already is left as it is."""
    script = "import os, foretell.runtime; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "ORT_DISABLE_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0\n"
