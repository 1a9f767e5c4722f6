"""`foretell forecast`: the contract of HD07, isolation (HD03), devices and damaged bundles."""

import inspect
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

import pandas as pd
import pytest

from foretell.cli import forecast as forecast_command
from foretell.data.errors import DeviceError, ForetellError
from foretell.jobs.tables.forecast_job import CHUNK_ROWS
from foretell.runtime import Forecaster, load

HEADER = "unique_id,ds,y\n"
DAYS = [str(day.date()) for day in pd.date_range("2024-01-01", periods=30)]


def constant(name, value):
    return "".join(f"{name},{day},{value}\n" for day in DAYS)


def bad(name, *values):
    return "".join(f"{name},{day},{value}\n" for day, value in zip(DAYS, values, strict=False))


GOOD = constant("good0", 5) + constant("good1", 9) + constant("good2", 0)
BAD = bad("empty", "") + bad("has_inf", 1, 2, "Infinity", 4) + bad("word", 1, 2, "three", 4)
MIXED = (
    constant("good0", 5)
    + bad("empty", "")
    + constant("good1", 9)
    + bad("has_inf", 1, 2, "Infinity", 4)
    + bad("word", 1, 2, "three", 4)
    + constant("good2", 0)
)


@pytest.fixture
def forecast(foretell, bundle_path, tmp_path):
    def call(rows=GOOD, *options, output="out.csv", model=bundle_path):
        (tmp_path / "in.csv").write_text(HEADER + rows)
        where = ["--output", output] if output else []
        wanted = [] if "--horizon" in options else ["--horizon", 3]
        return foretell("forecast", "in.csv", "--model", model, *wanted, *where, *options)

    return call


def test_all_items_good(forecast, tmp_path):
    ended = forecast()
    assert (ended.code, ended.out) == (0, "")
    assert "3 series forecast by CPUExecutionProvider -> out.csv" in ended.err
    answer = pd.read_csv("out.csv")
    assert answer["unique_id"].tolist() == ["good0"] * 3 + ["good1"] * 3 + ["good2"] * 3
    assert answer["ds"].tolist() == ["2024-01-31", "2024-02-01", "2024-02-02"] * 3
    assert answer["forecast"].tolist() == pytest.approx([5] * 3 + [9] * 3 + [0] * 3)
    assert sorted(os.listdir()) == ["in.csv", "out.csv"]


def test_half_of_the_items_bad(forecast):
    forecast()
    alone = pd.read_csv("out.csv")
    ended = forecast(MIXED, "--overwrite")
    assert (ended.code, ended.out) == (3, "")
    assert "3 of 6 series refused" in ended.err
    for name, reason in (("empty", "blank"), ("has_inf", "inf"), ("word", "three")):
        line = next(line for line in ended.err.splitlines() if f"  {name}: " in line)
        assert reason in line.lower()
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), alone)
    refused = pd.read_csv("out.csv.refused.csv")
    assert refused["unique_id"].tolist() == ["empty", "has_inf", "word"]
    assert refused["position"].tolist() == [1, 3, 4]


def test_all_items_bad(forecast):
    ended = forecast(BAD)
    assert ended.code == 1
    assert "3 of 3 series refused" in ended.err
    assert not os.path.exists("out.csv")


def test_many_refusals_are_counted_and_the_first_named(forecast):
    rows = "".join(bad(f"s{i}", "") for i in range(30))
    ended = forecast(rows, output=None)
    assert "30 of 30 series refused" in ended.err
    names = ", ".join(f"s{i}" for i in range(20))
    assert f"  {names} and 10 more: all its values are blank" in ended.err
    assert "and 10 more" in ended.err
    assert "--output" in ended.err


def test_input_missing(foretell, bundle_path):
    ended = foretell(
        "forecast", "no.csv", "--model", bundle_path, "--horizon", 3, "--output", "out.csv"
    )
    assert ended.code == 1
    assert "no.csv" in ended.err
    assert os.listdir() == []


