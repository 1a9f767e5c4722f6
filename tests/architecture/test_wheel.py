"""What is installed is what was written: a wheel forgets files that nobody names."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("data", "model", "runtime", "export", "protos", "server", "client", "jobs", "cli")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: setuptools leaves a build folder whose stale files would get in later."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", target, source], check=True, capture_output=True)
    with zipfile.ZipFile(next(target.glob("*.whl"))) as archive:
        return archive.namelist()


def test_everything_stands_under_one_name(wheel):
    """A top-level package called `model` would break every user who has a `model.py` of his own."""
    assert {name.split("/")[0].split("-")[0] for name in wheel} == {"foretell"}
    assert "foretell/__init__.py" not in wheel


def test_every_file_of_ours_is_in_it(wheel):
    kinds = ("*.py", "*.pyi", "py.typed", "*.proto", "*.csv", "*.css", "*.js")
    written = {
        f"foretell/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for kind in kinds
        for path in (ROOT / folder).rglob(kind)
    }
    assert written - set(wheel) <= {"foretell/protos/generate.py"}
    for floor in FOLDERS:
        assert f"foretell/{floor}/py.typed" in wheel
    assert any(name.endswith(".proto") for name in wheel)
    assert "foretell/data/series/air_passengers.csv" in wheel


def test_the_licence_and_the_command_are_in_it(wheel):
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
    assert any(name.endswith("entry_points.txt") for name in wheel)
