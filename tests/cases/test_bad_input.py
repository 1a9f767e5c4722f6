"""Files, models and ports that are none: one clear sentence, an exit code, nothing written."""

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from foretell.client import Client
from foretell.data.errors import BundleError, DeviceError
from foretell.runtime import load
from foretell.server.models.repository import Repository

CASES = Path(__file__).parent
HEADER = "unique_id,ds,y\n"
GOOD = HEADER + "".join(f"a,2024-01-{day:02d},{day}\n" for day in range(1, 20))


@pytest.fixture
def refused(foretell, models, server, tmp_path):
    """Forecast with something that is no good; nothing may be written, and one sentence said.

    Runs twice: with an output that isn't there, and with yesterday's that must outlive it.
    """
    (tmp_path / "good.csv").write_text(GOOD)
    place = tmp_path / "place"
    place.mkdir()
    old = {"out.csv": "yesterday's", "out.csv.refused.csv": "yesterday's too"}

    def call(*options, data="good.csv", model=models / "any", remote=False, code=1) -> str:
        where = ["--server", server(), "--model", "any"] if remote else ["--model", model]
        arguments = ["forecast", tmp_path / data, *where, "--horizon", 3, *options]
        arguments += ["--output", place / "out.csv"]
        ended = foretell(*arguments)
        assert (ended.code, ended.out, list(place.iterdir())) == (code, "", [])
        for name, text in old.items():
            (place / name).write_text(text)
        again = foretell(*arguments, "--overwrite")
        assert (again.code, again.out, again.err) == (code, "", ended.err)
        assert {file.name: file.read_text() for file in place.iterdir()} == old
        for name in old:
            (place / name).unlink()
        assert ended.err.startswith("error: ")
        return ended.err.removeprefix("error: ").removesuffix("\n")

    return call


def assert_one_sentence(said: str, *words: str) -> None:
    assert "\n" not in said
    assert said.endswith(".")
    assert len(said) < 400
    for word in words:
        assert word in said


