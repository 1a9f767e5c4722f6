"""One bad series neither stops nor changes the others, through every door."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foretell.data.tables.reading import read_table

CASES = Path(__file__).parent


def assert_same(found, expected):
    """The same forecast: equal stamps, finite values within 1e-5 * (1 + |value|)."""
    assert found["ds"].tolist() == expected["ds"].tolist()
    values, right = found.iloc[:, 2:].to_numpy(), expected.iloc[:, 2:].to_numpy()
    assert np.isfinite(values).all()
    assert (np.abs(values - right) <= 1e-5 * (1 + np.abs(right))).all()


def rows_of(file: str, unique_id: str) -> pd.DataFrame:
    table = read_table(CASES / file)
    return table[table["unique_id"] == unique_id].reset_index(drop=True)


@pytest.mark.parametrize("freq", ["D", None])
def test_ha03_two_rows_of_one_stamp(forecast, freq):
    answer = forecast("HA03.csv", 3, freq=freq)
    assert set(answer.refusals) == {"conflict", "echo"}
    assert "2024-05-10 has 2 rows" in answer.refusals["conflict"]
    assert "2024-05-15 has 2 rows" in answer.refusals["echo"], "equal rows are refused likewise"
    assert answer.table["unique_id"].unique().tolist() == ["clean"]
    assert answer.stamps("clean") == ["2024-05-21", "2024-05-22", "2024-05-23"]
    assert_same(answer.table, forecast(rows_of("HA03.csv", "clean"), 3, freq=freq).table)


@pytest.mark.parametrize("freq", ["D", None])
def test_ha09_short_series(forecast, freq):
    answer = forecast("HA09.csv", 4, freq=freq)
    answered = {"two", "flat3", "five", "long"} | ({"one"} if freq else set())
    assert set(answer.table["unique_id"]) == answered
    for unique_id in answered:
        assert answer.stamps(unique_id) == [f"2024-07-0{day}" for day in range(1, 5)]
        assert np.isfinite(answer.values(unique_id)).all()
    np.testing.assert_allclose(answer.series("flat3")["forecast"], 4.0, rtol=1e-5)
    if freq is None:
        reason = "inferred from 1 row, 2 are needed; give the frequency"
        assert reason in answer.refusals["one"]
    alone = forecast(rows_of("HA09.csv", "long"), 4, freq=freq)
    assert_same(answer.series("long"), alone.table)


def history() -> pd.DataFrame:
    """HA10's history, and the other columns that the model of the tests wants."""
    return read_table(CASES / "HA10.hist.csv").assign(visits=np.nan, size=1.0)


def test_ha10_known_future_columns_that_do_not_fit(forecast):
    answer = forecast(history(), 4, model="covariates", future="HA10.future_bad.csv")
    assert len(answer.table) == 0
    assert "(b, 2024-06-13) has no row" in answer.refusals["b"]
    assert "(a, 2024-06-12) has a blank 'promo'" in answer.refusals["a"]
    assert any("zz" in warning for warning in answer.warnings)
    assert any("(a, 2024-06-15)" in warning for warning in answer.warnings)


def test_ha10_known_future_columns_in_any_order(forecast):
    ok, shuffled = (
        forecast(history(), 4, model="covariates", future=f"HA10.future_{name}.csv")
        for name in ("ok", "ok_shuffled")
    )
    assert (ok.refusals, ok.warnings) == (shuffled.refusals, shuffled.warnings) == ({}, ())
    assert ok.table["unique_id"].tolist() == ["a"] * 4 + ["b"] * 4
    assert ok.stamps("a") == [f"2024-06-{day}" for day in range(11, 15)]
    assert_same(shuffled.table, ok.table)


def test_ha10_the_known_future_is_used_and_what_lies_beyond_is_not(forecast):
    """Or a shift of rows would show nowhere."""
    ok = forecast(history(), 4, model="covariates", future="HA10.future_ok.csv")
    future = read_table(CASES / "HA10.future_ok.csv")
    other = future.assign(promo=1 - future["promo"])
    flipped = forecast(history(), 4, model="covariates", future=other)
    assert np.abs(flipped.table["forecast"] - ok.table["forecast"]).max() > 1e-3
    beyond = pd.DataFrame({"unique_id": "a", "ds": ["2024-06-15"], "promo": [99.0]})
    longer = forecast(history(), 4, model="covariates", future=pd.concat([future, beyond]))
    assert_same(longer.table, ok.table)


def hd03(only_good: bool = False) -> str:
    lines = ["unique_id,ds,y"]
    for series in json.loads((CASES / "HD03.json").read_text()):
        if only_good and not series["unique_id"].startswith("good"):
            continue
        # A series without values has an id in a table only where it has a row, with a blank.
        days = pd.date_range("2024-01-01", periods=max(1, len(series["y"]))).strftime("%Y-%m-%d")
        values = series["y"] or [""]
        lines += [f"{series['unique_id']},{day},{y}" for day, y in zip(days, values, strict=True)]
    return "\n".join(lines) + "\n"


def test_hd03_half_of_the_batch_is_bad(forecast, tmp_path):
    (tmp_path / "half.csv").write_text(hd03())
    (tmp_path / "good.csv").write_text(hd03(only_good=True))
    answer, alone = forecast(tmp_path / "half.csv", 3), forecast(tmp_path / "good.csv", 3)
    assert list(answer.refusals) == ["empty", "has_inf", "word"]
    for unique_id, said in (("empty", "blank"), ("has_inf", "inf"), ("word", "three")):
        assert said in answer.refusals[unique_id].lower()
    assert answer.table["unique_id"].unique().tolist() == ["good0", "good1", "good2"]
    for unique_id, level in (("good0", 5), ("good1", 9), ("good2", 0)):
        error = np.abs(answer.values(unique_id) - level)
        assert (error <= max(1e-5 * level, 1e-6)).all()
    assert alone.refusals == {}
    assert_same(answer.table, alone.table)
