"""Whoever serves, asks or runs jobs needs no torch and no onnx: shown in a fresh process."""

import subprocess
import sys

import pytest

# A module set to None makes every later import of it raise, as on a machine that lacks it.
WITHOUT_TORCH = """
import sys
for name in ("torch", "onnx", "onnxscript", "lightning_fabric", "matplotlib", "sacrebleu"):
    sys.modules[name] = None
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    "modules",
    [
        ("foretell.runtime",),
        ("foretell.server.serve",),
        ("foretell.client", "foretell.client.aio"),
        (
            "foretell.jobs.tables.batch",
            "foretell.jobs.evaluation.backtest",
            "foretell.jobs.pictures.plot",
        ),
        (
            "foretell.jobs.lines.translate",
            "foretell.jobs.lines.score",
            "foretell.jobs.evaluation.translation_quality",
        ),
        ("foretell.cli.main",),
    ],
    ids=lambda modules: modules[0],
)
def test_imports_without_torch(modules):
    done = run(WITHOUT_TORCH + "\n".join(f"import {module}" for module in modules))
    assert done.returncode == 0, done.stderr


def test_answers_in_process_without_torch(bundle_path):
    ask = f"""
import pandas as pd
from foretell.runtime import load
days = pd.date_range("2024-01-01", periods=40)
table = pd.DataFrame(dict(unique_id="a", ds=days, y=range(40)))
answer = load({str(bundle_path)!r}, device="cpu").forecast(
    table, 3, freq="D", allow_other_frequency=True
)
print(len(answer))
"""
    done = run(WITHOUT_TORCH + ask)
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr


def test_translates_in_process_without_torch(translator_bundle_path):
    ask = f"""
from foretell.runtime import load
answers = load({str(translator_bundle_path)!r}, device="cpu").translate(["seven", ""])
print(len(answers), repr(answers[1].text))
"""
    done = run(WITHOUT_TORCH + ask)
    assert (done.returncode, done.stdout.strip()) == (0, "2 ''"), done.stderr


def test_help_starts_without_the_heavy_libraries():
    """`foretell --help` and completion must answer at once; half a second of imports is felt."""
    code = """
import sys
from foretell.cli.main import run
run(["--help"])
heavy = {"torch", "onnx", "onnxruntime", "pandas", "numpy", "grpc", "matplotlib", "sacrebleu"}
heavy &= set(sys.modules)
print(sorted(heavy), file=sys.stderr)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().endswith("[]"), done.stderr
