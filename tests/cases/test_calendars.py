"""Stamps of forecasts through every door: month ends, clock changes, own ends, integer steps."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foretell.data.tables.reading import read_table

CASES = Path(__file__).parent
STORED = json.loads((CASES / "HA14.json").read_text())


def assert_same_forecast(answer, expected):
    """Equal ids and stamps; values within 1e-5 * (1 + |value|), all of them finite."""
    head = ["unique_id", "ds"]
    pd.testing.assert_frame_equal(answer[head], expected[head], check_dtype=False)
    values, right = answer.iloc[:, 2:].to_numpy(), expected.iloc[:, 2:].to_numpy()
    assert np.isfinite(values).all()
    assert (np.abs(values - right) <= 1e-5 * (1 + np.abs(right))).all()


@pytest.mark.parametrize("freq", ["ME", "M", None])
def test_ha01_month_ends(forecast, freq):
    answer = forecast("HA01.csv", 4, freq=freq)
    expected = pd.read_csv(CASES / "HA01.expected_ds.csv", parse_dates=["ds"])
    assert answer.table["unique_id"].tolist() == expected["unique_id"].tolist()
    assert answer.table["ds"].tolist() == expected["ds"].tolist()
    assert np.isfinite(answer.table["forecast"]).all()
    assert (answer.refusals, answer.warnings) == ({}, ())


@pytest.mark.parametrize("zone", ["Europe/Berlin", None])
def test_ha02_hours_over_the_spring_change(forecast, zone):
    answer = forecast("HA02.csv", 3, time_zone=zone)
    expected = pd.read_csv(CASES / "HA02.expected_ds.csv")
    assert answer.table["ds"].tolist() == pd.to_datetime(expected["utc"]).tolist()
    assert str(answer.table["ds"].dt.tz) == (zone or "UTC"), "never bare local time"
    if zone:
        assert [at.isoformat() for at in answer.table["ds"]] == expected["local"].tolist()
    assert (answer.refusals, answer.warnings) == ({}, ()), "02:00 never was: no gap"


@pytest.mark.parametrize("zone", ["Europe/Berlin", None])
def test_ha02_written_as_text_each_stamp_has_its_offset(foretell, models, zone):
    wanted = ["--time-zone", zone] if zone else []
    data = CASES / "HA02.csv"
    ended = foretell("forecast", data, "--model", models / "any", "--horizon", 3, *wanted)
    stamps = [line.split(",")[1] for line in ended.out.splitlines()[1:]]
    expected = pd.read_csv(CASES / "HA02.expected_ds.csv")["utc"]
    assert pd.to_datetime(stamps, utc=True).tolist() == pd.to_datetime(expected).tolist()
    assert {stamp[-6:] for stamp in stamps} == {"+02:00" if zone else "+00:00"}


@pytest.mark.parametrize("freq", ["D", None])
def test_ha04_row_order_does_not_matter(forecast, freq):
    shuffled = forecast("HA04.shuffled.csv", 5, freq=freq)
    in_order = forecast("HA04.sorted.csv", 5, freq=freq)
    first = pd.read_csv(CASES / "HA04.expected_first_ds.csv")
    assert in_order.table["unique_id"].unique().tolist() == ["s1", "s2", "s3", "s4"]
    by_appearance = read_table(CASES / "HA04.shuffled.csv")["unique_id"].unique().tolist()
    assert shuffled.table["unique_id"].unique().tolist() == by_appearance
    for unique_id, ds in first.itertuples(index=False):
        assert_same_forecast(shuffled.series(unique_id), in_order.series(unique_id))
        assert in_order.stamps(unique_id)[0] == ds
        assert len(in_order.stamps(unique_id)) == 5


@pytest.mark.parametrize("case", STORED, ids=lambda case: case["stored_freq"])
def test_ha14_a_stored_old_frequency_steps_as_the_new_one(forecast, case):
    """One row alone tells no frequency: here it is the model's that steps."""
    last = pd.Timestamp(case["last_ds"])
    many = pd.date_range(end=last, periods=12, freq=case["same_as"])
    table = pd.DataFrame(
        {
            "unique_id": ["one", *["many"] * 12],
            "ds": [last, *many],
            "y": np.arange(13.0),
        }
    )
    answer = forecast(table, 2, model=f"stored-{case['stored_freq']}")
    for unique_id in ("one", "many"):
        assert [str(at) for at in answer.series(unique_id)["ds"]] == case["next_two"]
    assert np.isfinite(answer.table["forecast"]).all()


def test_ha14_rows_on_two_kinds_of_month_end_follow_the_model(forecast):
    """The last days of January and February 2024 were working days, that of March was none."""
    table = pd.DataFrame(
        {"unique_id": "a", "ds": pd.to_datetime(["2024-01-31", "2024-02-29"]), "y": [1.0, 2.0]}
    )
    assert forecast(table, 1, model="stored-BM").stamps("a") == ["2024-03-29"]
    assert forecast(table, 1, model="stored-M").stamps("a") == ["2024-03-31"]


def test_ha14_the_old_name_is_not_another_frequency(forecast):
    """`M` is no minute: minutes are refused by a model of months, both named."""
    table = pd.DataFrame(
        {"unique_id": "a", "ds": pd.date_range("2024-01-31", periods=9, freq="min"), "y": 1.0}
    )
    answer = forecast(table, 2, model="stored-M")
    assert len(answer.table) == 0
    assert "ME" in answer.refusals["a"]
    assert "min" in answer.refusals["a"]


def test_ha15_integer_time(forecast):
    answer = forecast("HA15.csv", 3)
    assert answer.table["ds"].dtype == np.int64
    assert answer.series("step5")["ds"].tolist() == [300, 305, 310]
    assert answer.series("from3")["ds"].tolist() == [43, 44, 45]
    assert np.isfinite(answer.table["forecast"]).all()
