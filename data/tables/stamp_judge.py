"""What a whole time column holds, told from its parts by the few rows on which that turns.

Whether a column is steps or dates, with offsets or without, or nothing that can be read, hangs on a
handful of its values: the first that is no whole number, the largest, the first with an offset.
These rows are kept as witnesses, and at the end they are read as if they were the whole column; so
the judgement and its words are those of `foretell.data.series.stamps`, whatever the table's size.
"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64

from foretell.data.calendars.zones import StampKind
from foretell.data.series.stamps import LAST_FLOAT_STEP, LAST_STEP, read_stamps
from foretell.data.series.values import is_text
from foretell.data.tables.dates import DateJudge, DateReading
from foretell.data.tables.stamp_texts import classify
from foretell.data.tables.witnesses import Witnesses


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

    def look(self, column: pd.Series) -> pa.DictionaryArray | None:
        """Look at one more part, whose index tells its rows in the file.

        Returns:
            The same as numbers of distinct texts, where it is text.
        """
        self._witnesses.begin(column)
        self._dates.look(column)
        if is_text(column):
            return self._look_at_text(column)
        if column.dtype.kind in "iuf":
            self._look_at_numbers(column)
        else:  # its type decides, and that of the objects in it
            blank = column.isna().to_numpy()
            self._keep_first("blank", column, blank)
            self._keep_first("filled", column, ~blank)
        return None

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

    def _look_at_text(self, column: pd.Series) -> pa.DictionaryArray:
        # Few texts are distinct in a long table: each is looked at once a part.
        coded = pa.array(column, pa.large_string(), from_pandas=True).dictionary_encode()
        if coded.null_count:
            self._keep_first("blank", column, coded.is_null().to_numpy(zero_copy_only=False))
        found = classify(pc.utf8_trim_whitespace(coded.dictionary))
        new = {
            shows: mask
            for shows, mask in found.masks.items()
            if shows not in self._witnesses and mask.any()
        }
        if not new and not len(found.steps):  # as in every part but the first, mostly
            return coded
        codes = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
        firsts = _first_places(codes, len(coded.dictionary))
        for shows, mask in new.items():
            self._witnesses.keep(shows, column, int(firsts[np.argmax(mask)]))
        self._look_at_steps(column, found.steps, firsts[found.step_places])
        return coded

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
