"""Settings and fixtures for all tests; tiny bundles are built once for a state of the code."""

import fcntl
import hashlib
import os
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Two workers with two spinning threads each on two cores take many times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As foretell.runtime does; some tests import onnxruntime before it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
# A shell's background jobs ignore the one, and what `nohup` runs the other; so would every command
# that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A property holds or not; how long an example takes on a busy machine says nothing.
# In CI the examples are the same each time; at a desk new ones are tried.
settings.register_profile(
    "foretell",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("foretell")

ROOT = Path(__file__).parents[1]
BUNDLES = Path(__file__).with_name("bundles.py")
GRAPHS = Path(__file__).with_name("graphs.py")
CERTIFICATES = Path(__file__).with_name("certificates.py")
KINDS = (
    "pre-norm",
    "post-norm",
    "rms-swiglu",
    "tanh-dot",
    "gru-scaled",
    "gru-none",
    "lstm-additive",
    "lstm-none",
)


@pytest.fixture(scope="session")
def bundle_path() -> Path:
    """A tiny forecaster for any frequency, without covariates: .../models/tiny/1."""
    return _built("any")


@pytest.fixture(scope="session")
def daily_bundle_path() -> Path:
    """The same for daily series alone."""
    return _built("daily")


@pytest.fixture(scope="session")
def covariate_bundle_path() -> Path:
    """A tiny daily forecaster with `promo` (future), `visits` (past) and `size` (static)."""
    return _built("covariates")


@pytest.fixture(scope="session")
def translator_bundle_path() -> Path:
    """A tiny Transformer from English to German number words below 100: .../models/tiny/1."""
    return _built("transformer")


@pytest.fixture(scope="session")
def recurrent_bundle_path() -> Path:
    """The same with a GRU and additive attention."""
    return _built("recurrent")


@pytest.fixture(scope="session", params=KINDS)
def translator_graphs(request) -> Path:
    """A bundle without a tokenizer of an untrained translator, of every kind in turn."""
    return _made(GRAPHS, "all") / request.param


@pytest.fixture(scope="session")
def make_authority() -> Callable[..., Any]:
    """Makes an authority, in a folder, that signs certificates."""
    return runpy.run_path(str(CERTIFICATES))["make_authority"]


def _built(name: str) -> Path:
    return _made(BUNDLES, name) / "models" / "tiny" / "1"


def _made(script: Path, name: str) -> Path:
    """Run a script that fills a folder, or take the folder that this very code has filled."""
    folder = ROOT / "build" / f"test-{script.stem}" / _fingerprint(script) / name
    whole = folder.with_suffix(".whole")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker fills it; a dead one holds no lock
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, script, name, folder], check=True)
            whole.touch()
    return folder


def _fingerprint(script: Path) -> str:
    """Name the code that decides what is built; a clean checkout has built none."""
    digest = hashlib.sha256(script.read_bytes())
    folders = [*(ROOT / "model").glob("*.py"), *(ROOT / "export").glob("*.py")]
    names = (
        "data/bundles/manifest.py",
        "data/bundles/records.py",
        "data/text/number_words.py",
        "runtime/selfcheck.py",
    )
    for file in sorted([*folders, *(ROOT / name for name in names)]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
