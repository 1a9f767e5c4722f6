"""Time stamps at the door: dates of any type, ISO text and integer steps become int64; nothing is
guessed.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64

from foretell.data.errors import TableError
from foretell.data.values import RowProblem, row_name
from foretell.data.zones import StampKind, check_zone

_ISO = re.compile(
    r"\s*\d{4}([-/])\d{1,2}(\1\d{1,2}([T ]\d{2}(:?\d{2}(:?\d{2}(\.\d{1,9})?)?)?\s*"
    r"(?P<offset>Z|[+-]\d{2}(:?\d{2})?)?)?)?\s*"
)
_WHOLE = re.compile(r"\s*[+-]?\d{1,18}\s*")
_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_LAST_STAMP = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Stamps:
    """A typed time column.

    Attributes:
        values: Nanoseconds since 1970, or integer steps; 0 in rows with a problem.
        kind: What the values are.
        time_zone: Zone of the local clock where `kind` is "zoned", else None.
        problems: What is wrong in single rows: blank, no date, or out of range.
    """

    values: Int64[np.ndarray, " N"]
    kind: StampKind
    time_zone: str | None = None
    problems: list[RowProblem] = field(default_factory=list)


def read_stamps(column: pd.Series, time_zone: str | None = None) -> Stamps:
    """Read a time column: dates and times of any type, periods (their start), ISO 8601 text, or
    integer steps.

    Args:
        column: The column.
        time_zone: Zone of the local clock; None keeps the column's own, and UTC for text with
            offsets.

    Raises:
        TableError: The column's type or its text can't be understood, stamps with and without
            offset are mixed, or `time_zone` is given for stamps without zone or offset.
    """
    stamps = _read(column, None if time_zone is None else check_zone(time_zone))
    if time_zone is not None and stamps.kind != "zoned":
        what = "integers" if stamps.kind == "integer" else "stamps without zone or offset"
        raise TableError(
            f"time zone {time_zone!r} is given, but column {column.name!r} holds {what}; "
            "leave the time zone out, or write stamps with offsets."
        )
    return stamps


def _read(column: pd.Series, time_zone: str | None) -> Stamps:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _read(column.astype(dtype.categories.dtype), time_zone)
    if isinstance(dtype, pd.ArrowDtype):
        return _read(_from_arrow(column), time_zone)
    if isinstance(dtype, pd.PeriodDtype):
        return _read_dates(column, pd.DatetimeIndex(pd.PeriodIndex(column).start_time), None)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _read_dates(column, pd.DatetimeIndex(column), time_zone)
    if dtype.kind == "M":
        return _read_dates(column, pd.DatetimeIndex(column), time_zone)
    if dtype.kind in "iuf":
        return _read_whole(column)
    if isinstance(dtype, pd.StringDtype):
        return _read_text(column, time_zone)
    if dtype.kind == "O":
        return _read_objects(column, time_zone)
    raise TableError(
        f"time column {column.name!r} holds the type {dtype}; it must hold dates, ISO text or integer steps."
    )


def _from_arrow(column: pd.Series) -> pd.Series:
    plain = column.array.__arrow_array__().to_pandas(date_as_object=False)  # type: ignore[attr-defined]
    if plain.dtype == object:
        plain = plain.infer_objects()
    return pd.Series(plain.to_numpy() if plain.dtype.kind == "O" else plain.array, name=column.name)


def _read_dates(column: pd.Series, dates: pd.DatetimeIndex, time_zone: str | None) -> Stamps:
    kind: StampKind = "naive"
    zone = None
    if dates.tz is not None:
        kind = "zoned"
        zone = time_zone or check_zone(str(dates.tz))
    blank = dates.isna()
    values, beyond = _nanoseconds(dates)
    problems = _blank_problem(column, blank) + _beyond_problem(column, beyond)
    return Stamps(values, kind, zone, problems)


def _nanoseconds(
    dates: pd.DatetimeIndex,
) -> tuple[Int64[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """Return nanoseconds in UTC, 0 for blanks, and where they don't fit (before 1678 or after
    2261).
    """
    ticks = np.asarray(dates.asi8, dtype=np.int64)
    factor = _UNIT_NS[dates.unit]
    # A day is kept free at both ends, so that the local clock of any zone can be written too.
    limit = (_LAST_STAMP - 2 * 86_400_000_000_000) // factor
    blank = np.asarray(dates.isna())
    beyond = ~blank & ((ticks > limit) | (ticks < -limit))
    return np.where(blank | beyond, 0, ticks) * factor, beyond


def _read_whole(column: pd.Series) -> Stamps:
    blank = column.isna().to_numpy()
    values = column.to_numpy(dtype=np.float64, na_value=0) if blank.any() else column.to_numpy()
    if values.dtype.kind == "f":
        values = np.where(blank, 0, values)
        broken = np.flatnonzero((np.abs(values) > 2.0**53) | (values != np.floor(values)))
        if broken.size:
            row = int(broken[0])
            raise TableError(
                f"time column {column.name!r} holds {column.iloc[row]} in {row_name(row)}; "
                "steps must be whole numbers."
            )
    if values.dtype.kind == "u" and len(values) and values.max() > _LAST_STAMP:
        raise TableError(f"time column {column.name!r} holds integers past 2**63.")
    steps = values.astype(np.int64)
    _refuse_dates_as_integers(column, steps[~blank])
    return Stamps(steps, "integer", None, _blank_problem(column, blank))


def _refuse_dates_as_integers(column: pd.Series, steps: Int64[np.ndarray, " m"]) -> None:
    """Refuse integers that all read as YYYYMMDD, or as YYYYMM over several years: dates or steps,
    who knows?
    """
    if not len(steps) or steps.min() < 190001 or steps.max() > 21991231:
        return
    form = "%Y%m%d" if steps.min() >= 19000101 else "%Y%m"
    days = steps if form == "%Y%m%d" else steps * 100 + 1
    if days.max() > 21991231:
        return
    distinct = np.unique(days)
    if form == "%Y%m" and distinct[0] // 10000 == distinct[-1] // 10000:
        return
    if pd.to_datetime(distinct.astype(str), format="%Y%m%d", errors="coerce").isna().any():
        return
    raise TableError(
        f"time column {column.name!r} holds integers such as {steps[0]}, which may be dates or steps. For dates give "
        f"the date format {form!r} (or convert with pd.to_datetime); for steps count from a smaller number."
    )


def _read_objects(column: pd.Series, time_zone: str | None) -> Stamps:
    found = pd.api.types.infer_dtype(column, skipna=True)
    if found == "string":
        return _read_text(column, time_zone)
    if found == "integer":
        return _read_whole(column.astype("Int64"))
    if found == "period":
        return _read(column.astype(_period_dtype(column)), time_zone)
    if found in {"date", "datetime", "datetime64"}:
        present = column.dropna()
        aware = {getattr(moment, "tzinfo", None) is not None for moment in present}
        if aware == {True, False}:
            raise TableError(_mixed_offsets(column))
        zones = {str(moment.tzinfo) for moment in present} if aware == {True} else set()
        dates = pd.DatetimeIndex(pd.to_datetime(column, utc=bool(zones)))
        if len(zones) == 1 and time_zone is None:
            dates = dates.tz_convert(check_zone(zones.pop()))
        return _read_dates(column, dates, time_zone)
    if found == "empty":
        return Stamps(
            np.zeros(len(column), dtype=np.int64),
            "naive",
            None,
            _blank_problem(column, column.isna().to_numpy()),
        )
    types = sorted({type(value).__name__ for value in column.dropna()})
    raise TableError(
        f"time column {column.name!r} holds {', '.join(types)}; it must hold dates, ISO text or integer steps alone."
    )


def _period_dtype(column: pd.Series) -> pd.PeriodDtype:
    return pd.PeriodDtype(column.dropna().iloc[0].freq)


def _read_text(column: pd.Series, time_zone: str | None) -> Stamps:
    codes, distinct = pd.factorize(column)
    texts = [str(text) for text in distinct]
    filled = [text for text in texts if text.strip()]
    if filled and all(_WHOLE.fullmatch(text) for text in filled):
        whole = pd.array([int(text) if text.strip() else None for text in texts] + [None], "Int64")
        return _read_whole(pd.Series(whole[codes], name=column.name))
    matches = [_ISO.fullmatch(text) for text in texts]
    if filled and not any(matches):
        raise TableError(
            f"time column {column.name!r} holds {filled[0]!r}, which is no ISO date such as 2024-03-05 or "
            "2024-03-05T13:00; give the date format, such as '%d/%m/%Y' (or convert with pd.to_datetime)."
        )
    offsets = {match["offset"] is not None for match in matches if match}
    if len(offsets) == 2:
        raise TableError(_mixed_offsets(column))
    iso = [text.strip() if match else None for text, match in zip(texts, matches, strict=True)]
    dates = pd.DatetimeIndex(
        pd.to_datetime([*iso, None], format="ISO8601", errors="coerce", utc=offsets == {True})
    )
    values, beyond = _nanoseconds(dates)
    blank = np.array([not text.strip() for text in texts] + [True])
    wrong = np.asarray(dates.isna()) & ~blank
    problems = _blank_problem(column, blank[codes]) + _beyond_problem(column, beyond[codes])
    if wrong.any():
        problems.append(_wrong_text(column, np.flatnonzero(wrong[codes])))
    kind: StampKind = "zoned" if offsets == {True} else "naive"
    return Stamps(
        values[codes], kind, (time_zone or "UTC") if offsets == {True} else None, problems
    )


def _mixed_offsets(column: pd.Series) -> str:
    return (
        f"time column {column.name!r} holds stamps with and without zone or offset; "
        "write all of them with an offset, or none."
    )


def _blank_problem(column: pd.Series, blank: Bool[np.ndarray, " N"]) -> list[RowProblem]:
    rows = np.flatnonzero(blank)
    if not rows.size:
        return []
    return [
        RowProblem(
            rows,
            lambda row: f"{column.name!r} is blank in {row_name(row)}; every row needs a stamp.",
        )
    ]


def _beyond_problem(column: pd.Series, beyond: Bool[np.ndarray, " N"]) -> list[RowProblem]:
    rows = np.flatnonzero(beyond)
    if not rows.size:
        return []
    return [
        RowProblem(
            rows,
            lambda row: (
                f"{column.name!r} is {column.iloc[row]} in {row_name(row)}; "
                "stamps must lie between 1678 and 2261."
            ),
        )
    ]


def _wrong_text(column: pd.Series, rows: Int64[np.ndarray, " k"]) -> RowProblem:
    return RowProblem(
        rows,
        lambda row: (
            f"{column.name!r} is {column.iloc[row]!r} in {row_name(row)}, which is no ISO date; "
            "write dates such as 2024-03-05 or 2024-03-05T13:00."
        ),
    )