@pytest.mark.parametrize("content", ["", HEADER], ids=["empty", "header only"])
def test_input_without_rows(foretell, bundle_path, tmp_path, content):
    (tmp_path / "in.csv").write_text(content)
    ended = foretell("forecast", "in.csv", "--model", bundle_path, "--horizon", 3)
    assert (ended.code, ended.out) == (1, "")
    assert "in.csv" in ended.err


@pytest.mark.parametrize("horizon", ["0", "-1", "2.5", "x", "1e3", "100001"])
def test_wrong_horizon_names_option_and_range(forecast, horizon):
    ended = forecast(GOOD, "--horizon", horizon)
    assert ended.code == 2
    assert "--horizon" in ended.err
    assert "1 to 100,000" in ended.err
    assert not os.path.exists("out.csv")


@pytest.mark.parametrize("quantiles", ["0", "1", "1.5", "0,5", "0.1;0.9", "0.5,0.5"])
def test_wrong_quantiles_are_refused(forecast, quantiles):
    ended = forecast(GOOD, "--quantiles", quantiles)
    assert ended.code == 2
    assert "quantile" in ended.err
    assert not os.path.exists("out.csv")


def test_existing_output_needs_overwrite(forecast, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    ended = forecast()
    assert ended.code == 1
    assert "out.csv" in ended.err
    assert "--overwrite" in ended.err
    assert (tmp_path / "out.csv").read_text() == "old"
    assert forecast(GOOD, "--overwrite").code == 0
    assert (tmp_path / "out.csv").read_text() != "old"


def test_a_failing_run_leaves_the_old_output(forecast, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    ended = forecast("a,not a date,1\nb,neither,2\n", "--overwrite")
    assert ended.code == 1
    assert (tmp_path / "out.csv").read_text() == "old"
    assert sorted(os.listdir()) == ["in.csv", "out.csv"]


def test_data_on_stdout_and_all_else_on_stderr(forecast):
    ended = forecast(MIXED, "--quantiles", "0.9,0.1", output=None)
    assert ended.code == 3
    lines = ended.out.splitlines()
    assert lines[0] == "unique_id,ds,forecast,q0.9,q0.1"
    assert len(lines) == 10
    assert "refused" in ended.err


def test_the_command_gives_what_the_library_gives(forecast, bundle_path, tmp_path):
    rows = "".join(f"a,{day},{i % 7 + i / 9}\n" for i, day in enumerate(DAYS))
    assert forecast(rows, "--level", "80,90", output="out.parquet").code == 0
    table = pd.read_csv(tmp_path / "in.csv", parse_dates=["ds"])
    here = load(bundle_path).forecast(table, 3, level=[80.0, 90.0])
    written = pd.read_parquet("out.parquet")
    assert written.columns.tolist() == here.columns.tolist()
    assert written["ds"].tolist() == here["ds"].tolist()
    for column in here.columns[2:]:
        assert written[column].tolist() == here[column].tolist()


def test_known_future_covariates(foretell, covariate_bundle_path, tmp_path):
    days = pd.date_range("2024-01-01", periods=33).strftime("%Y-%m-%d")
    past = "".join(f"a,{day},{i % 7},{i % 2},{i},3\n" for i, day in enumerate(days[:30]))
    ahead = "".join(f"a,{day},1\n" for day in days[30:])
    (tmp_path / "in.csv").write_text("unique_id,ds,y,promo,visits,size\n" + past)
    (tmp_path / "future.csv").write_text("unique_id,ds,promo\n" + ahead)
    call = ["forecast", "in.csv", "--model", covariate_bundle_path, "--horizon", 3]
    assert foretell(*call, "--future", "future.csv", "--output", "out.csv").code == 0
    missing = foretell(*call)
    assert missing.code == 1
    assert "promo" in missing.err
    (tmp_path / "future.csv").write_text("unique_id,ds,promo\nzz,2024-01-31,1\n" + ahead)
    ended = foretell(*call, "--future", "future.csv")
    assert ended.code == 0
    assert "warning: " in ended.err
    assert "zz" in ended.err


def test_draws(forecast):
    ended = forecast(GOOD, "--plot", "out.png")
    assert ended.code == 0
    assert "-> out.csv, out.png" in ended.err
    with open("out.png", "rb") as picture:
        assert picture.read(4) == b"\x89PNG"


def test_stdin(foretell, bundle_path, tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text(HEADER + GOOD)
    with open("in.csv", encoding="utf-8") as table:
        monkeypatch.setattr("sys.stdin", table)
        ended = foretell("forecast", "-", "--model", bundle_path, "--horizon", 1)
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 4


def test_semicolons_decimal_commas_and_dates(foretell, bundle_path, tmp_path):
    rows = "".join(f"a;{day[8:]}/{day[5:7]}/{day[:4]};7,25\n" for day in DAYS)
    (tmp_path / "in.csv").write_text(HEADER.replace(",", ";") + rows)
    options = ["--separator", ";", "--decimal", ",", "--date-format", "%d/%m/%Y"]
    ended = foretell("forecast", "in.csv", "--model", bundle_path, "--horizon", 1, *options)
    assert ended.code == 0
    assert ended.out.splitlines()[1].startswith("a,2024-01-31,7.25")


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_the_provider_in_use_is_told(forecast, device):
    ended = forecast(GOOD, "--device", device)
    assert ended.code == 0
    assert "ExecutionProvider" in ended.err


def test_a_device_that_cannot_be_had_is_an_error_not_a_fallback(forecast, bundle_path):
    try:
        load(bundle_path, device="cuda")
    except DeviceError:
        ended = forecast(GOOD, "--device", "cuda")
        assert ended.code == 1
        assert "CUDAExecutionProvider" in ended.err
        assert not os.path.exists("out.csv")
    else:
        assert "CUDAExecutionProvider" in forecast(GOOD, "--device", "cuda").err


@pytest.mark.parametrize("kept", ["none", "one byte", "half", "all but one byte"])
def test_a_damaged_bundle_is_named(forecast, bundle_path, tmp_path, kept):
    broken = tmp_path / "broken"
    shutil.copytree(bundle_path, broken)
    graph = broken / "forecaster.onnx"
    whole = graph.read_bytes()
    size = {"none": 0, "one byte": 1, "half": len(whole) // 2, "all but one byte": len(whole) - 1}
    graph.write_bytes(whole[: size[kept]])
    ended = forecast(model=broken)
    assert ended.code == 1
    assert "forecaster.onnx is incomplete" in ended.err


def test_a_flipped_byte_and_a_missing_graph_are_named(forecast, bundle_path, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(bundle_path, broken)
    graph = broken / "forecaster.onnx"
    content = bytearray(graph.read_bytes())
    content[len(content) // 2] ^= 1
    graph.write_bytes(content)
    assert "forecaster.onnx is damaged" in forecast(model=broken).err
    graph.unlink()
    assert "forecaster.onnx is missing" in forecast(model=broken).err


def test_a_moved_bundle_answers(forecast, bundle_path, tmp_path):
    shutil.copytree(bundle_path, tmp_path / "elsewhere" / "moved")
    assert forecast(model="elsewhere/moved").code == 0


def test_no_model_at_all(forecast, tmp_path):
    assert "is missing" in forecast(model="nowhere").err
    (tmp_path / "folder").mkdir()
    assert "no bundle" in forecast(model="folder").err


def test_neither_model_nor_server(foretell, tmp_path):
    (tmp_path / "in.csv").write_text(HEADER + GOOD)
    ended = foretell("forecast", "in.csv", "--horizon", 3)
    assert ended.code == 2
    assert "--model" in ended.err
    assert "--server" in ended.err


def test_an_unreachable_server_is_one_clear_sentence(foretell, tmp_path):
    (tmp_path / "in.csv").write_text(HEADER + GOOD)
    call = ["forecast", "in.csv", "--horizon", 3, "--server", "127.0.0.1:1"]
    ended = foretell(*call, "--output", "out.csv")
    assert ended.code == 1
    assert "127.0.0.1:1" in ended.err
    assert not os.path.exists("out.csv")
    assert foretell(*call, "--device", "cpu").code == 2


def test_a_dry_run_tells_and_writes_nothing(forecast):
    ended = forecast(GOOD, "--dry-run", "--chunk-rows", 30)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == (
        "would forecast 3 series (90 rows) in 3 chunks by CPUExecutionProvider -> out.csv\n"
    )
    assert os.listdir() == ["in.csv"]
    apart = "".join(sorted(GOOD.splitlines(keepends=True), key=lambda line: line[6:]))
    assert (
        "A table sorted by series needs none."
        in forecast(apart, "--dry-run", "--chunk-rows", 30).err
    )


def test_the_end_tells_what_it_took(forecast):
    ended = forecast()
    last = ended.err.splitlines()[-1]
    for word in (" s (", " series/s, ", "peak memory ", " MiB, ", "compute threads busy "):
        assert word in last


def test_the_same_command_again_and_again(forecast, tmp_path):
    """A scheduler gives it each night, whatever became of the last one."""
    first = forecast(MIXED, "--resume")
    written = (tmp_path / "out.csv").read_bytes()
    again = forecast(MIXED, "--resume")
    assert (first.code, again.code) == (3, 3)
    assert "out.csv is complete already: 3 series; nothing was done." in again.err
    assert "3 of 6 series refused" in again.err
    assert (tmp_path / "out.csv").read_bytes() == written
    other = forecast(MIXED, "--resume", "--level", "50")
    assert other.code == 1
    assert "--quantiles: [0.1, 0.5, 0.9] then, [0.25, 0.75] now." in other.err
    chunks = forecast(MIXED, "--resume", "--chunk-rows", 5, "--horizon", 4)
    assert "--chunk-rows: 262144 then, 5 now." in chunks.err
    assert "--horizon: 3 then, 4 now." in chunks.err


def test_the_command_cuts_a_table_as_a_job_does():
    """A job begun by the command goes on in Python, and the other way round."""
    default = inspect.signature(forecast_command.forecast).parameters["chunk_rows"].default
    assert default == CHUNK_ROWS


def test_what_earlier_runs_have_done_is_told(forecast, monkeypatch):
    """Else a count of all series stands beside the rate and the time of some."""
    forecast_rows, calls = Forecaster.forecast_rows, []

    def fail_once(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise ForetellError("gone")
        return forecast_rows(*arguments, **options)

    monkeypatch.setattr(Forecaster, "forecast_rows", fail_once)
    ended = forecast(GOOD, "--chunk-rows", 1)
    kept = int(re.search(r"(\d) series done and kept", ended.err)[1])
    looked = forecast(GOOD, "--chunk-rows", 1, "--resume", "--dry-run")
    assert f"\n{kept} series are done already.\n" in looked.err
    ended = forecast(GOOD, "--chunk-rows", 1, "--resume")
    assert f"3 series forecast by CPUExecutionProvider, {kept} done in earlier runs" in ended.err


def test_requests_are_counted_to_servers_alone(forecast):
    ended = forecast(GOOD, "--in-flight", 2)
    assert ended.code == 2
    assert "--in-flight" in ended.err
    assert "--server" in ended.err
    assert forecast(GOOD, "--resume", output=None).code == 2


def test_a_pipe_that_closes_ends_the_command(bundle_path, tmp_path):
    """As `head` does."""
    (tmp_path / "in.csv").write_text(HEADER + GOOD)
    call = [sys.executable, "-m", "foretell.cli.main", "forecast", "in.csv", "--horizon", "8000"]
    with subprocess.Popen(
        [*call, "--model", str(bundle_path)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        command.stdout.close()
        told = command.stderr.read()
    assert command.returncode == 1
    assert "error: whoever read standard output has closed it" in told
    assert "Traceback" not in told
    assert "Exception" not in told


def test_a_full_disk_is_told_and_leaves_nothing_that_looks_complete(
    forecast, tmp_path, monkeypatch
):
    """The limit of a file's size stands in for a disk: what a part needs isn't there."""
    monkeypatch.chdir(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    held = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        ended = forecast("".join(constant(f"s{i}", i) for i in range(3)), "--horizon", 400)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, held)
    assert ended.code == 1
    assert "out.csv: File too large" in ended.err
    assert sorted(os.listdir()) == ["in.csv"]
