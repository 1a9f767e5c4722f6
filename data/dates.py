"""Dates written as 05/03/2024: read by a given format, or where only one reading fits them all."""

import re

import numpy as np
import pandas as pd
from jaxtyping import Int64

from foretell.data.errors import TableError
from foretell.data.values import row_name, shown

_DAY_AND_MONTH = re.compile(
    r"\d{1,2}(?P<separator>[/.-])\d{1,2}(?P=separator)\d{4}"
    r"(?P<time>[T ]\d{1,2}:\d{2}(?P<seconds>:\d{2})?)?"
)


def read_dates(column: pd.Series, date_format: str | None) -> pd.Series:
    """Read a text column of dates that are not ISO; any other column comes back as it is.

    Args:
        column: Text; with a date format also integers. Dates stay as they are.
        date_format: A strptime format; None reads day-month-year or month-day-year, whichever alone
            fits every value of the column.

    Raises:
        TableError: A value doesn't fit `date_format`, or both orders fit, or none does.
    """
    if date_format is not None and column.dtype.kind in "iu":  # 20240305, from Parquet
        column = column.astype(str)
    if not (isinstance(column.dtype, pd.StringDtype) or column.dtype.kind == "O"):
        return column
    codes, distinct = pd.factorize(column)
    texts = [str(text).strip() for text in distinct]
    filled = [text for text in texts if text]
    if date_format is not None:
        dates = _parse(texts, date_format)
        wrong = np.flatnonzero(np.asarray(dates.isna()) & np.array([bool(text) for text in texts]))
        if wrong.size:
            raise TableError(_misfits(column, codes, wrong, date_format))
    else:
        matches = [_DAY_AND_MONTH.fullmatch(text) for text in filled]
        shapes = {match and (match["separator"], _time_format(match)) for match in matches}
        if None in shapes or len(shapes) != 1:
            return column
        separator, time = shapes.pop() or ("", "")
        dates = _only_reading(column, texts, separator, time)
    blank = pd.DatetimeIndex([pd.NaT]).tz_localize(dates.tz)
    return pd.Series(dates.append(blank)[codes], name=column.name)


def date_format_problems(date_format: str) -> list[str]:
    """Tell what is wrong with a date format, if anything is."""
    if "%" not in date_format:
        return [f"date format is {date_format!r}; write one such as '%d/%m/%Y'."]
    try:
        _parse(["never a date"], date_format)
    except TableError as error:
        return list(error.problems)
    return []


def _time_format(match: re.Match[str]) -> str:
    if match["time"] is None:
        return ""
    return match["time"][0] + ("%H:%M:%S" if match["seconds"] else "%H:%M")


def _only_reading(
    column: pd.Series, texts: list[str], separator: str, time: str
) -> pd.DatetimeIndex:
    filled = np.array([bool(text) for text in texts])
    formats = [separator.join(order) + time for order in (("%d", "%m", "%Y"), ("%m", "%d", "%Y"))]
    readings = [_parse(texts, form) for form in formats]
    fitting = [dates for dates in readings if not dates[filled].isna().any()]
    example = next(text for text in texts if text)
    if not fitting:
        raise TableError(
            f"time column {column.name!r} holds dates such as {example!r}, and neither "
            f"{formats[0]!r} nor {formats[1]!r} fits them all; write ISO dates such as 2024-03-05."
        )
    if len(fitting) == 2 and not fitting[0].equals(fitting[1]):
        raise TableError(
            f"time column {column.name!r} holds dates such as {example!r}, which may be day first "
            f"or month first; give the date format, {formats[0]!r} or {formats[1]!r}."
        )
    return fitting[0]


def _parse(texts: list[str], date_format: str) -> pd.DatetimeIndex:
    try:
        dates = pd.to_datetime(
            np.array([*texts, ""], dtype=object),
            format=date_format,
            errors="coerce",
            utc="%z" in date_format,
        )
    except (ValueError, re.error) as error:  # a directive that is none, or one given twice
        raise TableError(
            f"date format {date_format!r} can't be used ({error}); write one such as '%d/%m/%Y'."
        ) from error
    return pd.DatetimeIndex(dates)[:-1]


def _misfits(
    column: pd.Series,
    codes: Int64[np.ndarray, " N"],
    wrong: Int64[np.ndarray, " k"],
    date_format: str,
) -> str:
    rows = np.flatnonzero(np.isin(codes, wrong))
    named = ", ".join(f"{shown(column.iloc[row])} in {row_name(row)}" for row in rows[:5].tolist())
    more = f" and {rows.size - 5} more" if rows.size > 5 else ""
    return (
        f"time column {column.name!r} holds {named}{more}, which the date format {date_format!r} "
        "doesn't fit; correct the dates or the format."
    )
