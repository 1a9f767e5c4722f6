"""Tables that broke other products, each with its right answer: stamps, ids, refusals.

What a model answers for them is tested where there is a model.
"""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foretell.data.calendars.calendar import Frequency
from foretell.data.errors import TableError
from foretell.data.series.answers import forecast_table
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Panel, PanelForecast
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_future_rows, read_rows
from foretell.data.tables.reading import CsvFormat, read_table

CASES = Path(__file__).parent


def panel(
    df: pd.DataFrame | str,
    horizon: int,
    freq: str | None = None,
    *,
    zone: str | None = None,
    csv: CsvFormat | None = None,
) -> Panel:
    table = read_table(CASES / df, csv=csv) if isinstance(df, str) else df
    rows = read_rows(table, Columns(time_zone=zone))
    return regularise(rows, options=ForecastOptions(horizon=horizon, freq=freq))


def answer(found: Panel, horizon: int) -> pd.DataFrame:
    """Stamp a panel with made-up values, as a model would answer it."""
    stamps = [
        frequency.after(found.last[place : place + 1], horizon, found.time_zone)
        for place, frequency in enumerate(found.frequencies)
    ]
    values = np.zeros((len(found.ids), horizon))
    return forecast_table(
        PanelForecast(
            ids=found.ids,
            frequencies=found.frequencies,
            stamp_kind=found.stamp_kind,
            time_zone=found.time_zone,
            stamps=np.concatenate(stamps),
            forecast=values,
            quantile_levels=(0.1, 0.9),
            quantiles=np.stack([values, values], axis=-1),
        )
    )


def stamps(table: pd.DataFrame, unique_id: object) -> list[str]:
    mine = table.loc[table["unique_id"] == unique_id, "ds"]
    return [stamp.isoformat().removesuffix("T00:00:00") for stamp in mine]


def grid(found: Panel, unique_id: object) -> list[float]:
    place = found.ids.get_loc(unique_id)
    return found.target[found.indptr[place] : found.indptr[place + 1]].tolist()


def reasons(found: Panel) -> dict[object, str]:
    return {refusal.unique_id: refusal.reason for refusal in found.refusals}


@pytest.mark.parametrize("freq", ["ME", "M", None])
def test_ha01_month_ends_come_from_the_month(freq: str | None) -> None:
    table = answer(panel("HA01.csv", 4, freq), 4)
    expected = pd.read_csv(CASES / "HA01.expected_ds.csv", parse_dates=["ds"])
    assert table["unique_id"].tolist() == expected["unique_id"].tolist()
    assert table["ds"].tolist() == expected["ds"].tolist()


@pytest.mark.parametrize("freq", ["h", "H", None])
@pytest.mark.parametrize("zone", ["Europe/Berlin", None])
def test_ha02_hours_over_the_spring_change_are_instants(freq: str | None, zone: str | None) -> None:
    found = panel("HA02.csv", 3, freq, zone=zone)
    assert not np.isnan(found.target).any(), "02:00 never was: no gap"
    table = answer(found, 3)
    expected = pd.read_csv(CASES / "HA02.expected_ds.csv")
    assert table["ds"].tolist() == pd.to_datetime(expected["utc"]).tolist()
    assert str(table["ds"].dt.tz) == (zone or "UTC")
    if zone:
        assert [stamp.isoformat() for stamp in table["ds"]] == expected["local"].tolist()


def test_ha03_two_rows_of_one_stamp_are_refused_and_the_clean_series_is_as_alone() -> None:
    found = panel("HA03.csv", 3, "D")
    assert found.ids.tolist() == ["clean"]
    assert "2024-05-10 has 2 rows" in reasons(found)["conflict"]
    assert "2024-05-15 has 2 rows" in reasons(found)["echo"], "equal rows are refused likewise"
    assert stamps(answer(found, 3), "clean") == ["2024-05-21", "2024-05-22", "2024-05-23"]
    table = read_table(CASES / "HA03.csv")
    alone = panel(table[table["unique_id"] == "clean"], 3, "D")
    assert grid(found, "clean") == grid(alone, "clean")


