"""Dates written as 05/03/2024: read by a given format, or where only one reading fits them all."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from jaxtyping import Int64

from foretell.data.errors import TableError
from foretell.data.series.file_rows import row_of
from foretell.data.series.values import is_text, shown, without_categories

Unit = Literal["s", "ms", "us", "ns"]
_UNITS: tuple[Unit, ...] = get_args(Unit)
_NAMED = 5
_FIRST = 20
_DAY_AND_MONTH = re.compile(
    r"\d{1,2}(?P<separator>[/.-])\d{1,2}(?P=separator)\d{4}"
    r"(?P<time>[T ]\d{1,2}:\d{2}(?P<seconds>:\d{2})?)?"
)


@dataclass(frozen=True, slots=True)
class DateReading:
    """How a text column of dates is read; any part of it alike.

    Attributes:
        date_format: A strptime format.
        unit: Resolution of the whole column: "s", "us", ...
    """

    date_format: str
    unit: Unit

    def read(self, column: pd.Series) -> pd.Series:
        """Read a part of the column, of any type but dates."""
        codes, texts = _distinct(column)
        dates = _parse(texts, self.date_format)
        blank = pd.DatetimeIndex([pd.NaT]).tz_localize(dates.tz)
        with_blank = pd.DatetimeIndex(dates.append(blank)).as_unit(self.unit)
        return pd.Series(with_blank[codes], index=column.index, name=column.name)


class DateJudge:
    """Tells how a time column is read, from all its parts, one after the other.

    Args:
        date_format: A strptime format; None finds day-month-year or month-day-year, whichever alone
            fits every value of the column.
    """

    def __init__(self, date_format: str | None) -> None:
        self._given = date_format
        self._name: object = None
        self._units: set[Unit] = set()
        self._misfits: list[str] = []
        self._num_misfits = 0
        self._shapes: set[tuple[str, str] | None] = set()
        self._orders: tuple[_Order, _Order] | None = None
        self._example = ""
        self._is_same = True
        self._may_hold = False

    def look(self, column: pd.Series) -> None:
        """Look at one more part: text, or anything else, which is left as it is."""
        self._name = column.name
        if not self.may_hold(column):
            return
        self._may_hold = True
        if self._given is None and self._are_others(column):
            return
        codes, texts = _distinct(column)
        if self._given is not None:
            dates = _parse(texts, self._given)
            self._note_unit(dates)
            filled = np.array([bool(text) for text in texts], dtype=bool)
            wrong = np.flatnonzero(np.asarray(dates.isna()) & filled)
            self._note_misfits(column, codes, wrong)
            return
        filled_texts = [text for text in texts if text]
        if filled_texts:
            self._look_for_order(filled_texts)

    def settle(self) -> DateReading | None:
        """Tell how the column is read; None leaves it as it is.

        Raises:
            TableError: A value doesn't fit the format given, or both orders fit, or none does.
        """
        if not self._may_hold:
            return None
        unit = max(self._units, key=_UNITS.index, default=_UNITS[0])
        if self._given is not None:
            if self._misfits:
                raise TableError(self._misfit_problem())
            return DateReading(self._given, unit)
        if self._orders is None or len(self._shapes) != 1 or None in self._shapes:
            return None
        example = f"time column {self._name!r} holds dates such as {self._example!r}"
        formats = [order.date_format for order in self._orders]
        fitting = [order.date_format for order in self._orders if order.fits]
        if not fitting:
            raise TableError(
                f"{example}, and neither {formats[0]!r} nor {formats[1]!r} fits them all; write "
                "ISO dates such as 2024-03-05."
            )
        if len(fitting) == 2 and not self._is_same:
            raise TableError(
                f"{example}, which may be day first or month first; give the date format, "
                f"{formats[0]!r} or {formats[1]!r}."
            )
        return DateReading(fitting[0], unit)

    def may_hold(self, column: pd.Series) -> bool:
        """Whether a column may hold dates that are to be read."""
        column = without_categories(column)
        if self._given is not None and column.dtype.kind in "iu":  # 20240305, from Parquet
            return True
        return is_text(column)

    def _are_others(self, column: pd.Series) -> bool:
        """Whether these are other dates, which the first few mostly tell."""
        first = [str(value).strip() for value in column.iloc[:_FIRST].dropna()]
        if not all(_DAY_AND_MONTH.fullmatch(text) for text in first if text):
            self._shapes.add(None)
        return None in self._shapes or len(self._shapes) > 1

    def _note_unit(self, dates: pd.DatetimeIndex) -> None:
        if dates.notna().any():
            self._units.add(dates.unit)

    def _note_misfits(
        self,
        column: pd.Series,
        codes: Int64[np.ndarray, " N"],
        wrong: Int64[np.ndarray, " k"],
    ) -> None:
        if not wrong.size:
            return
        rows = np.flatnonzero(np.isin(codes, wrong))
        self._num_misfits += rows.size
        for row in rows[: _NAMED - len(self._misfits)].tolist():
            self._misfits.append(f"{shown(column.iloc[row])} in {row_of(column, row)}")

    def _misfit_problem(self) -> str:
        more = self._num_misfits - len(self._misfits)
        named = ", ".join(self._misfits) + (f" and {more} more" if more else "")
        return (
            f"time column {self._name!r} holds {named}, which the date format {self._given!r} "
            "doesn't fit; correct the dates or the format."
        )

    def _look_for_order(self, texts: list[str]) -> None:
        matches = [_DAY_AND_MONTH.fullmatch(text) for text in texts]
        self._shapes |= {match and (match["separator"], _time_format(match)) for match in matches}
        shape = next(iter(self._shapes))
        if len(self._shapes) > 1 or shape is None:
            return
        if self._orders is None:
            self._example = texts[0]
            separator, time = shape
            day, month = (
                _Order(separator.join(order) + time)
                for order in (("%d", "%m", "%Y"), ("%m", "%d", "%Y"))
            )
            self._orders = day, month
        readings = [_parse(texts, order.date_format) for order in self._orders]
        for order, dates in zip(self._orders, readings, strict=True):
            order.fits &= not dates.isna().any()
            if order.fits:
                self._note_unit(dates)
        self._is_same &= readings[0].equals(readings[1])


@dataclass(slots=True)
class _Order:
    date_format: str
    fits: bool = True


def read_dates(column: pd.Series, date_format: str | None) -> pd.Series:
    """Read a text column of dates that are not ISO; any other column comes back as it is.

    Args:
        column: Text; with a date format also integers. Dates stay as they are.
        date_format: A strptime format; None reads day-month-year or month-day-year, whichever alone
            fits every value of the column.

    Raises:
        TableError: A value doesn't fit `date_format`, or both orders fit, or none does.
    """
    judge = DateJudge(date_format)
    if not judge.may_hold(column):
        return column
    judge.look(column)
    reading = judge.settle()
    return column if reading is None else reading.read(column)


def _distinct(column: pd.Series) -> tuple[Int64[np.ndarray, " N"], list[str]]:
    """Number the distinct texts of a column; a missing one has the number -1."""
    codes, distinct = pd.factorize(column.astype(str) if column.dtype.kind in "iu" else column)
    return codes.astype(np.int64), [str(text).strip() for text in distinct]


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
