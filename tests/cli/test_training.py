"""`foretell train forecaster`, `export`, `evaluate forecaster`: one small run from end to end."""

import json
import os

import pandas as pd
import pytest

from foretell.cli.train_forecaster import default_patch

SMALL = ["--d-model", 8, "--layers", 1, "--heads", 2, "--patch", 7, "--context", 28, "--steps", 4]


@pytest.fixture
def data(tmp_path):
    days = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d")
    rows = "unique_id,ds,y\n" + "".join(
        f"s{i},{day},{i + step % 7}\n" for i in (1, 2) for step, day in enumerate(days)
    )
    (tmp_path / "in.csv").write_text(rows)
    return "in.csv"


def test_from_a_table_to_scores(foretell, foretell_process, data):
    train = ["train", "forecaster", data, "--freq", "D", "--horizon", 7, "--output", "runs/a"]
    ended = foretell(*train, *SMALL, "--holdout", 7)
    assert (ended.code, ended.out) == (0, "")
    assert "training 4/4" in ended.err
    assert "weights trained on 2 series" in ended.err
    again = foretell(*train, *SMALL, "--holdout", 7)
    assert again.code == 1
    assert "runs/a holds a training run already" in again.err

    ended = foretell_process("export", "runs/a", "--output", "models/a/1")
    assert (ended.code, ended.out) == (0, "")
    stages = [line for line in ended.err.splitlines() if line.startswith("export ")]
    assert [line[:14] for line in stages[:2]] == ["export 1 of 3:", "export 2 of 3:"]
    assert "comparing the graphs with torch, case 1 of 59 (batch 1, context one step" in stages[1]
    assert stages[-1].startswith("export 3 of 3: writing the sample answer")
    assert "parity holds" in ended.err
    assert foretell("export", "runs/a", "--output", "models/a/1").code == 1

    evaluate = ["evaluate", "forecaster", data, "--model", "models/a", "--horizon", 7]
    ended = foretell(*evaluate, "--windows", 2)
    assert ended.code == 0
    assert "the last 7 steps held out, so the last 14 steps" in ended.err  # one window was seen
    lines = ended.out.splitlines()
    assert lines[0] == "2 series, 2 windows of 7 steps, season of 7"
    assert lines[1].split()[:4] == ["MASE", "sMAPE", "OWA", "WQL"]
    methods = ["model", "SeasonalNaive", "Naive2", "Theta", "Ridge"]
    assert [line.split()[0] for line in lines[2:]] == methods
    assert max(map(len, lines)) <= 80
    # The series repeat exactly: there is no unit for the MASE, and JSON has no NaN.
    ended = foretell(*evaluate, "--json", "-")
    assert ended.err == ""
    scores = json.loads(ended.out)["scores"]
    assert scores[1]["smape"] == 0
    assert scores[1]["mase"] is None


def test_a_refused_series_stops_training_unless_skipped(foretell, data, tmp_path):
    with open(data, "a", encoding="utf-8") as table:
        table.write("twice,2024-01-01,1\ntwice,2024-01-01,1\n")
    train = ["train", "forecaster", data, "--freq", "D", "--horizon", 7, *SMALL]
    ended = foretell(*train, "--output", "runs/a")
    assert ended.code == 1
    assert "twice" in ended.err
    ended = foretell(*train, "--output", "runs/a", "--skip-refused", "--overwrite")
    assert ended.code == 3
    assert "1 of 3 series refused" in ended.err
    assert os.path.exists("runs/a/run.json")


def test_the_classic_transformer_can_be_had(foretell, data):
    classic = ["--norm", "layer", "--post-norm", "--activation", "relu"]
    classic += ["--positions", "sinusoidal", "--dropout", 0.1, "--no-validation"]
    train = ["train", "forecaster", data, "--freq", "D", "--horizon", 7, *SMALL]
    assert foretell(*train, *classic, "--output", "runs/classic").code == 0
    with open("runs/classic/run.json", encoding="utf-8") as run:
        config = json.load(run)["config"]
    assert (config["norm_first"], config["activation"]) == (False, "relu")
    assert (config["positions"], config["dropout"]) == ("sinusoidal", 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--context", 30], "--context 30 is no multiple of --patch 7"),
        (["--heads", 3], "doesn't split into 3 heads"),
        (["--freq", "fortnight"], "fortnight"),
        (["--horizon", 0], "--horizon"),
        (["--future-covariates", "promo"], "promo"),
    ],
)
def test_wrong_options_leave_no_run(foretell, data, options, message):
    train = ["train", "forecaster", data, "--freq", "D", "--horizon", 7, "--output", "runs/a"]
    ended = foretell(*train, *SMALL, *options)
    assert ended.code in {1, 2}
    assert message in ended.err
    assert not os.path.exists("runs")


def test_an_unknown_choice_is_refused_with_those_there_are(foretell_process, data):
    train = ["train", "forecaster", data, "--freq", "D", "--horizon", 7, "--output", "runs/a"]
    ended = foretell_process(*train, *SMALL, "--norm", "batch")
    assert ended.code == 2
    assert "norm is 'batch'; it must be one of layer, rms" in ended.err


def test_export_of_nothing_is_refused(foretell, tmp_path):
    ended = foretell("export", "nowhere", "--output", "models/a/1")
    assert ended.code == 1
    assert "nowhere" in ended.err
    assert not os.path.exists("models")


@pytest.mark.parametrize(
    ("freq", "patch"),
    [("h", 12), ("MS", 12), ("D", 14), ("B", 10), ("W", 13), ("Q", 12), ("any", 12), ("5", 12)],
)
def test_patches_keep_the_phase_of_the_season(freq, patch):
    assert default_patch(freq) == patch
