"""Training as several processes: the same curve, one voice, one folder, and an end for all.

Each test starts a real torchrun with two processes on the CPU.
"""

import csv
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import torch

from foretell.data.text.number_words import number_pairs

TORCHRUN = [str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node", "2"]
FORECASTER = ["train", "forecaster", "in.csv", "--freq", "D", "--horizon", "7", "--patch", "7"]
FORECASTER += ["--context", "28", "--d-model", "8", "--layers", "1", "--heads", "2"]
TRANSLATOR = ["train", "translator", "--src", "a.en", "--tgt", "a.de", "--arch", "recurrent"]
TRANSLATOR += ["--valid-src", "v.en", "--valid-tgt", "v.de", "--validate-every", "4"]
TRANSLATOR += ["--vocab-size", "330", "--max-length", "64", "--d-model", "16", "--dropout", "0"]

# Two processes add the same numbers up in another order, in float32: a part in 1e7, which a few
# steps of Adam carry to a part in 1e5 at most. A gradient that is scaled wrongly, a row that is
# missing or counted twice shifts the first step's numbers by a part in 10 already.
TOLERANCE = 1e-4


@pytest.fixture
def data(tmp_path):
    days = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d")
    rows = "".join(
        f"s{i},{day},{(i + 3 * step) % 7 + step % 3 * i / 5}\n"
        for i in range(5)
        for step, day in enumerate(days)
    )
    (tmp_path / "in.csv").write_text("unique_id,ds,y\n" + rows)


@pytest.fixture
def texts(tmp_path):
    pairs = list(number_pairs(64, seed=5))
    for name, some in (("a", pairs[:60]), ("v", pairs[60:])):
        for language, side in (("en", 0), ("de", 1)):
            text = "".join(f"{pair[side]}\n" for pair in some)
            (tmp_path / f"{name}.{language}").write_text(text)


@contextmanager
def torchrun(folder, *arguments):
    """Start two processes of the command; yields torchrun's own process."""
    # torchrun gives its processes one thread each, and says so, unless they are told.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*TORCHRUN, "-m", "foretell.cli", *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture
def stops_after(monkeypatch):
    """Makes the trainings of this process stop after a step, as Ctrl-C does."""

    def at(step):
        @contextmanager
        def training_progress():
            yield lambda state: state.step == step and signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr("foretell.cli.progress.training_progress", training_progress)

    return at


def curve(folder):
    with (folder / "log.csv").open() as file:
        return list(csv.DictReader(file))


def assert_same_curve(one, two):
    assert [row["step"] for row in one] == [row["step"] for row in two]
    for name in ("loss", "gradient_norm", "validation_loss", "best_step"):
        ours, theirs = ([float(row[name] or -1) for row in rows] for rows in (one, two))
        assert theirs == pytest.approx(ours, rel=TOLERANCE), name
    losses = [float(row["loss"]) for row in one]
    assert len(set(losses)) == len(losses)  # no step is like another, so each is compared


def test_two_processes_go_on_with_the_curve_of_one(foretell, data, tmp_path, stops_after):
    """With half the batch each; and one of them alone speaks and writes."""
    whole = [*FORECASTER, "--steps", 12, "--batch-size", 16]
    half = [*FORECASTER, "--steps", 12, "--batch-size", 8]
    assert foretell(*whole, "--output", "one").code == 0
    stops_after(4)
    assert foretell(*whole, "--output", "two").code == 130
    with torchrun(tmp_path, *half, "--output", "two", "--resume") as process:
        told = process.stderr.read()
    assert process.returncode == 0, told
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(one) == 12
    assert_same_curve(one, two)
    lines = told.splitlines()
    assert [line[:12] for line in lines] == ["training 5/1", "training 12/", lines[-1][:12]]
    assert "weights trained on 5 series" in lines[-1]
    assert sorted(os.listdir(tmp_path / "two")) == sorted(os.listdir(tmp_path / "one"))


def test_a_refused_batch_size_is_told_as_that_of_all(foretell, data, monkeypatch):
    """The record counts the whole batch, so that another number of processes can go on."""
    train = [*FORECASTER, "--steps", 2, "--output", "a"]
    assert foretell(*train, "--batch-size", 16).code == 0
    monkeypatch.setattr("foretell.model.run.world_size", lambda: 2)
    monkeypatch.setattr("foretell.cli.train_forecaster.world_size", lambda: 2)
    assert foretell(*train, "--batch-size", 8, "--resume").code == 0
    ended = foretell(*train, "--batch-size", 16, "--resume")
    assert ended.code == 1
    assert "--batch-size: 16 then, 32 now.\n" in ended.err
    assert "Batches are counted over all 2 processes together." in ended.err


def test_a_stopped_training_of_two_goes_on_as_one(foretell, texts, tmp_path, stops_after):
    """Stopped at a step that both have done; batches with a row for one of them among them."""
    options = [*TRANSLATOR, "--steps", 100_000, "--warmup", 5]
    with torchrun(tmp_path, *options, "--batch-tokens", 10, "--output", "two") as process:
        while "training 1/" not in (line := process.stderr.readline()):
            assert line, "it ended before its first step"
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    stopped = re.search(r"interrupted: (?:all )?(\d+) steps? (?:is|are) saved; .* --resume", told)
    assert stopped, told
    assert told.count("interrupted") == 1
    step = int(stopped[1])
    stops_after(step + 4)
    options += ["--batch-tokens", 20]
    assert foretell(*options, "--output", "two", "--resume").code == 130
    assert foretell(*options, "--output", "one").code == 130
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(one) == step + 4
    assert_same_curve(one[:20], two[:20])  # later ones drift apart, as TOLERANCE says


def test_a_process_that_dies_ends_the_other_with_a_message(data, tmp_path):
    """And without loss: the first keeps all steps that were done."""
    options = [*FORECASTER, "--steps", 100_000, "--output", "two"]
    with torchrun(tmp_path, *options) as process:
        while "training 1/" not in (line := process.stderr.readline()):
            assert line, "it ended before its first step"
        os.kill(process_of_rank(1, process.pid), signal.SIGKILL)
        told = process.stderr.read()
    assert process.returncode == 1
    assert "error: another process of the training has ended" in told
    assert "(--resume)" in told
    assert "RuntimeError" not in told
    saved = torch.load(tmp_path / "two" / "checkpoint.pt", weights_only=True)
    assert saved["extra"]["state"]["step"] == len(curve(tmp_path / "two"))


def process_of_rank(rank, parent):
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if f"\0RANK={rank}\0" in Path(f"/proc/{child}/environ").read_text():
            return int(child)
    raise AssertionError(f"no process of rank {rank} is running")
