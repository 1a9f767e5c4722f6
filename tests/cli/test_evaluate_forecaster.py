"""`foretell evaluate forecaster`: what it writes, and what it refuses before any work is done."""

import json
import math

import numpy as np
import pandas as pd
import pytest

ASK = ("evaluate", "forecaster", "in.csv", "--horizon", 6, "--windows", 2, "--freq", "D")


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d")
    pd.concat(
        pd.DataFrame({"unique_id": name, "ds": days, "y": rng.normal(9, 2, 60).round(2)})
        for name in ("a", "b", "c")
    ).to_csv(tmp_path / "in.csv", index=False)


@pytest.fixture
def evaluate(foretell, data, bundle_path):
    return lambda *options: foretell(*ASK, "--model", bundle_path, *options)


def test_table_numbers_and_page_tell_the_same(evaluate, tmp_path):
    ended = evaluate("--report", "out.html", "--json", "out.json")
    assert ended.code == 0
    assert "-> out.html" in ended.err
    assert "-> out.json" in ended.err
    found = json.loads((tmp_path / "out.json").read_text())
    page = (tmp_path / "out.html").read_text()
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    for line, scores in zip(lines[2:], found["scores"], strict=True):
        name, mase, smape, owa, wql, *_ = line.split()
        assert name == scores["name"]
        assert [float(of) for of in (mase, smape, owa, wql)] == pytest.approx(
            [scores["mase"], scores["smape"], scores["owa"], scores["wql"]], abs=1e-3
        )
        assert f"{scores['mase']:.3f}" in page
    assert len(found["scores"][0]["by_step"]["mase"]) == 6
    assert found["num_windows"] == len(found["windows"]) == 2
    own = [series["mase"]["model"] for series in found["series"]]
    assert [series["unique_id"] for series in found["series"]] == ["a", "b", "c"]
    assert math.fsum(own) / 3 == pytest.approx(found["scores"][0]["mase"])


def test_fewer_windows_than_asked_for_are_told(evaluate):
    """Whoever compares two tables has to know that they were measured alike."""
    told = "--windows is 1,000, but no series is long enough for more than 9 windows."
    assert told in evaluate("--windows", 1000, "--baselines", "Theta").err.splitlines()
    assert "--windows is" not in evaluate("--windows", 9, "--baselines", "Theta").err


def test_json_on_standard_output_stands_alone(evaluate):
    ended = evaluate("--json", "-", "--baselines", "Theta,SeasonalNaive")
    found = json.loads(ended.out)
    assert [scores["name"] for scores in found["scores"]] == ["model", "Theta", "SeasonalNaive"]
    assert found["scores"][0]["owa"] is None  # there is no Naive2 to be measured by


def test_the_same_command_writes_the_same_bytes(evaluate, tmp_path):
    for run in ("1", "2"):
        assert evaluate("--report", f"{run}.html", "--json", f"{run}.json").code == 0
    for ending in ("html", "json"):
        one, other = ((tmp_path / f"{run}.{ending}").read_bytes() for run in "12")
        assert one == other


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--baselines", "Naive,Theta"], 2, "there is no baseline 'Naive'"),
        (["--report", "in.pdf"], 2, "a report must end in .html"),
        (["--report", "old.html"], 1, "old.html exists; give --overwrite"),
        (["--json", "old.html"], 1, "old.html exists; give --overwrite"),
        (["--json", "in.csv", "--overwrite"], 1, "in.csv is also read"),
        (["--report", "no/out.html"], 1, "/no doesn't exist"),
        (["--report", "a.html", "--json", "a.html"], 1, "are the same file"),
    ],
)
def test_what_cannot_be_is_refused_before_a_model_is_loaded(
    foretell, data, tmp_path, options, code, message
):
    (tmp_path / "old.html").write_text("old")
    ended = foretell(*ASK, "--model", "nowhere", *options)
    assert ended.code == code
    assert message in ended.err
    assert "nowhere" not in ended.err
    assert (tmp_path / "old.html").read_text() == "old"
    assert not (tmp_path / "out.html").exists()


def test_a_failed_evaluation_leaves_the_old_report(evaluate, tmp_path):
    (tmp_path / "out.html").write_text("old")
    ended = evaluate("--report", "out.html", "--overwrite", "--horizon", 70)
    assert ended.code == 1
    assert "smaller --horizon" in ended.err
    assert (tmp_path / "out.html").read_text() == "old"


def test_refused_series_are_told_and_written(evaluate, tmp_path):
    with (tmp_path / "in.csv").open("a") as table:
        table.write("twice,2024-01-01,1\ntwice,2024-01-01,1\n")
    ended = evaluate("--report", "out.html", "--json", "out.json")
    assert ended.code == 3
    assert "1 of 4 series refused" in ended.err
    (refusal,) = json.loads((tmp_path / "out.json").read_text())["refusals"]
    assert (refusal["position"], refusal["unique_id"]) == (3, "twice")
    assert refusal["reason"] in (tmp_path / "out.html").read_text()
