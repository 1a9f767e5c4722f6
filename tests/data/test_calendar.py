"""Frequencies: names old and new, and grids that pandas' own offsets confirm step by step."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.calendars.aliases import CLOCK_NS, MONTHS, WEEKDAYS
from foretell.data.calendars.calendar import Frequency
from foretell.data.calendars.zones import DAY_NS, from_wall, skipped_days
from foretell.data.errors import FrequencyError, OptionError

CLOCK = ["ns", "us", "ms", "s", "min", "h", "15min", "3h", "90s"]
CALENDAR = [
    *["D", "3D", "B", "W-SUN", "W-MON", "W-THU", "2W-WED", "ME", "MS", "BME", "BMS", "2ME", "5MS"],
    *["QE-DEC", "QE-JAN", "QS-JAN", "QS-MAR", "BQE-NOV", "BQS-FEB"],
    *["YE-DEC", "YE-JUN", "YS-JAN", "YS-OCT", "BYE-MAR", "BYS-APR", "2YE-DEC"],
]
frequencies = st.sampled_from(CLOCK + CALENDAR)
days = st.dates(pd.Timestamp("1970-01-01").date(), pd.Timestamp("2100-01-01").date())


def ns(*stamps: str) -> np.ndarray:
    return pd.DatetimeIndex(stamps).as_unit("ns").asi8


def after(freq: str, last: str, horizon: int, zone: str | None = None) -> list[str]:
    moment = pd.Timestamp(last, tz=zone)
    start = np.array([moment.as_unit("ns").value])
    stamps = Frequency.parse(freq).after(start, horizon, zone)[0]
    index = pd.DatetimeIndex(stamps.view("M8[ns]"))
    return [str(stamp) for stamp in (index.tz_localize("UTC").tz_convert(zone) if zone else index)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *[("H", "h"), ("T", "min"), ("S", "s"), ("L", "ms"), ("U", "us"), ("N", "ns")],
        *[("M", "ME"), ("BM", "BME"), ("Q", "QE-DEC"), ("BQ", "BQE-DEC"), ("A", "YE-DEC")],
        *[("Y", "YE-DEC"), ("BA-MAR", "BYE-MAR"), ("AS", "YS-JAN"), ("BAS-JUN", "BYS-JUN")],
        *[("A-JUN", "YE-JUN"), ("Q-MAR", "QE-DEC"), ("w-mon", "W-MON"), ("d", "D"), ("2H", "2h")],
    ],
)
def test_old_names_are_read_as_the_new_ones(old: str, new: str) -> None:
    assert Frequency.parse(old).alias == new


def test_months_and_minutes_and_milliseconds_are_told_apart() -> None:
    assert Frequency.parse("MS").unit == "MS"
    assert Frequency.parse("ms").unit == "ms"
    assert Frequency.parse("M").unit == "ME"
    with pytest.raises(FrequencyError, match="may be minutes or months"):
        Frequency.parse("m")


@given(frequencies)
def test_an_alias_reads_back_as_the_same_frequency(text: str) -> None:
    frequency = Frequency.parse(text)
    assert Frequency.parse(frequency.alias) == frequency
    assert Frequency.parse(frequency) is frequency
    assert hash(Frequency.parse(frequency.alias)) == hash(frequency)


@given(st.integers(1, 10**15))
def test_integers_are_plain_steps(step: int) -> None:
    for text in (step, str(step)):
        frequency = Frequency.parse(text)
        assert frequency.is_integer
        assert frequency.alias == str(step)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("fortnight", "'fortnight' is unknown; give .*15min"),
        ("", "unknown"),
        (" ", "unknown"),
        *[(text, "unknown") for text in ("\U0001d7d9h", "\u0661", "QE-JAN\n", "1\u2003h", "\th")],
        pytest.param(" " * 5000 + "0", r"'\s{32}\.\.\.' is unknown", id="long spaces"),
        (True, "'True' is unknown"),
        pytest.param("9" * 5000, r"'9{32}\.\.\.' is unknown", id="long text"),
        pytest.param("9" * 5000 + "h", "is unknown", id="many hours"),
        ("9" * 20 + "h", "at most 100 years"),
        pytest.param(10**5000, "a number of thousands of digits", id="long integer"),
        ("-5", "unknown"),
        ("0", "multiple 0; a step must be at least 1"),
        ("0h", "multiple 0"),
        ("200YE", "at most 100 years"),
        ("1.5h", "unknown"),
        ("integer", "unknown"),
        ("W-FOO", "anchored to 'FOO'; give one of MON"),
        ("QE-MON", "anchored to 'MON'; give one of JAN"),
        ("D-MON", "only weeks, quarters and years have one. Give 'D'"),
        ("ME-DEC", "only weeks"),
    ],
)
def test_unknown_names_are_refused_and_the_known_ones_listed(text: str | bool, match: str) -> None:
    with pytest.raises(FrequencyError, match=match):
        Frequency.parse(text)


@given(frequencies, days, st.integers(1, 30))
def test_steps_are_those_of_pandas(text: str, day: object, horizon: int) -> None:
    """pandas walks one offset at a time; a closed form that disagrees anywhere is wrong."""
    offset = pd.tseries.frequencies.to_offset(text)
    one = pd.tseries.frequencies.to_offset(text.lstrip("0123456789"))
    start = one.rollforward(pd.Timestamp(day))
    walked = [start + (step + 1) * offset for step in range(horizon)]
    assert after(text, str(start), horizon) == [str(stamp) for stamp in walked]


@given(frequencies, days, st.integers(1, 40))
def test_positions_count_back_the_steps(text: str, day: object, horizon: int) -> None:
    frequency = Frequency.parse(text)
    start = pd.tseries.frequencies.to_offset(text.lstrip("0123456789")).rollforward(
        pd.Timestamp(day)
    )
    last = np.array([start.as_unit("ns").value])
    stamps = frequency.after(last, horizon)[0]
    positions, on_grid = frequency.positions(stamps, last, np.zeros(horizon, dtype=np.int64))
    assert on_grid.all()
    np.testing.assert_array_equal(positions, np.arange(1, horizon + 1))
    back, on_grid = frequency.positions(last, stamps[-1:], np.zeros(1, dtype=np.int64))
    assert on_grid.all()
    assert back[0] == -horizon


@pytest.mark.parametrize("text", CALENDAR)
def test_a_day_is_on_the_grid_where_pandas_says_so(text: str) -> None:
    unit = text.lstrip("0123456789")
    every_day = pd.date_range("2023-01-01", "2025-06-01", freq="D").as_unit("ns")
    offset = pd.tseries.frequencies.to_offset(unit)
    expected = np.array([offset.is_on_offset(day) for day in every_day])
    origin = every_day[expected].asi8[:1]
    _, on_grid = Frequency.parse(unit).positions(
        every_day.asi8, origin, np.zeros(len(every_day), dtype=np.int64)
    )
    np.testing.assert_array_equal(on_grid, expected)


@pytest.mark.parametrize(
    ("text", "stamps", "expected"),
    [
        ("h", ("2024-01-01 00:30", "2024-01-01 02:30", "2024-01-01 02:00"), [True, True, False]),
        ("2h", ("2024-01-01 00:00", "2024-01-01 02:00", "2024-01-01 03:00"), [True, True, False]),
        ("D", ("2024-01-01 06:00", "2024-01-03 06:00", "2024-01-03 07:00"), [True, True, False]),
        ("2D", ("2024-01-01", "2024-01-05", "2024-01-06"), [True, True, False]),
        ("2ME", ("2024-01-31", "2024-03-31", "2024-04-30"), [True, True, False]),
    ],
)
def test_multiples_and_times_of_day_count_from_the_origin(
    text: str, stamps: tuple[str, ...], expected: list[bool]
) -> None:
    values = ns(*stamps)
    _, on_grid = Frequency.parse(text).positions(values, values[:1], np.zeros(3, dtype=np.int64))
    assert on_grid.tolist() == expected


def test_days_keep_their_local_time_over_the_change_and_hours_count_instants() -> None:
    assert after("D", "2024-03-30 09:00", 2, "Europe/Berlin") == [
        "2024-03-31 09:00:00+02:00",
        "2024-04-01 09:00:00+02:00",
    ]
    assert after("24h", "2024-03-30 09:00", 1, "Europe/Berlin") == ["2024-03-31 10:00:00+02:00"]
    assert after("h", "2024-03-31 01:00", 2, "Europe/Berlin") == [
        "2024-03-31 03:00:00+02:00",
        "2024-03-31 04:00:00+02:00",
    ]
    assert after("ME", "2024-02-29", 1, "America/New_York") == ["2024-03-31 00:00:00-04:00"]


def test_a_skipped_time_is_the_first_after_the_skip_and_a_repeated_one_the_first() -> None:
    assert after("D", "2024-03-30 02:30", 2, "Europe/Berlin") == [
        "2024-03-31 03:00:00+02:00",
        "2024-04-01 02:30:00+02:00",
    ]
    assert after("D", "2024-10-26 02:30", 1, "Europe/Berlin") == ["2024-10-27 02:30:00+02:00"]


def test_a_zone_that_skips_midnight_does_not_move_a_daily_series() -> None:
    """In Cairo, 2024-04-26 began at 01:00; the days after it begin at midnight again."""
    last = np.array([pd.Timestamp("2024-04-26 01:00", tz="Africa/Cairo").as_unit("ns").value])
    stamps = Frequency.parse("D").after(last, 1, "Africa/Cairo")
    expected = pd.Timestamp("2024-04-27 00:00", tz="Africa/Cairo").as_unit("ns").value
    assert stamps.tolist() == [[expected]]
    _, on_grid = Frequency.parse("D").positions(
        np.array([last[0], expected]), last, np.zeros(2, dtype=np.int64), "Africa/Cairo"
    )
    assert on_grid.all()


@pytest.mark.parametrize(
    ("text", "last", "expected"),
    [
        ("D", "2011-12-28 00:00", ["12-29T00", "12-31T00", "01-01T00", "01-02T00"]),
        ("D", "2011-12-28 09:00", ["12-29T09", "12-31T09", "01-01T09", "01-02T09"]),
        ("B", "2011-12-28 09:00", ["12-29T09", "01-02T09", "01-03T09", "01-04T09"]),
        ("2D", "2011-12-28 09:00", ["12-31T00", "01-01T09", "01-03T09", "01-05T09"]),
        ("W-FRI", "2011-12-23 09:00", ["12-31T00", "01-06T09", "01-13T09", "01-20T09"]),
    ],
)
def test_a_day_that_a_zone_skips_is_no_step(text: str, last: str, expected: list[str]) -> None:
    """Samoa had no 30 December 2011: a row of that day would have another's stamp or an earlier.

    Where a longer step ends on it, the step ends with the next day, and stamps rise all the same.
    """
    zone, frequency = "Pacific/Apia", Frequency.parse(text)
    start = np.array([pd.Timestamp(last, tz=zone).as_unit("ns").value])
    stamps = frequency.after(start, 4, zone)[0]
    local = pd.DatetimeIndex(stamps.view("M8[ns]")).tz_localize("UTC").tz_convert(zone)
    assert local.strftime("%m-%dT%H").tolist() == expected
    if frequency.multiple == 1 and text != "W-FRI":
        steps, on_grid = frequency.positions(stamps, start, np.zeros(4, dtype=np.int64), zone)
        assert (steps.tolist(), on_grid.all()) == ([1, 2, 3, 4], True)


@given(st.sampled_from(["Pacific/Apia", "Pacific/Kwajalein", "Asia/Manila"]), st.data())
def test_stamps_rise_over_the_date_line(zone: str, data: st.DataObject) -> None:
    (skipped,) = skipped_days(zone)
    hour = data.draw(st.integers(0, 23))
    start = data.draw(st.integers(1, 9))
    text = data.draw(st.sampled_from(["D", "B", "2D", "3D", "W-FRI", "W-SAT", "2B", "ME", "QE"]))
    wall = np.array([(skipped - start) * DAY_NS + hour * CLOCK_NS["h"]])
    last = from_wall(wall, zone)
    stamps = Frequency.parse(text).after(last, 20, zone)[0]
    assert (np.diff(np.concatenate([last, stamps])) > 0).all()


@given(st.lists(days, min_size=1, max_size=20), st.sampled_from(["D", "ME", "h", "B"]))
def test_many_series_step_as_each_alone(starts: list[object], text: str) -> None:
    frequency = Frequency.parse(text)
    offset = pd.tseries.frequencies.to_offset(text)
    last = np.array([offset.rollforward(pd.Timestamp(day)).as_unit("ns").value for day in starts])
    together = frequency.after(last, 3, "Europe/Berlin")
    alone = [
        frequency.after(last[place : place + 1], 3, "Europe/Berlin") for place in range(len(last))
    ]
    np.testing.assert_array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize(
    ("text", "season"),
    [
        *[
            ("h", 24),
            ("2h", 12),
            ("5h", 1),
            ("min", 1440),
            ("15min", 96),
            ("s", 3600),
            ("10s", 360),
        ],
        *[("ms", 1000), ("ns", 10**9), ("D", 7), ("2D", 1), ("7D", 52), ("B", 5), ("W-MON", 52)],
        *[("2W-MON", 26), ("ME", 12), ("MS", 12), ("2ME", 6), ("QE", 4), ("BQS", 4), ("YE", 1)],
        *[("24h", 7), ("1", 1), ("5", 1)],
    ],
)
def test_the_season_is_the_documented_one(text: str, season: int) -> None:
    assert Frequency.parse(text).season_length == season


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        *[("ME", "MS", True), ("ME", "BMS", True), ("QE", "3MS", True), ("YE", "4QS", True)],
        *[("W-SUN", "W-MON", True), ("7D", "W", True), ("60min", "h", True), ("24h", "D", True)],
        *[("1", "5", True), ("D", "B", False), ("h", "D", False), ("ME", "W", False)],
        *[("1", "D", False), ("ME", "QE", False), ("2h", "h", False)],
    ],
)
def test_rhythm_is_length_without_anchor(left: str, right: str, same: bool) -> None:
    assert Frequency.parse(left).same_rhythm(Frequency.parse(right)) is same


def test_quarters_have_one_name_a_grid() -> None:
    """Equality decides what is grouped and compared; two names for one grid would split it."""
    assert len({Frequency.parse(f"QE-{month}") for month in MONTHS}) == 3
    assert len({Frequency.parse(f"QS-{month}") for month in MONTHS}) == 3
    assert len({Frequency.parse(f"W-{day}") for day in WEEKDAYS}) == 7
    assert len({Frequency.parse(f"YE-{month}") for month in MONTHS}) == 12


def test_a_horizon_past_the_last_stamp_is_refused() -> None:
    yearly, last = Frequency.parse("YE"), ns("2023-12-31")
    assert yearly.after(last, 100).shape == (1, 100)
    with pytest.raises(OptionError, match="100000 steps of 'YE-DEC' lead past the last stamp"):
        yearly.after(last, 100_000)
    step = Frequency.parse(10)
    assert step.reaches(np.array([0, 2**62]), 10).all()
    assert not step.reaches(np.array([2**63 - 50]), 10).any()


@pytest.mark.parametrize("unit", ["5", "2min", "2D", "2B", "2W-WED", "2ME", "2QS-FEB", "2BYE-MAR"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Pacific/Apia"])
@settings(max_examples=30)
@given(data=st.data())
def test_many_multiples_at_once_step_as_each_does_alone(
    unit: str, zone: str | None, data: st.DataObject
) -> None:
    frequency = Frequency.parse(unit)
    zone = None if frequency.is_integer else zone
    largest = 10**12 if frequency.is_integer else 25
    multiples = data.draw(st.lists(st.integers(2, largest), min_size=1, max_size=5))
    each = [replace(frequency, multiple=multiple) for multiple in multiples]
    starts = st.integers(0, 2 * 10**18)
    last = np.array([data.draw(starts) for _ in multiples])
    horizon = data.draw(st.sampled_from([1, 3, 1000]))
    together = np.array(multiples)

    reached = frequency.reaches(last, horizon, multiples=together)
    alone = [one.reaches(last[i : i + 1], horizon)[0] for i, one in enumerate(each)]
    assert reached.tolist() == alone
    if not reached.all():
        with pytest.raises(OptionError, match="lead past the last stamp"):
            frequency.after(last, horizon, zone, multiples=together)
        return
    found = frequency.after(last, horizon, zone, multiples=together)
    for i, one in enumerate(each):
        np.testing.assert_array_equal(found[i : i + 1], one.after(last[i : i + 1], horizon, zone))

    stamps = np.concatenate([found.ravel(), found.ravel() + DAY_NS])
    owners = np.tile(np.repeat(np.arange(len(each)), horizon), 2)
    steps, on_grid = frequency.positions(stamps, last, owners, zone, multiples=together)
    for i, one in enumerate(each):
        mine = owners == i
        nobody = np.zeros(mine.sum(), dtype=np.int64)
        expected = one.positions(stamps[mine], last[i : i + 1], nobody, zone)
        np.testing.assert_array_equal((steps[mine], on_grid[mine]), expected)
