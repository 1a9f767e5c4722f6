"""Time stamps at the door: dates, ISO text and integer steps become int64, nothing is guessed.

A column whose type can't hold stamps is refused as a whole; a blank, wrong or far-off stamp is a
problem of its row alone.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64

from foretell.data.calendars.zones import DAY_NS, StampKind, check_zone
from foretell.data.errors import TableError
from foretell.data.series.file_rows import row_of
from foretell.data.series.values import (
    RowProblem,
    cell,
    shown,
    without_categories,
    without_signals,
)

# Years and months in full, with - or /, and as much of the time and offset as there is.
ISO = re.compile(
    r"\d{4}([-/])\d{1,2}(\1\d{1,2}([T ]\d{2}(:?\d{2}(:?\d{2}(\.\d{1,9})?)?)?\s*"
    r"(?P<offset>Z|[+-]\d{2}(:?\d{2})?)?)?)?"
)
WHOLE = re.compile(r"[+-]?\d+")
_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
# Two days are kept free at both ends, so that the local clock of any zone can be written too.
_LAST_NS = 2**63 - 1 - 2 * DAY_NS
# Differences of steps must not overflow.
LAST_STEP = 2**61
LAST_FLOAT_STEP = 2**53


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


def read_stamps(
    column: pd.Series, time_zone: str | None = None, *, settled: StampKind | None = None
) -> Stamps:
    """Read a column of dates and times, periods (their start), ISO 8601 text, or integer steps.

    Args:
        column: The column.
        time_zone: Zone of the local clock; None keeps the column's own, and UTC for text with
            offsets.
        settled: What the whole column holds that this is a part of; None for a whole column.

    Raises:
        TableError: The column's type or text can't be understood, stamps with and without offset
            are mixed, or `time_zone` is given for stamps without zone or offset.
    """
    zone = None if time_zone is None else check_zone(time_zone)
    stamps = _read(_plain(column), zone, settled)
    if time_zone is not None and stamps.kind != "zoned":
        what = "integers" if stamps.kind == "integer" else "stamps without zone or offset"
        raise TableError(
            f"time zone {time_zone!r} is given, but column {column.name!r} holds {what}; "
            "leave the time zone out, or write stamps with offsets."
        )
    return stamps


def _plain(column: pd.Series) -> pd.Series:
    """Unwrap categories, Arrow types and periods, and objects of one kind."""
    if _has_texts(column):
        return column
    column = without_signals(without_categories(column))
    dtype = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        arrow = column.array.__arrow_array__()
        plain = arrow.to_pandas(date_as_object=False)
        return _plain(pd.Series(plain.array, index=column.index, name=column.name))
    if isinstance(dtype, pd.PeriodDtype):
        starts = pd.PeriodIndex(column).start_time
        return pd.Series(starts, index=column.index, name=column.name)
    if dtype.kind == "O" and not isinstance(dtype, pd.StringDtype):
        return _plain_objects(column)
    return column


def _has_texts(column: pd.Series) -> bool:
    """Whether a column's categories are texts: they are read as they are, each once."""
    dtype = column.dtype
    if not isinstance(dtype, pd.CategoricalDtype):
        return False
    return pd.api.types.infer_dtype(dtype.categories, skipna=True) == "string"


def _plain_objects(column: pd.Series) -> pd.Series:
    kind = pd.api.types.infer_dtype(column, skipna=True)
    present = column.dropna()
    if kind == "empty":
        blank = pd.DatetimeIndex([pd.NaT] * len(column))
        return pd.Series(blank, index=column.index, name=column.name)
    if kind == "string":
        return column
    if kind == "integer":
        too_far = np.flatnonzero([abs(step) > LAST_STEP for step in column.fillna(0)])
        if too_far.size:
            raise TableError(_no_step(column, int(too_far[0])))
        return column.astype("Int64")
    if kind == "period":
        return _plain(column.astype(pd.PeriodDtype(present.iloc[0].freq)))
    if kind not in {"date", "datetime", "datetime64"}:
        types = ", ".join(sorted({type(value).__name__ for value in present}))
        raise TableError(f"time column {column.name!r} holds {types}; {_WANTED}")
    zones = {getattr(moment, "tzinfo", None) for moment in present}
    if None in zones and len(zones) > 1:
        raise TableError(_mixed_offsets(column))
    dates = pd.DatetimeIndex(pd.to_datetime(column, utc=None not in zones))
    names = {str(zone) for zone in zones}
    if None not in zones and len(names) == 1:
        dates = dates.tz_convert(check_zone(names.pop()))
    return pd.Series(dates, index=column.index, name=column.name)


