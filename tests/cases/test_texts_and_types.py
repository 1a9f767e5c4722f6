"""What files say and what types hold, through every door: ids, dates, decimal signs, pandas types.

`HA13.py` of the cases is the tables below.
"""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foretell.data.errors import ForetellError

CASES = Path(__file__).parent
NEXT = ["2024-01-31", "2024-02-01", "2024-02-02"]


def assert_same(answer, expected):
    assert answer.table["ds"].tolist() == expected.table["ds"].tolist()
    values = answer.table.iloc[:, 2:].to_numpy()
    right = expected.table.iloc[:, 2:].to_numpy()
    assert np.isfinite(values).all()
    assert (np.abs(values - right) <= 1e-5 * (1 + np.abs(right))).all()


def test_ha05_ids_that_look_like_numbers(forecast):
    answer = forecast("HA05.csv", 2)
    levels = {"007": 10, "07": 500, "7": 90000, "1e3": 3, "1000": 70}
    assert answer.table["unique_id"].tolist() == [name for name in levels for _ in range(2)]
    for unique_id, level in levels.items():
        assert answer.stamps(unique_id) == ["2024-02-10", "2024-02-11"]
        np.testing.assert_allclose(answer.series(unique_id)["forecast"], level, rtol=1e-3)


def test_ha05_ids_stand_in_the_written_csv_letter_for_letter(foretell, models):
    ended = foretell("forecast", CASES / "HA05.csv", "--model", models / "any", "--horizon", 1)
    ids = [line.split(",")[0] for line in ended.out.splitlines()[1:]]
    assert ids == ["007", "07", "7", "1e3", "1000"]


@pytest.mark.parametrize("date_format", [None, "%d/%m/%Y"])
def test_ha08_day_first_dates(forecast, date_format):
    answer = forecast("HA08.csv", 3, csv={"date_format": date_format})
    assert answer.stamps("till") == ["2024-04-04", "2024-04-05", "2024-04-06"]
    assert_same(answer, forecast("HA08.iso.csv", 3))


def test_ha08_dates_that_may_be_read_twice_are_refused(forecast, tmp_path):
    lines = (CASES / "HA08.csv").read_text().splitlines()
    (tmp_path / "short.csv").write_text("\n".join(lines[:6]))
    with pytest.raises(ForetellError, match="day first or month first; give the date format"):
        forecast(tmp_path / "short.csv", 3)
    given = forecast(tmp_path / "short.csv", 1, csv={"date_format": "%d/%m/%Y"})
    assert given.stamps("till") == ["2024-03-10"]


def test_ha12_mark_semicolons_decimal_comma_and_crlf(forecast):
    answer = forecast("HA12.csv", 2, csv={"separator": ";", "decimal": ","})
    assert answer.stamps("A") == ["2024-01-31", "2024-02-01"]
    assert_same(answer, forecast("HA12.plain.csv", 2))
    assert_same(answer, forecast("HA12.csv", 2, csv={"decimal": ","}))


def test_ha12_is_refused_where_its_signs_are_not_given(forecast):
    with pytest.raises(ForetellError, match=r"columns 'unique_id', 'ds', 'y' .* decimal"):
        forecast("HA12.csv", 2)
    with pytest.raises(ForetellError, match="columns 'unique_id;ds;y' when split at comma"):
        forecast("HA12.csv", 2, csv={"separator": ","})


def test_ha12_the_mark_is_no_part_of_a_name_in_a_plain_file_either(forecast, tmp_path):
    plain = (CASES / "HA12.plain.csv").read_bytes()
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + plain)
    assert_same(forecast(tmp_path / "marked.csv", 2), forecast("HA12.plain.csv", 2))


DS = pd.date_range("2024-01-01", periods=30, freq="D")
VALUES = [20 + step % 7 for step in range(30)]
FLOATS = pd.Series(VALUES, dtype="float64")


def frame(y=FLOATS, ids="b", ds=DS) -> pd.DataFrame:
    return pd.DataFrame({"unique_id": ids, "ds": ds, "y": y})


HA13 = {
    **{
        f"y {dtype}": frame(pd.Series(VALUES, dtype=dtype))
        for dtype in ("float64", "float32", "int64", "uint8", "Int64", "Float64", "object")
    },
    "y Decimal": frame(pd.Series([Decimal(value) for value in VALUES], dtype="object")),
    "id object": frame(ids=pd.Series(["b"] * 30, dtype="object")),
    "id str": frame(ids=pd.Series(["b"] * 30, dtype="str")),
    "id category": frame(ids=pd.Categorical(["b"] * 30, categories=["z", "b", "a"])),
    "id int": frame(ids=pd.Series([17] * 30)),
    "ds datetime64": frame(),
    "ds text": frame(ds=DS.strftime("%Y-%m-%d")),
    "ds period": frame(ds=DS.to_period("D")),
}


@pytest.mark.parametrize("name", HA13)
def test_ha13_types_at_the_door(forecast, name):
    df = HA13[name]
    unique_id = df["unique_id"][0]
    answer = forecast(df, 3, freq="D")
    assert answer.stamps(unique_id) == NEXT
    assert answer.table["unique_id"].tolist() == [unique_id] * 3, "17 stays an integer"
    assert (answer.table.dtypes.iloc[2:] == np.float64).all()
    assert_same(answer, forecast(frame(), 3, freq="D"))


def test_ha13_a_word_is_refused_naming_the_row(forecast):
    words = pd.Series([*map(str, VALUES[:-1]), "n/k"])
    with pytest.raises(ForetellError, match="'n/k' in row 30 is no number"):
        forecast(frame(words), 3)


def test_ha13_truth_values_are_refused(forecast):
    with pytest.raises(ForetellError, match="truth values; it must hold numbers"):
        forecast(frame(pd.Series([value > 22 for value in VALUES])), 3)