@pytest.mark.parametrize("freq", ["D", None])
def test_ha04_order_of_rows_does_not_matter_and_each_series_has_its_own_end(
    freq: str | None,
) -> None:
    expected = pd.read_csv(CASES / "HA04.expected_first_ds.csv")
    shuffled, in_order = panel("HA04.shuffled.csv", 5, freq), panel("HA04.sorted.csv", 5, freq)
    for found in (shuffled, in_order):
        table = answer(found, 5)
        for unique_id, first in expected.itertuples(index=False):
            assert stamps(table, unique_id)[0] == first
            np.testing.assert_array_equal(grid(found, unique_id), grid(in_order, unique_id))
    assert in_order.ids.tolist() == ["s1", "s2", "s3", "s4"], "by first appearance"
    assert shuffled.ids.tolist() == list(
        read_table(CASES / "HA04.shuffled.csv")["unique_id"].unique()
    )


def test_ha05_ids_that_look_like_numbers_are_text() -> None:
    found = panel("HA05.csv", 2)
    levels = {unique_id: set(grid(found, unique_id)) for unique_id in found.ids}
    assert levels == {"007": {10}, "07": {500}, "7": {90000}, "1e3": {3}, "1000": {70}}
    assert stamps(answer(found, 2), "1e3") == ["2024-02-10", "2024-02-11"]


@pytest.mark.parametrize("date_format", [None, "%d/%m/%Y"])
def test_ha08_day_first_dates_are_read_so_throughout(date_format: str | None) -> None:
    found = panel("HA08.csv", 3, "D", csv=CsvFormat(date_format=date_format))
    iso = panel("HA08.iso.csv", 3, "D")
    assert grid(found, "till") == grid(iso, "till")
    assert len(grid(found, "till")) == 30, "no stamp outside 2024-03-05 to 2024-04-03"
    assert stamps(answer(found, 3), "till") == ["2024-04-04", "2024-04-05", "2024-04-06"]


def test_ha08_what_may_be_read_twice_is_refused_asking_for_the_format(tmp_path: Path) -> None:
    lines = (CASES / "HA08.csv").read_text().splitlines()
    (tmp_path / "short.csv").write_text("\n".join(lines[:6]))
    with pytest.raises(TableError, match="day first or month first; give the date format"):
        read_table(tmp_path / "short.csv")


@pytest.mark.parametrize("freq", ["D", None])
def test_ha09_short_series_neither_stop_nor_change_the_others(freq: str | None) -> None:
    table = read_table(CASES / "HA09.csv")
    found = panel(table, 4, freq)
    answered = answer(found, 4)
    expected = [f"2024-07-0{day}" for day in (1, 2, 3, 4)]
    for unique_id in ("two", "flat3", "five", "long"):
        assert stamps(answered, unique_id) == expected
    if freq:
        assert stamps(answered, "one") == expected
    else:
        assert "inferred from 1 row, 2 are needed; give the frequency" in reasons(found)["one"]
    alone = panel(table[table["unique_id"] == "long"], 4, freq)
    assert grid(found, "long") == grid(alone, "long")


def with_promo(future: str) -> Panel:
    columns = Columns(future_covariates=("promo",))
    return regularise(
        read_rows(read_table(CASES / "HA10.hist.csv"), columns),
        options=ForecastOptions(horizon=4),
        future=read_future_rows(read_table(CASES / future), columns),
        future_names=("promo",),
    )


def test_ha10_missing_and_blank_future_rows_are_named_and_extra_ones_never_used() -> None:
    found = with_promo("HA10.future_bad.csv")
    assert "(b, 2024-06-13) has no row" in reasons(found)["b"]
    assert "(a, 2024-06-12) has a blank 'promo'" in reasons(found)["a"]
    assert len(found.ids) == 0
    assert any("zz" in warning for warning in found.warnings)
    assert any("(a, 2024-06-15)" in warning for warning in found.warnings)


def test_ha10_the_order_of_future_rows_and_columns_does_not_matter() -> None:
    found, shuffled = with_promo("HA10.future_ok.csv"), with_promo("HA10.future_ok_shuffled.csv")
    assert found.horizon_covariates[:, :, 0].tolist() == [[0, 0, 0, 1], [0, 0, 0, 1]]
    np.testing.assert_array_equal(found.horizon_covariates, shuffled.horizon_covariates)
    assert (found.refusals, found.warnings) == ((), ())


