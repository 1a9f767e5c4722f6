"""What a whole time column holds, told from its parts by the few rows on which that turns.

Whether a column is steps or dates, with offsets or without, or nothing that can be read, hangs on a
handful of its values: the first that is no whole number, the largest, the first with an offset.
These rows are kept as witnesses, and at the end they are read as if they were the whole column; so
the judgement and its words are those of `foretell.data.stamps`, whatever the size of the table.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64

from foretell.data.dates import DateJudge, DateReading
from foretell.data.stamps import ISO, LAST_FLOAT_STEP, LAST_STEP, WHOLE, read_stamps
from foretell.data.witnesses import Witnesses
from foretell.data.zones import StampKind

_MOST_SEEN = 1 << 17  # distinct texts that are remembered, so as not to look at them again


class StampJudge:
    """Judges a time column part by part.

    Args:
        date_format: See `DateJudge`.
        time_zone: See `read_stamps`.
    """

    def __init__(self, date_format: str | None, time_zone: str | None) -> None:
        self._dates = DateJudge(date_format)
        self._time_zone = time_zone
        self._witnesses = Witnesses()
        self._seen: set[str] = set()

    def look(self, column: pd.Series) -> None:
        """Look at one more part, whose index tells its rows in the file."""
        self._witnesses.begin(column)
        self._dates.look(column)
        if isinstance(column.dtype, pd.StringDtype):
            self._look_at_text(column)
        elif column.dtype.kind in "iuf":
            self._look_at_numbers(column)
        else:  # its type decides, and that of the objects in it
            blank = column.isna().to_numpy()
            self._keep_first("blank", column, blank)
            self._keep_first("filled", column, ~blank)

    def settle_dates(self, dtype: object = None) -> DateReading | None:
        """Tell how dates are read that are not ISO; see `DateJudge.settle`.

        Args:
            dtype: Type of the whole column, where it isn't that of its first part.
        """
        if getattr(dtype, "kind", None) == "f":  # integers with blanks are no dates
            return None
        return self._dates.settle()

    def settle(self, reading: DateReading | None, dtype: Any = None) -> StampKind:
        """Tell what the stamps are.

        Args:
            reading: From `settle_dates`.
            dtype: Type of the whole column, where it isn't that of its first part.

        Raises:
            TableError: As `read_stamps` for the whole column.
        """
        column = self._witnesses.column(dtype)
        if reading is not None:
            column = reading.read(column)
        return read_stamps(column, self._time_zone).kind

    def _look_at_text(self, column: pd.Series) -> None:
        codes, distinct = pd.factorize(column)
        firsts = _first_places(codes, len(distinct))
        self._keep_first("blank", column, codes < 0)
        texts: list[str] = distinct.tolist()
        new = [place for place, text in enumerate(texts) if text not in self._seen]
        if len(self._seen) < _MOST_SEEN:
            self._seen.update(texts)
        steps, step_places = [], []
        for place in new:
            text = texts[place].strip()
            for name in _classes(text):
                self._witnesses.keep(name, column, int(firsts[place]))
            if _is_step(text):
                steps.append(int(text))
                step_places.append(int(firsts[place]))
        self._look_at_steps(column, np.array(steps, np.int64), np.array(step_places, np.int64))

    def _look_at_numbers(self, column: pd.Series) -> None:
        blank = column.isna().to_numpy()
        self._keep_first("blank", column, blank)
        self._keep_first("filled", column, ~blank)
        values = column.to_numpy()
        if column.dtype.kind == "f":
            far = ~blank & (np.abs(values) > LAST_STEP)
            self._keep_first("broken", column, ~blank & (values != np.floor(values)))
        elif column.dtype.kind == "u":
            far = values > LAST_STEP
        else:
            far = (values > LAST_STEP) | (values < -LAST_STEP)
        self._keep_first("far", column, far)
        places = np.flatnonzero(~blank & ~far)
        self._look_at_steps(column, values[places].astype(np.int64), places)

    def _look_at_steps(
        self, column: pd.Series, steps: Int64[np.ndarray, " k"], places: Int64[np.ndarray, " k"]
    ) -> None:
        if not len(steps):
            return
        for name, place in (("least", int(steps.argmin())), ("largest", int(steps.argmax()))):
            sign = 1 if name == "largest" else -1
            if name not in self._witnesses or (
                sign * int(steps[place]) > sign * int(self._witnesses.value(name))
            ):
                self._witnesses.replace(name, column, int(places[place]))
        for name, wrong in (
            ("no float", np.abs(steps) >= LAST_FLOAT_STEP),
            ("no day", ~_is_day(steps)),
            ("no month", ~_is_month(steps)),
        ):
            if wrong.any():
                self._witnesses.keep(name, column, int(places[wrong].min()))

    def _keep_first(self, name: str, column: pd.Series, mask: Bool[np.ndarray, " N"]) -> None:
        if mask.any():
            self._witnesses.keep(name, column, int(np.argmax(mask)))


def _first_places(codes: Int64[np.ndarray, " N"], count: int) -> Int64[np.ndarray, " n"]:
    """Find where each number stands first."""
    firsts = np.zeros(count + 1, dtype=np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    return firsts[:count]


def _classes(text: str) -> Iterable[str]:
    """Name what a text may be the first of."""
    if not text:
        return ("blank",)
    if WHOLE.fullmatch(text):
        return ("filled",) if _is_step(text) else ("filled", "far")
    match = ISO.fullmatch(text)
    if match is None:
        return ("filled", "no step", "no date")
    return ("filled", "no step", "local" if match["offset"] is None else "offset")


def _is_step(text: str) -> bool:
    # Python reads no integers of thousands of digits.
    return bool(WHOLE.fullmatch(text)) and len(text) <= 20 and abs(int(text)) <= LAST_STEP


def _is_month(steps: Int64[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
    month = steps % 100
    return np.asarray((month >= 1) & (month <= 12))


def _is_day(steps: Int64[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
    """Tell which integers read as YYYYMMDD."""
    year, month, day = steps // 10000, steps // 100 % 100, steps % 100
    month_ok = (month >= 1) & (month <= 12) & (year >= 1) & (year <= 9999)
    months = (np.where(month_ok, year, 2000) - 1970) * 12 + np.where(month_ok, month, 1) - 1
    start = months.astype("M8[M]")
    days = (start + 1).astype("M8[D]") - start.astype("M8[D]")
    return np.asarray(month_ok & (day >= 1) & (day <= days.astype(np.int64)))
