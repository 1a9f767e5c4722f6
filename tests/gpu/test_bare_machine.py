"""`run.py` needs little: where foretell, pytest, jaxtyping and sentencepiece are missing it runs.

That machine is put together here: an interpreter without site-packages, and a folder with links to
the few packages that are there. The device is the CPU; so all but CUDA itself is proven.
"""

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")
# What torch, onnx and onnxruntime are and need, and pandas.
THERE = (
    *("torch", "torchgen", "functorch", "onnx", "onnx_ir", "onnxruntime", "google", "ml_dtypes"),
    *("numpy", "pandas", "dateutil", "six", "pytz", "typing_extensions", "packaging"),
    *("sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "filelock"),
)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with links to the packages of a machine that has few."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for name in THERE:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        place = spec.origin or next(iter(spec.submodule_search_locations))
        path = Path(place).parent if Path(place).name == "__init__.py" else Path(place)
        for found in (path, path.with_name(f"{name}.libs")):
            if found.exists():
                (folder / found.name).symlink_to(found)
    return folder


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", RUN, "--device", "cpu", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd="/")


@pytest.mark.parametrize("translator_graphs", ["gru-scaled"], indirect=True)
def test_all_checks_hold_with_little_there(
    bundle_path: Path, translator_graphs: Path, packages: Path, tmp_path: Path
) -> None:
    bundles, report = tmp_path / "bundles", tmp_path / "report.md"
    bundles.mkdir()
    for path in (bundle_path, translator_graphs, translator_graphs.with_name("pre-norm")):
        (bundles / f"{path.name}-bundle").symlink_to(path)
    done = run("--path", packages, "--bundles", bundles, "--no-speed", "--output", report)
    assert done.returncode == 0, done.stdout + done.stderr
    assert report.read_text() == done.stdout
    assert f"at {packages / 'onnxruntime'}" in done.stdout
    assert "pre-norm-bundle: 18 of 18 searches find the same tokens" in done.stdout
    assert "memory has a limit: skipped, the limit is that of a GPU's arena" in done.stdout
    assert "0 failed;" in done.stdout


def test_what_is_missing_is_named_at_once(tmp_path: Path) -> None:
    done = run("--path", tmp_path)
    assert done.returncode == 2
    assert "missing: numpy, pandas, torch, onnx, onnx_ir, onnxruntime, onnxscript." in done.stderr
    assert "--path" in done.stderr


@pytest.mark.parametrize("translator_graphs", ["gru-none"], indirect=True)
def test_a_check_that_fails_is_told_and_the_others_still_run(
    bundle_path: Path, translator_graphs: Path, packages: Path, tmp_path: Path
) -> None:
    """Other weights than the graph's: a proof that compared nothing would not see them."""
    import numpy as np

    from foretell.data.bundles.bundle import Manifest, read_bundle, write_bundle

    whole = read_bundle(translator_graphs)

    def fill(folder: Path) -> Manifest:
        for name in whole.manifest.files:
            shutil.copyfile(translator_graphs / name, folder / name)
        with np.load(folder / "weights.npz") as weights:
            other = {name: 1.01 * array for name, array in weights.items()}
        np.savez(folder / "weights.npz", **other)
        return replace(whole.manifest, files={})

    write_bundle(tmp_path / "bundles" / "other", fill)
    (tmp_path / "bundles" / "forecaster").symlink_to(bundle_path)
    done = run("--path", packages, "--bundles", tmp_path / "bundles", "--no-speed")
    assert done.returncode == 1
    assert "## steps equal torch: FAILED" in done.stdout
    assert "times what is allowed" in done.stdout
    assert "other: the same tokens" in done.stdout
