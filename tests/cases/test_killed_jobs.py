"""HD06: a job that is killed again and again writes what it writes when it is left alone.

The processes are real and end by signal 9, once so many parts are kept and some milliseconds later.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from foretell.data.errors import ForetellError
from foretell.jobs.journals.journal import Journal

SERIES, STEPS, HORIZON = 500, 60, 7
CHUNK_ROWS = 10 * STEPS


@pytest.fixture
def table(tmp_path):
    days = pd.date_range("2024-01-01", periods=STEPS).strftime("%Y-%m-%d")
    lines = [
        f"k{series:03d},{day},{series + (7 * step + series) % 11}"
        for series in range(SERIES)
        for step, day in enumerate(days)
    ]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["unique_id,ds,y", *lines]) + "\n")
    return path


@pytest.fixture
def words(table, daily_bundle_path):
    def of(output: Path, *more: object) -> list[object]:
        call = ["forecast", table, "--model", daily_bundle_path, "--horizon", HORIZON]
        call += ["--chunk-rows", CHUNK_ROWS, "--threads", 1, "--device", "cpu"]
        return [*call, "--output", output, *more]

    return of


def start(words: list[object], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "foretell.cli.main", *map(str, words)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=stdin, stdout=quiet, stderr=quiet)


def num_parts(output: Path) -> int:
    """Count the lines of the journal: one for the job, one for each part."""
    journal = output.with_name(f".{output.name}.foretell-job") / "journal.jsonl"
    return journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0


def kill_in_work(process: subprocess.Popen[bytes], output: Path, rng: random.Random) -> None:
    """Kill the job in its midst; on a machine that is busy it may have ended before."""
    wanted = num_parts(output) + rng.randint(1, 8)
    while process.poll() is None and num_parts(output) < wanted:
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.02))  # into the next part, or its line, or between: all are right
    process.kill()
    assert process.wait() in (0, -signal.SIGKILL)


@pytest.mark.parametrize(("name", "kills"), [("out.csv", 3), ("out.parquet", 1)])
def test_hd06_kills_change_no_byte(foretell, words, tmp_path, name, kills):
    whole, output = tmp_path / f"whole-{name}", tmp_path / name
    assert foretell(*words(whole)).code == 0
    rng = random.Random(name)
    for _ in range(kills):
        process = start(words(output, "--resume"))
        kill_in_work(process, output, rng)
        assert process.returncode == 0 or not output.exists()
    for _ in range(2):  # the second time it is complete, and left as it is
        ended = foretell(*words(output, "--resume"))
        assert ended.code == 0, ended.err
        assert output.read_bytes() == whole.read_bytes()
    answer = pd.read_parquet(output) if name.endswith("parquet") else pd.read_csv(output)
    assert len(answer) == SERIES * HORIZON
    assert not answer.duplicated(["unique_id", "ds"]).any()
    left = {"in.csv", whole.name, output.name, f".{output.name}.foretell-done"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_hd06_another_job_is_refused_naming_what_changed(
    foretell, words, table, tmp_path, monkeypatch
):
    output = tmp_path / "out.csv"
    keep = Journal.add

    def fail(journal, *arguments, **options):
        if journal.parts == 3:
            raise ForetellError("no more")
        keep(journal, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", fail)
        ended = foretell(*words(output))
    assert ended.code == 1
    assert "30 series done and kept; go on with --resume" in ended.err
    ended = foretell(*words(output))
    assert ended.code == 1
    assert "--resume" in ended.err
    assert "--overwrite" in ended.err
    ended = foretell(*words(output, "--resume", "--freq", "D", "--quantiles", "0.5"))
    assert ended.code == 1
    assert "freq: None then, D now" in ended.err
    assert "quantile" in ended.err
    text = table.read_text()
    table.write_text(text.replace("k000,2024-01-01,0", "k000,2024-01-01,1"))
    ended = foretell(*words(output, "--resume"))
    assert ended.code == 1
    assert "input" in ended.err
    assert num_parts(output) == 3


def test_hd06_a_second_job_on_one_output_is_refused(foretell, words, table, tmp_path):
    output = tmp_path / "out.csv"
    waiting = words(output)
    waiting[1] = "-"
    with table.open("rb") as file:
        read, write = os.pipe()
        first = start(waiting, stdin=read)
        os.close(read)
        try:
            while not (tmp_path / ".out.csv.foretell-job" / "work").exists():
                assert first.poll() is None
                time.sleep(0.005)
            for more in ("--resume", "--overwrite"):  # the first one waits for its input
                ended = foretell(*words(output, more))
                assert ended.code == 1
                assert "being written by another job" in ended.err
            with os.fdopen(os.dup(write), "wb") as pipe:
                shutil.copyfileobj(file, pipe)
        finally:
            os.close(write)
    assert first.wait() == 0
    assert len(pd.read_csv(output)) == SERIES * HORIZON
