"""Time columns: one moment in any type is one stamp; what may be two things is refused."""

import datetime as dt
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.calendars import zones
from foretell.data.calendars.zones import describe_stamp, from_wall, split_days, to_wall
from foretell.data.errors import TableError
from foretell.data.series.stamps import read_stamps

DAYS = pd.DatetimeIndex(["2024-01-31", "2024-02-01", "2024-02-02"])
EXPECTED = DAYS.as_unit("ns").asi8.tolist()


def column(values: object, dtype: object = None) -> pd.Series:
    return pd.Series(values, dtype=dtype, name="ds")


@pytest.mark.parametrize(
    "values",
    [
        *(column(DAYS.as_unit(unit)) for unit in ("s", "ms", "us", "ns")),
        column(DAYS.to_period("D")),
        column(list(DAYS.to_period("D")), object),
        column(DAYS.strftime("%Y-%m-%d")),
        column(DAYS.strftime("%Y-%m-%d").astype(object), object),
        column(DAYS.strftime(" %Y/%m/%d ")),
        column(DAYS.strftime("%Y-%m-%dT%H:%M:%S")),
        column(DAYS.strftime("%Y-%m-%d"), "category"),
        column(list(DAYS.date), object),
        column(list(DAYS.to_pydatetime()), object),
        column(list(DAYS), object),
        column(list(DAYS.date), pd.ArrowDtype(pa.date32())),
        column(DAYS, pd.ArrowDtype(pa.timestamp("us"))),
        column(DAYS.strftime("%Y-%m-%d"), "string[pyarrow]"),
        column(DAYS.strftime("%Y-%m-%d"), pd.ArrowDtype(pa.string())),
    ],
    ids=lambda values: str(values.dtype),
)
def test_dates_of_any_type_are_the_same_stamps(values: pd.Series) -> None:
    stamps = read_stamps(values)
    assert stamps.values.tolist() == EXPECTED
    assert (stamps.kind, stamps.time_zone, stamps.problems) == ("naive", None, [])


BERLIN = pd.date_range("2024-03-31 01:00", periods=3, freq="h", tz="Europe/Berlin").as_unit("ns")


@pytest.mark.parametrize(
    ("values", "zone"),
    [
        (column(BERLIN), "Europe/Berlin"),
        (column(BERLIN.tz_convert("UTC")), "UTC"),
        (column([stamp.isoformat() for stamp in BERLIN]), "UTC"),
        (column([stamp.isoformat().replace("T", " ") for stamp in BERLIN]), "UTC"),
        (column(list(BERLIN), object), "Europe/Berlin"),
        (column(["2024-03-31T00Z", "2024-03-31 01:00Z", "2024-03-31T02:00:00.0+0000"]), "UTC"),
        (column(BERLIN, pd.ArrowDtype(pa.timestamp("ns", "Europe/Berlin"))), "Europe/Berlin"),
    ],
    ids=str,
)
def test_instants_are_utc_and_keep_their_zone(values: pd.Series, zone: str) -> None:
    """A column with two offsets, as summer time makes, is one clock and no error."""
    stamps = read_stamps(values)
    assert stamps.values.tolist() == BERLIN.asi8.tolist()
    assert (stamps.kind, stamps.time_zone) == ("zoned", zone)
    assert read_stamps(values, "Asia/Tokyo").time_zone == "Asia/Tokyo"


@pytest.mark.parametrize(
    "values",
    [
        *(column([3, 4, -5], dtype) for dtype in ("int8", "int64", "Int32", "object", "float64")),
        column(["3", " 4", "-5"]),
        column(["+000000000000000003", "4", "-5"]),
        column([3, 4, -5], "int16[pyarrow]"),
    ],
    ids=lambda values: str(values.dtype),
)
def test_integer_steps_of_any_type(values: pd.Series) -> None:
    stamps = read_stamps(values)
    assert (stamps.values.tolist(), stamps.kind) == ([3, 4, -5], "integer")


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (["05/03/2024", "06/03/2024"], "holds '05/03/2024', which is no ISO date.*'%d/%m/%Y'"),
        (["now", "today"], "holds 'now', which is no ISO date"),
        (["0", "1", "x"], "holds 'x', which is no ISO date"),
        (["0", "1", "9" * 19], "holds '9{19}' in row 3; steps must be whole numbers within"),
        (["0", "-" + "9" * 5000], r"holds '-9{78}\.\.\. in row 2; steps must be whole"),
        ([1, Decimal("sNaN")], "holds int, str; it must hold dates"),
        ([5, 10**5000], "holds a number of thousands of digits in row 2"),
        ([20240105, 20240106], "may be dates or steps. For dates give the date format '%Y%m%d'"),
        (["20240105", "20240106"], "may be dates or steps"),
        ([202311, 202312, 202401], "'%Y%m'"),
        ([1.5, 2.5], "holds 1.5 in row 1; steps must be whole"),
        ([10**30, 5], "holds 1000000000000000000000000000000 in row 1"),
        ([2**63 - 1, 5], "within ±2\\*\\*61"),
        ([True, False], "holds the type bool"),
        (["2024-01-01", dt.date(2024, 1, 2)], "holds date, str; it must hold dates, ISO text"),
        (["2024-01-01T00:00", "2024-01-01T00:00Z"], "with and without zone or offset"),
        ([pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-01", tz="UTC")], "with and without"),
        ([pd.Timedelta("1D")] * 2, "timedelta"),
    ],
)
def test_what_may_be_two_things_or_none_is_refused(values: list[object], match: str) -> None:
    with pytest.raises(TableError, match=match):
        read_stamps(column(values))


