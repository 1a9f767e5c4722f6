"""`foretell export --precision int8` from run to answer, and what it says without held-out data."""

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def series(tmp_path):
    """Daily series with the tiny forecaster's weekly season, more of them than it learned from."""
    rng = np.random.default_rng(1)
    time = np.arange(70)
    parts = [
        pd.DataFrame(
            {
                "unique_id": f"s{number:03}",
                "ds": pd.date_range("2024-06-03", periods=70, freq="D"),
                "y": 20 + 3 * np.sin(2 * np.pi * (time + number) / 7) + rng.normal(0, 0.5, 70),
            }
        )
        for number in range(220)
    ]
    path = tmp_path / "held_out.csv"
    pd.concat(parts).to_csv(path, index=False)
    return path


def test_a_forecaster_in_int8_is_measured_written_verified_and_asked(
    bundle_path, series, foretell, foretell_process
):
    run = bundle_path.parents[2] / "run"
    ended = foretell_process(
        "export", run, "--output", "m/1", "--precision", "int8", "--data", series
    )
    assert ended.code == 0, ended.err
    assert "warning: the run held out fewer steps (train --holdout) than its horizon" in ended.err
    assert "MASE: float32 " in ended.err
    assert "relative error of a constant series: float32 0, int8 0; at most 0.01" in ended.err
    assert "int8 holds: 220 held-out lines or series; the graphs'" in ended.err
    ended = foretell("verify", "m/1")
    assert ended.code == 0
    assert "parity      not checked: the graphs were proven in fp32" in ended.out
    ended = foretell("inspect", "m/1", "--json")
    told = json.loads(ended.out)
    assert told["precision"] == "int8"
    ended = foretell("forecast", series, "--model", "m/1", "--horizon", 7, "--output", "-")
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 1 + 220 * 7


def test_without_held_out_data_it_says_what_to_give(
    bundle_path, translator_bundle_path, series, foretell
):
    forecaster, translator = (
        path.parents[2] / "run" for path in (bundle_path, translator_bundle_path)
    )
    for run, wrong, text in (
        (forecaster, (), "give --data"),
        (forecaster, ("--data", series, "--valid-src", series), "and no text"),
        (translator, (), "give --valid-src FILE and --valid-tgt FILE"),
        (translator, ("--data", series), "and no --data"),
    ):
        ended = foretell("export", run, "--output", "m/1", "--precision", "int8", *wrong)
        assert ended.code == 2
        assert text in " ".join(ended.err.split())
    few, words = series.with_name("few.csv"), series.with_name("few.txt")
    few.write_text("".join(series.read_text().splitlines(keepends=True)[: 1 + 199 * 70]))
    words.write_text("one\n\n" * 199)
    text = ("--valid-src", words, "--valid-tgt", words)
    for run, given in ((forecaster, ("--data", few)), (translator, text)):
        ended = foretell("export", run, "--output", "m/1", "--precision", "int8", *given)
        assert ended.code == 2
        assert "has 199 lines or series that can be measured; int8 needs at least 200" in ended.err
        assert "export 1 of 3" not in ended.err  # found before minutes of work
    ended = foretell("export", forecaster, "--output", "m/1", "--data", series)
    assert ended.code == 2
    assert "are for --precision int8" in ended.err