def test_ha12_mark_semicolons_decimal_comma_and_crlf() -> None:
    found = panel("HA12.csv", 2, csv=CsvFormat(separator=";", decimal=","))
    plain = panel("HA12.plain.csv", 2)
    assert grid(found, "A") == grid(plain, "A")
    assert stamps(answer(found, 2), "A") == ["2024-01-31", "2024-02-01"]
    with pytest.raises(TableError, match=r"columns 'unique_id', 'ds', 'y' .* give decimal ','"):
        panel("HA12.csv", 2)
    with pytest.raises(TableError, match="columns 'unique_id;ds;y' when split at comma"):
        panel("HA12.csv", 2, csv=CsvFormat(separator=","))


DS = pd.date_range("2024-01-01", periods=30, freq="D")
VALUES = [20 + step % 7 for step in range(30)]
HA13_Y = [
    *(pd.Series(VALUES, dtype=dtype) for dtype in ("float64", "float32", "int64", "uint8")),
    *(pd.Series(VALUES, dtype=dtype) for dtype in ("Int64", "Float64", "object")),
    pd.Series([Decimal(value) for value in VALUES], dtype="object"),
]
HA13_IDS = [
    pd.Series(["b"] * 30, dtype="object"),
    pd.Series(["b"] * 30, dtype="str"),
    pd.Series(pd.Categorical(["b"] * 30, categories=["z", "b", "a"])),
    pd.Series([17] * 30),
]
HA13_DS = [DS, DS.strftime("%Y-%m-%d"), DS.to_period("D")]


@pytest.mark.parametrize(
    ("ids", "ds", "y"),
    [
        *(("b", DS, y) for y in HA13_Y),
        *((ids, DS, HA13_Y[0]) for ids in HA13_IDS),
        *(("b", ds, HA13_Y[0]) for ds in HA13_DS),
    ],
)
def test_ha13_types_at_the_door(ids: object, ds: object, y: pd.Series) -> None:
    df = pd.DataFrame({"unique_id": ids, "ds": ds, "y": y})
    found = panel(df, 3, "D")
    assert found.target.tolist() == VALUES
    table = answer(found, 3)
    assert stamps(table, df["unique_id"][0]) == ["2024-01-31", "2024-02-01", "2024-02-02"]
    assert table["unique_id"].tolist() == [df["unique_id"][0]] * 3
    assert (
        table["unique_id"].dtype == df["unique_id"].dtype or table["unique_id"].dtype == "category"
    )
    assert (table.dtypes.iloc[2:] == np.float64).all()


def test_ha13_text_and_truth_values_are_no_numbers() -> None:
    words = pd.Series([*map(str, VALUES[:-1]), "n/k"])
    with pytest.raises(TableError, match="'n/k' in row 30 is no number"):
        panel(pd.DataFrame({"unique_id": "b", "ds": DS, "y": words}), 3)
    truths = pd.Series([value > 22 for value in VALUES])
    with pytest.raises(TableError, match="truth values; it must hold numbers"):
        panel(pd.DataFrame({"unique_id": "b", "ds": DS, "y": truths}), 3)


@pytest.mark.parametrize(
    "case", json.loads((CASES / "HA14.json").read_text()), ids=lambda case: case["stored_freq"]
)
def test_ha14_old_frequency_names_step_as_the_new_ones(case: dict[str, object]) -> None:
    frequency = Frequency.parse(str(case["stored_freq"]))
    assert frequency == Frequency.parse(str(case["same_as"]))
    last = np.array([pd.Timestamp(str(case["last_ds"])).as_unit("ns").value])
    found = pd.DatetimeIndex(frequency.after(last, 2)[0].view("M8[ns]"))
    assert [str(stamp) for stamp in found] == case["next_two"]


def test_ha15_integer_time_goes_on_in_its_own_step() -> None:
    table = answer(panel("HA15.csv", 3), 3)
    assert table["ds"].dtype == np.int64
    assert table.groupby("unique_id")["ds"].apply(list).to_dict() == {
        "step5": [300, 305, 310],
        "from3": [43, 44, 45],
    }