@pytest.mark.parametrize(
    "values", [[1990, 1991, 1992], [200001, 200013], [202401, 202402], [2024013, 2024014], [5, 10]]
)
def test_integers_that_are_no_dates_are_steps(values: list[int]) -> None:
    assert read_stamps(column(values)).kind == "integer"


@pytest.mark.parametrize(
    ("values", "zone", "match"),
    [
        (DAYS, "Europe/Berlin", "'Europe/Berlin' is given, but column 'ds' holds stamps without"),
        ([1, 2, 3], "UTC", "holds integers"),
        (BERLIN, "Europe/Berlni", "'Europe/Berlni' is no time zone; give a name such as"),
        (BERLIN, "", "is no time zone"),
        (BERLIN, "../etc/passwd", "is no time zone"),
    ],
)
def test_a_time_zone_must_exist_and_apply(values: object, zone: str, match: str) -> None:
    with pytest.raises(TableError, match=match):
        read_stamps(column(values), zone)


@pytest.mark.parametrize(
    "name",
    [
        *["dateutil//etc/passwd", "dateutil/Europe/Berlin", "/etc/localtime", "tzlocal()", "a\0"],
        *["localtime", "posixrules", "Factory", "right/UTC", "posix/Europe/Berlin", "Localtime"],
    ],
)
def test_a_name_that_is_no_zone_never_reaches_pandas(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Names come from clients: pandas would open the file, and localtime is the server's clock."""
    monkeypatch.setitem(sys.modules, "pandas", None)  # every import of it raises
    with pytest.raises(TableError, match="is no time zone"):
        zones.check_zone(name)


@pytest.mark.parametrize(
    ("values", "sentences"),
    [
        (
            ["2024-01-01", "2024-02-30", "5 May", "", "9999-12-31"],
            {
                3: "'ds' is blank in row 4; every row needs a stamp.",
                4: "'ds' is '9999-12-31' in row 5; stamps must lie between 1678 and 2261.",
                1: "'ds' is '2024-02-30' in row 2, which is no ISO date",
                2: "'ds' is '5 May' in row 3, which is no ISO date",
            },
        ),
        ([DAYS[0], None, DAYS[1]], {1: "blank in row 2"}),
        ([1, None, 2], {1: "blank in row 2"}),
        (pd.Categorical([1, None, 2]), {1: "blank in row 2"}),
        ([None, None], {0: "blank in row 1", 1: "blank in row 2"}),
        (np.array(["2024-01-01", "1500-01-01"], "M8[s]"), {1: "between 1678 and 2261"}),
        (np.array(["2024-01-01", "2262-04-11"], "M8[ns]"), {1: "between 1678 and"}),
    ],
)
def test_one_bad_stamp_is_a_problem_of_its_row(
    values: list[object], sentences: dict[int, str]
) -> None:
    found = {
        row: problem.describe(row)
        for problem in read_stamps(column(values)).problems
        for row in problem.rows.tolist()
    }
    assert found.keys() == sentences.keys()
    assert all(sentence in found[row] for row, sentence in sentences.items())


@given(st.integers(-(2**62), 2**62), st.sampled_from(["UTC", "Europe/Berlin", "Africa/Cairo"]))
def test_the_clock_reads_back_as_the_instant(stamp: int, zone: str) -> None:
    """Where a time is shown twice, the first instant is meant: an hour or so earlier."""
    stamps = np.array([stamp])
    back = from_wall(to_wall(stamps, zone), zone)
    assert 0 <= stamps[0] - back[0] <= 3 * 3_600_000_000_000
    days, time_of_day = split_days(stamps, zone)
    assert 0 <= time_of_day[0] < 86_400_000_000_000
    assert days[0] == to_wall(stamps, zone)[0] // 86_400_000_000_000


@pytest.mark.parametrize(
    ("stamp", "kind", "zone", "text"),
    [
        ("2024-05-10", "naive", None, "2024-05-10"),
        ("2024-05-10 13:00", "naive", None, "2024-05-10 13:00"),
        ("2024-05-10 13:00:01", "naive", None, "2024-05-10 13:00:01"),
        ("2024-05-10 13:00:01.5", "naive", None, "2024-05-10 13:00:01.500000"),
        ("2024-05-10 22:00", "zoned", "Europe/Berlin", "2024-05-11 00:00+02:00"),
        (42, "integer", None, "42"),
    ],
)
def test_stamps_are_written_short_and_exact(
    stamp: str | int, kind: str, zone: str | None, text: str
) -> None:
    value = stamp if kind == "integer" else pd.Timestamp(stamp).as_unit("ns").value
    assert describe_stamp(value, kind, zone) == text


@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "str"])
def test_large_steps_beside_blanks_keep_their_last_digit(dtype: str) -> None:
    """Floats hold no 2**53 + 1; the row would silently become another step."""
    column = pd.Series([2**53 + 1, None], dtype="Int64", name="ds")
    column = column.astype(dtype) if dtype != "str" else column.astype(object).map(str)
    column[1] = None
    stamps = read_stamps(column)
    assert stamps.values.tolist() == [2**53 + 1, 0]
    assert stamps.problems[0].rows.tolist() == [1]


def test_a_float_that_may_be_the_neighbour_of_a_step_is_refused() -> None:
    with pytest.raises(TableError, match=r"9007199254740992.* within ±2\*\*53"):
        read_stamps(pd.Series([1.0, 2.0**53], name="ds"))
