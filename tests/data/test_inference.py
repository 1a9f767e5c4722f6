"""Inference finds the frequency through gaps, says what is ambiguous, treats each series alone."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.calendars.calendar import Frequency
from foretell.data.calendars.inference import anchored, candidates, infer
from foretell.data.errors import FrequencyError

ALIASES = [
    *["ns", "us", "ms", "s", "min", "h", "15min", "90s", "36h", "D", "2D", "10D", "B", "2B", "3B"],
    *[
        "4B",
        "W-MON",
        "W-SUN",
        "2W-FRI",
        "ME",
        "MS",
        "BME",
        "BMS",
        "2MS",
        "QE-DEC",
        "QE-NOV",
        "QS-FEB",
        "BQE-DEC",
    ],
    *["YE-DEC", "YE-JUN", "YS-JAN", "BYE-DEC", "3YS-JAN"],
]


def ns(*stamps: str) -> np.ndarray:
    return pd.DatetimeIndex(stamps).as_unit("ns").asi8


def grid(alias: str, periods: int) -> np.ndarray:
    return pd.date_range("2001-01-02 03:04", periods=periods, freq=alias).as_unit("ns").asi8


@given(st.sampled_from(ALIASES), st.integers(30, 60), st.data())
def test_the_frequency_is_found_through_gaps(alias: str, rows: int, data: st.DataObject) -> None:
    """Real tables have holes; the commonest step is still one."""
    gaps = data.draw(st.sets(st.integers(1, rows - 2), max_size=rows // 8))
    stamps = np.delete(grid(alias, rows), sorted(gaps))
    assert infer(stamps, "naive") == Frequency.parse(alias)


@given(st.integers(1, 1000), st.integers(-(10**6), 10**6), st.integers(3, 30))
def test_integer_steps(step: int, start: int, rows: int) -> None:
    stamps = start + step * np.arange(rows)
    assert infer(stamps, "integer") == Frequency.parse(step)


@pytest.mark.parametrize(
    ("stamps", "alias"),
    [
        (("2024-06-29", "2024-06-30"), "D"),
        (("2024-01-31", "2024-02-29"), "ME"),
        (("2024-02-01", "2024-03-01"), "MS"),
        (("2024-01-31", "2024-04-30"), "QE-OCT"),
        (("2023-12-31", "2024-12-31"), "YE-DEC"),
        (("2024-01-01", "2024-01-08"), "W-MON"),
        (("2024-01-01 00:00", "2024-01-01 00:15"), "15min"),
        (("2024-03-29", "2024-04-30"), "BME"),
        (("2024-01-04", "2024-01-05", "2024-01-08"), "B"),
        (("2024-01-15", "2024-02-14"), "30D"),
        (("2024-01-03", "2024-01-05", "2024-01-09"), "2B"),
        (("2024-01-03", "2024-01-05", "2024-01-07"), "2D"),
    ],
)
def test_few_rows_suffice_where_they_say_enough(stamps: tuple[str, ...], alias: str) -> None:
    assert infer(ns(*stamps), "naive").alias == alias


@pytest.mark.parametrize(
    ("stamps", "match"),
    [
        (("2024-01-02", "2024-01-03"), "2 rows may step by 'D' or 'B'; give the frequency"),
        (("2024-01-05", "2024-01-08"), "may step by '3D' or 'B'"),
        (("2024-01-03", "2024-01-05"), "2 rows may step by '2D' or '2B'; give the frequency"),
        (("2024-01-05", "2024-01-09"), "may step by '4D' or '2B'"),
        (("2024-01-01", "2024-01-02", "2024-01-15", "2024-01-16"), "4 rows may step by 'D' or 'B'"),
        (("2024-01-02",), "can't be inferred from 1 row, 2 are needed"),
        ((), "can't be inferred from 0 rows"),
        (
            ("2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 02:00", "2024-01-01 02:30"),
            "step by 'h' most often, but 2024-01-01 02:30 is off that grid",
        ),
    ],
)
def test_what_rows_do_not_say_is_not_guessed(stamps: tuple[str, ...], match: str) -> None:
    with pytest.raises(FrequencyError, match=match):
        infer(ns(*stamps), "naive")


def test_weekdays_with_holidays_are_business_days_and_days_with_a_weekend_row_are_days() -> None:
    working = pd.date_range("2024-01-01", periods=30, freq="B").delete([4, 11])
    assert infer(working.as_unit("ns").asi8, "naive").alias == "B"
    with_saturday = working.union(pd.DatetimeIndex(["2024-01-20"]))
    assert infer(with_saturday.as_unit("ns").asi8, "naive").alias == "D"


def test_every_other_business_day_is_never_forecast_on_a_weekend() -> None:
    """All these rows lie on the grid of 2D too, whose next step is a Saturday."""
    stamps = pd.date_range("1999-11-29", periods=40, freq="2B").as_unit("ns").asi8
    assert infer(stamps, "naive").alias == "2B"
    with_sunday = np.sort(np.append(stamps, ns("1999-12-05")))
    assert infer(with_sunday, "naive").alias == "2D"


@pytest.mark.parametrize("alias", ["h", "D", "W-SUN", "ME", "B"])
def test_summer_time_hides_no_frequency(alias: str) -> None:
    """Local midnights are 23 or 25 hours apart twice a year, and hours skip a local hour."""
    stamps = pd.date_range("2024-03-01", periods=90, freq=alias, tz="Europe/Berlin")
    if alias == "h":
        stamps = pd.date_range("2024-03-30", periods=90, freq="h", tz="Europe/Berlin")
    assert infer(stamps.as_unit("ns").asi8, "zoned", "Europe/Berlin").alias == alias


def test_days_in_utc_of_local_midnights_are_off_grid_without_their_zone() -> None:
    stamps = (
        pd.date_range("2024-03-29", periods=20, freq="D", tz="Europe/Berlin").as_unit("ns").asi8
    )
    with pytest.raises(FrequencyError, match="off that grid"):
        infer(stamps, "zoned", "UTC")


series = st.lists(
    st.lists(st.integers(0, 60), min_size=0, max_size=12, unique=True).map(sorted),
    min_size=1,
    max_size=12,
)


@given(series, st.sampled_from(["naive", "integer"]), st.sampled_from([1, 24, 7 * 24]))
def test_each_series_is_judged_as_if_alone(steps: list[list[int]], kind: str, hours: int) -> None:
    """All series are inferred at once for speed; neighbours must not matter."""
    unit = 1 if kind == "integer" else hours * 3_600_000_000_000
    arrays = [np.array(part, dtype=np.int64) * unit for part in steps]
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in arrays])])
    together = candidates(np.concatenate(arrays), indptr, kind)
    alone = [candidates(part, np.array([0, len(part)]), kind)[0] for part in arrays]
    assert together == alone


@given(st.lists(st.integers(0, 500), min_size=2, max_size=30, unique=True).map(sorted))
def test_the_step_is_the_commonest_and_of_equals_the_smallest(steps: list[int]) -> None:
    counts = Counter(np.diff(steps).tolist())
    expected = min(step for step, count in counts.items() if count == max(counts.values()))
    found = candidates(np.array(steps), np.array([0, len(steps)]), "integer")[0]
    assert found == (Frequency.parse(expected),)


@pytest.mark.parametrize(
    ("model", "stamp", "alias"),
    [
        ("W", "2024-01-01", "W-MON"),
        ("ME", "2024-02-01", "MS"),
        ("MS", "2024-02-29", "ME"),
        ("ME", "2024-03-29", "BME"),
        ("BME", "2024-01-31", "BME"),
        ("BQS", "2024-07-01", "BQS-JAN"),
        ("QE", "2024-01-31", "QE-OCT"),
        ("YE", "2024-07-01", "YS-JUL"),
        ("ME", "2024-02-15", None),
        ("D", "2024-02-15 06:00", "D"),
        ("h", "2024-02-15 06:30", "h"),
        ("5", "2024-02-15", None),
    ],
)
def test_a_lone_row_takes_the_rhythm_of_the_model_at_its_own_anchor(
    model: str, stamp: str, alias: str | None
) -> None:
    (found,) = anchored(Frequency.parse(model), ns(stamp), np.array([0, 1]), "naive")
    assert (found and found.alias) == alias


@given(
    st.lists(
        st.lists(st.sampled_from(range(366)), min_size=1, max_size=3, unique=True).map(sorted)
        | st.sampled_from([[30, 59, 90], [30], [59, 89], [0, 31, 60], [88], [120, 151]]),
        max_size=9,
    ),
    st.sampled_from(["W-TUE", "ME", "BME", "BMS", "QE", "YS", "D", "h", "3"]),
    st.sampled_from([None, "Europe/Berlin"]),
)
def test_each_series_finds_its_anchor_as_if_alone(
    content: list[list[int]], model: str, zone: str | None
) -> None:
    days = pd.date_range("2024-01-01", periods=366, freq="D", tz=zone).as_unit("ns").asi8
    frequency, kind = Frequency.parse(model), "naive" if zone is None else "zoned"
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in content], dtype=np.int64)])
    stamps = days[np.array([day for part in content for day in part], dtype=np.int64)]
    alone = [
        anchored(frequency, days[part], np.array([0, len(part)]), kind, zone)[0] for part in content
    ]
    assert anchored(frequency, stamps, indptr, kind, zone) == alone