_WANTED = "it must hold dates, ISO text, or integer steps alone."


def _read(column: pd.Series, time_zone: str | None, settled: StampKind | None) -> Stamps:
    dtype = column.dtype
    if isinstance(dtype, pd.DatetimeTZDtype) or dtype.kind == "M":
        return _read_dates(column, time_zone)
    if isinstance(dtype, pd.StringDtype) or dtype.kind == "O":
        return _read_text(column, time_zone, settled)
    if dtype.kind in "iuf":
        return _read_whole(column, settled)
    raise TableError(f"time column {column.name!r} holds the type {dtype}; {_WANTED}")


def _read_dates(column: pd.Series, time_zone: str | None) -> Stamps:
    dates = pd.DatetimeIndex(column)
    values, beyond = _nanoseconds(dates)
    problems = _row_problems(column, np.asarray(dates.isna()), beyond)
    if dates.tz is None:
        return Stamps(values, "naive", None, problems)
    return Stamps(values, "zoned", time_zone or check_zone(str(dates.tz)), problems)


def _nanoseconds(
    dates: pd.DatetimeIndex,
) -> tuple[Int64[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """Return nanoseconds, 0 for blanks, and where they don't fit (before 1678, after 2261)."""
    ticks = np.asarray(dates.asi8, dtype=np.int64)
    factor = _UNIT_NS[dates.unit]
    blank = np.asarray(dates.isna())
    beyond = ~blank & ((ticks > _LAST_NS // factor) | (ticks < -_LAST_NS // factor))
    return np.where(blank | beyond, 0, ticks) * factor, beyond


def _read_whole(column: pd.Series, settled: StampKind | None) -> Stamps:
    blank = column.isna().to_numpy()
    if column.dtype.kind == "f":
        values = column.to_numpy(dtype=np.float64, na_value=0)
        # From there on, a float may be the neighbour of what was written.
        is_near = np.abs(values) < LAST_FLOAT_STEP
        broken = np.flatnonzero(~is_near | (values != np.floor(values)))
    else:
        dtype = np.uint64 if column.dtype.kind == "u" else np.int64
        values = (column.fillna(0) if blank.any() else column).to_numpy(dtype)
        broken = np.flatnonzero((values > LAST_STEP) | (values < -LAST_STEP))
    if broken.size:
        raise TableError(_no_step(column, int(broken[0])))
    steps = values.astype(np.int64)
    if settled is None:
        _refuse_dates_as_integers(column, steps[~blank])
    return Stamps(steps, "integer", None, _row_problems(column, blank))


def _no_step(column: pd.Series, row: int) -> str:
    return (
        f"time column {column.name!r} holds {shown(column.iloc[row])} in {row_of(column, row)}; "
        "steps must be whole numbers within ±2**61 (as floats, within ±2**53)."
    )


def _refuse_dates_as_integers(column: pd.Series, steps: Int64[np.ndarray, " m"]) -> None:
    """Refuse integers that all read as YYYYMMDD, or as YYYYMM of several years: dates or steps?"""
    if not steps.size or steps.min() < 190001 or steps.max() > 21991231:
        return
    form = "%Y%m%d" if steps.min() >= 19000101 else "%Y%m"
    days = np.unique(steps) if form == "%Y%m%d" else np.unique(steps) * 100 + 1
    if days[-1] > 21991231 or (form == "%Y%m" and days[0] // 10000 == days[-1] // 10000):
        return
    if pd.to_datetime(days.astype(str), format="%Y%m%d", errors="coerce").isna().any():
        return
    raise TableError(
        f"time column {column.name!r} holds integers such as {steps[0]}, which may be dates or "
        f"steps. For dates give the date format {form!r} (or convert with pd.to_datetime); for "
        "steps count from a smaller number."
    )


def _read_text(column: pd.Series, time_zone: str | None, settled: StampKind | None) -> Stamps:
    # Few texts are distinct in a long table: each is read once. A last one stands for missing.
    codes, distinct = pd.factorize(column)
    texts = [*(str(text).strip() for text in distinct), ""]
    filled = [text for text in texts if text]
    no_step = [text for text in filled if not WHOLE.fullmatch(text)]
    if settled == "integer" or (settled is None and filled and not no_step):
        # Python reads no integers of thousands of digits.
        far = np.array([len(text) > 20 or abs(int(text or 0)) > LAST_STEP for text in texts])
        if far.any():
            raise TableError(_no_step(column, int(np.argmax(far[codes]))))
        whole = pd.array([int(text) if text else None for text in texts], "Int64")
        return _read_whole(pd.Series(whole[codes], column.index, name=column.name), settled)
    matches = [ISO.fullmatch(text) for text in texts]
    if settled is None and filled and not any(matches):
        raise TableError(
            f"time column {column.name!r} holds {shown(no_step[0])}, which is no ISO date such as "
            "2024-03-05 or 2024-03-05T13:00; give the date format, such as '%d/%m/%Y' (or convert "
            "with pd.to_datetime)."
        )
    offsets = {match["offset"] is not None for match in matches if match}
    if len(offsets) == 2:
        raise TableError(_mixed_offsets(column))
    is_zoned = offsets == {True} if settled is None else settled == "zoned"
    pairs = list(zip(texts, matches, strict=True))
    iso = np.array([text if match else "" for text, match in pairs], dtype=object)
    dates = pd.to_datetime(pd.Series(iso), format="ISO8601", errors="coerce", utc=is_zoned)
    values, beyond = _nanoseconds(pd.DatetimeIndex(dates))
    # Older versions of pandas don't read years that nanoseconds don't reach.
    years = np.array([int(text[:4]) if match else 2000 for text, match in pairs])
    beyond |= dates.isna().to_numpy() & ((years < 1678) | (years > 2261))
    blank = np.array([not text for text in texts])
    wrong = dates.isna().to_numpy() & ~blank & ~beyond
    problems = _row_problems(column, blank[codes], beyond[codes], wrong[codes])
    zone = (time_zone or "UTC") if is_zoned else None
    return Stamps(values[codes], "zoned" if is_zoned else "naive", zone, problems)


def _mixed_offsets(column: pd.Series) -> str:
    return (
        f"time column {column.name!r} holds stamps with and without zone or offset; "
        "write all of them with an offset, or none."
    )


def _row_problems(
    column: pd.Series,
    blank: Bool[np.ndarray, " N"],
    beyond: Bool[np.ndarray, " N"] | None = None,
    wrong: Bool[np.ndarray, " N"] | None = None,
) -> list[RowProblem]:
    def describe_blank(row: int) -> str:
        return f"{column.name!r} is blank in {row_of(column, row)}; every row needs a stamp."

    def describe_beyond(row: int) -> str:
        return f"{cell(column, row)}; stamps must lie between 1678 and 2261."

    def describe_wrong(row: int) -> str:
        return (
            f"{cell(column, row)}, which is no ISO date; "
            "write dates such as 2024-03-05 or 2024-03-05T13:00."
        )

    found = ((blank, describe_blank), (beyond, describe_beyond), (wrong, describe_wrong))
    return [
        RowProblem(np.flatnonzero(mask), describe)
        for mask, describe in found
        if mask is not None and mask.any()
    ]