@pytest.mark.parametrize("remote", [False, True], ids=["here", "server"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no file"),
        (b"", "is empty"),
        (b"\n\n  \n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (HEADER.encode(), "has a header but no rows"),
        (HEADER.strip().encode(), "has a header but no rows"),
        (b"PAR1 and no more", "can't be read"),
        (b"\x1f\x8b and no more", "can't be read"),
        (bytes(range(256)) * 9, "binary data"),
        (GOOD.encode("utf-16"), "UTF-16"),
        (GOOD.replace("a,", "ä,").encode("latin-1"), "UTF-8"),
        (b"unique_id,y\na,1\n", "not 'unique_id' and 'ds'"),
        (b"unique_id,ds,z\na,2024-01-01,1\n", "no column 'y'"),
        (b"unique_id,ds,y\na,yesterday,1\nb,today,2\n", "'yesterday'"),
        (b"unique_id,ds,y\na,2024-01-01,1,2\n", "broken rows"),
    ],
)
def test_a_table_that_is_none(refused, tmp_path, content, words, remote):
    if content is not None:
        (tmp_path / "bad.csv").write_bytes(content)
    assert_one_sentence(refused(data="bad.csv", remote=remote), words)


def test_a_folder_without_tables(refused, tmp_path):
    (tmp_path / "folder").mkdir()
    assert_one_sentence(refused(data="folder"), "folder", "no .parquet files")


@pytest.mark.parametrize("content", ["", "unique_id,ds,promo\n"], ids=["empty", "header only"])
def test_a_future_table_that_is_none(refused, models, tmp_path, content):
    (tmp_path / "future.csv").write_text(content)
    (tmp_path / "past.csv").write_text("unique_id,ds,y,promo,visits,size\na,2024-01-01,1,0,2,3\n")
    call = {"data": "past.csv", "model": models / "covariates"}
    said = refused("--future", tmp_path / "future.csv", **call)
    assert_one_sentence(said, "future.csv")
    missing = refused("--future", tmp_path / "no.csv", **call)
    assert_one_sentence(missing, "there is no file", "no.csv")


def test_a_model_that_is_none(refused, models, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no model")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert_one_sentence(refused(model=tmp_path / "nowhere"), "nowhere is missing")
    assert_one_sentence(refused(model=tmp_path / "file"), "file is a file")
    assert_one_sentence(refused(model=tmp_path / "empty"), "empty is no bundle", "no folders")
    assert_one_sentence(refused(model=tmp_path / "run"), "run is no bundle", "checkpoints")
    assert_one_sentence(refused(model=models), "holds the models", "'any'", "'covariates'")


def assert_refused_everywhere(refused, bundle: Path, name: str, words: str) -> None:
    """No door takes the bundle; each names the file and what is wrong with it."""
    told = rf"{re.escape(name)} [^\n]*({words})"
    assert re.search(told, refused(model=bundle))
    with pytest.raises(BundleError, match=told):
        load(bundle)
    with pytest.raises(BundleError, match=told):
        Repository.load(bundle, load)


def files_of(bundle: Path) -> list[Path]:
    files = sorted(file for file in bundle.rglob("*") if file.is_file())
    assert {"manifest.json", "forecaster.onnx"} <= {file.name for file in files}
    return files


def test_a_flipped_byte_in_any_file(refused, models, tmp_path):
    bundle = tmp_path / "flipped"
    shutil.copytree(models / "any" / "1", bundle)
    for file in files_of(bundle):
        whole = file.read_bytes()
        for place in (0, len(whole) // 3, len(whole) // 2, len(whole) - 1):
            flipped = bytearray(whole)
            flipped[place] ^= 1
            file.write_bytes(flipped)
            name = file.relative_to(bundle).as_posix()
            assert_refused_everywhere(refused, bundle, name, "damaged|can't be read")
        file.write_bytes(whole)
    load(bundle, device="cpu", threads=1)


def test_hc03_a_file_cut_short_or_missing(refused, models, tmp_path):
    bundle = tmp_path / "cut"
    shutil.copytree(models / "any" / "1", bundle)
    for file in files_of(bundle):
        whole, name = file.read_bytes(), file.relative_to(bundle).as_posix()
        incomplete = "damaged" if name == "manifest.json" else "incomplete"
        for size in (0, 1, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:size])
            assert_refused_everywhere(refused, bundle, name, incomplete)
        file.unlink()
        if name == "manifest.json":  # then it is no bundle at all
            assert "no manifest.json" in refused(model=bundle)
        else:
            assert_refused_everywhere(refused, bundle, name, "missing")
        file.write_bytes(whole)
    shutil.move(bundle, tmp_path / "moved")
    load(tmp_path / "moved", device="cpu", threads=1)


def test_hc04_a_device_that_cannot_be_had(refused, models):
    try:
        load(models / "any", device="cuda")
    except DeviceError:
        said = refused("--device", "cuda")
        assert "CUDAExecutionProvider" in said
        with pytest.raises(DeviceError, match="CUDAExecutionProvider"):
            Repository.load(models, lambda path: load(path, device="cuda"))
    else:
        pytest.skip("this machine has a GPU that works")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--quantiles", "0,5"], "quantile 0.0 is not inside"),
        (["--level", "100"], "level 100.0 is not inside"),
        (["--quantiles", "0.5", "--level", "80"], "both"),
        (["--quantiles", "0.99"], "outside the range"),
        (["--device", "tpu"], "'tpu'"),
        (["--separator", "ab"], "separator is 'ab'"),
        (["--id-col", "ds"], "more than one role"),
    ],
)
def test_options_that_are_none(refused, options, words):
    assert words in refused(*options, code=2)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--freq", "fortnight"), ("--freq", "m"), ("--freq", "0D"), ("--time-zone", "Mars/Olympus")],
)
def test_a_frequency_or_zone_that_is_none(refused, option, value):
    """The command line is wrong, not the table: exit code 2."""
    assert_one_sentence(refused(option, value, code=2), f"'{value}'")


@pytest.fixture
def other_program():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize("holder", ["server", "other_program"])
def test_hd04_a_port_in_use(request, models, holder):
    """The second start is refused, naming the port; the first answers on as if nothing were."""
    held = request.getfixturevalue(holder)
    address = held() if callable(held) else held
    done = subprocess.run(
        [sys.executable, "-m", "foretell.cli.main", "serve", models, "--listen", address],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert_one_sentence(done.stderr.strip(), address, "in use")
    if holder == "server":
        table = pd.DataFrame({"unique_id": "a", "ds": range(5), "y": 1.0})
        with Client(address) as client:
            for _ in range(20):
                assert len(client.forecast(table, 2, model="any")) == 2
