"""Frequencies: their names, and the calendar grid each of them steps on.

Every unit cuts time into ticks (days, hours, ..., plain steps) and numbers the ticks that lie on
its grid: days for `D`, working days for `B`, months for `ME`. Stepping is adding to that number,
and a tick is on the grid where number and tick are each other's inverse. So month ends come from
the month, and nothing drifts.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int64

from foretell.data.calendars.aliases import CLOCK_NS, MONTH_UNITS, MONTHS, WEEKDAYS, read_alias
from foretell.data.calendars.zones import DAY_NS, from_wall, skipped_days, split_days
from foretell.data.errors import FrequencyError, OptionError

# The season of steps at least so long, in nanoseconds.
_SEASONS_NS = (
    (7 * DAY_NS, 364 * DAY_NS),
    (DAY_NS, 7 * DAY_NS),
    (CLOCK_NS["min"], DAY_NS),
    (CLOCK_NS["s"], CLOCK_NS["h"]),
    (1, CLOCK_NS["s"]),
)
_LONGEST_STEP_NS = 100 * 366 * DAY_NS
_LAST_STAMP = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Frequency:
    """A step in time, and the grid it walks on.

    Make one with `Frequency.parse`. Equal frequencies walk the same grid.

    Attributes:
        unit: "integer" for plain steps, or the bare pandas alias: "h", "D", "W", "ME", "BQS", ...
        multiple: Units in one step, at least 1.
        anchor: Weekday on which a "W" falls, or a month in which a quarter or year ends or starts;
            else "".
    """

    unit: str
    multiple: int = 1
    anchor: str = ""

    @classmethod
    def parse(cls, text: "str | int | Frequency") -> "Frequency":
        """Read a pandas alias, old ("H", "M", "A-JUN") or new ("h", "ME", "YE-JUN"), or a step.

        Raises:
            FrequencyError: The frequency is unknown; the message lists the known ones.
        """
        if isinstance(text, Frequency):
            return text
        frequency = cls(*read_alias(text))
        if frequency.multiple < 1 or frequency._longest_step > _LONGEST_STEP_NS:
            raise FrequencyError(
                f"frequency {text!r} has the multiple {frequency.multiple}; a step must be at "
                "least 1 unit and at most 100 years."
            )
        return frequency

    @property
    def alias(self) -> str:
        """The canonical name, which `parse` reads back: "h", "15min", "W-SUN", "QE-DEC", "5"."""
        if self.is_integer:
            return str(self.multiple)
        times = "" if self.multiple == 1 else str(self.multiple)
        return f"{times}{self.unit}" + (f"-{self.anchor}" if self.anchor else "")

    def __str__(self) -> str:
        return self.alias

    @property
    def is_integer(self) -> bool:
        """Whether this is a plain step without a calendar."""
        return self.unit == "integer"

    @property
    def is_calendar(self) -> bool:
        """Whether this steps on the local clock, as days and longer do; hours count instants."""
        return not self.is_integer and self.unit not in CLOCK_NS

    @property
    def season_length(self) -> int:
        """Steps in the main season; 1 where there is none, or where it is no whole number of steps.

        A year for weeks, months and quarters, a week for days and business days, a day for steps of
        a minute up to a day, an hour for seconds, a second below. So h 24, 15min 96, D 7, B 5,
        W 52, ME 12, QE 4, YE 1, integers 1.
        """
        kind, step = self._rhythm
        season = {"integer": 1, "months": 12, "business days": 5}.get(kind, 1)
        if kind == "time":
            season = next(season for least, season in _SEASONS_NS if step >= least)
        return season // step if season % step == 0 else 1

    def same_rhythm(self, other: "Frequency") -> bool:
        """Whether steps are equally long, wherever they are anchored.

        A model of months serves month ends and month starts alike, one of weeks serves every
        weekday, 60min is h, 24h is D, 3ME is QE, and plain integer steps, which have no length, are
        all alike.
        """
        return self._rhythm == other._rhythm

    def after(
        self,
        last: Int64[np.ndarray, " n"],
        horizon: int,
        time_zone: str | None = None,
        *,
        multiples: Int64[np.ndarray, " n"] | None = None,
    ) -> Int64[np.ndarray, "n H"]:
        """Find the stamps of the next steps.

        Hours and shorter step from instant to instant; days and longer keep the local time of day
        in `time_zone` (where the clock skips it, the first instant after the skip; where it comes
        twice, the first). A day that the zone skips altogether is no step.

        Args:
            last: Stamps on this frequency's grid.
            horizon: Number of steps.
            time_zone: Zone of the local clock; None where stamps have no zone.
            multiples: One a stamp, in place of this frequency's; all of them are 1, or none is, as
                this one's.

        Raises:
            OptionError: A step would lie past the last stamp that can be written (year 2262).
        """
        if not self.reaches(last, horizon, multiples=multiples).all():
            raise OptionError(
                f"{horizon} steps of {self.alias!r} lead past the last stamp that can be written "
                "(year 2262, or 2**63 for integers); ask for a shorter horizon."
            )
        if multiples is None:
            starts, which = np.unique(last, return_inverse=True)
            each = np.full((len(starts), 1), self.multiple)
        else:
            starts, which, each = last, np.arange(len(last)), multiples[:, None]
        ticks, phase = self._split(starts, time_zone)
        skipped = self._skipped(time_zone)
        first = self._number(ticks) - np.searchsorted(skipped, self._number(ticks))
        numbers = first[:, None] + each * np.arange(1, horizon + 1)
        numbers += np.searchsorted(skipped - np.arange(len(skipped)), numbers, side="right")
        stamps: Int64[np.ndarray, "m H"] = self._tick(numbers) * self._tick_ns + phase[:, None]
        if self.is_calendar:
            stamps = from_wall(stamps.ravel(), time_zone).reshape(stamps.shape)
        return stamps[which]

    def reaches(
        self,
        last: Int64[np.ndarray, " n"],
        horizon: int,
        *,
        multiples: Int64[np.ndarray, " n"] | None = None,
    ) -> Bool[np.ndarray, " n"]:
        """Whether `horizon` steps after each stamp can be written, a little on the safe side.

        Args:
            last: Stamps.
            horizon: Number of steps.
            multiples: As in `after`.
        """
        slack = 0 if self.is_integer else 4 * DAY_NS
        if multiples is not None:  # in Python's integers, which don't overflow
            far = horizon * replace(self, multiple=1)._longest_step
            return np.array(
                [
                    stamp <= _LAST_STAMP - slack - far * multiple
                    for stamp, multiple in zip(last.tolist(), multiples.tolist(), strict=True)
                ],
                dtype=bool,
            )
        latest = _LAST_STAMP - slack - horizon * self._longest_step
        if latest < -_LAST_STAMP:
            return np.zeros(len(last), dtype=bool)
        return last <= latest

    def positions(
        self,
        stamps: Int64[np.ndarray, " N"],
        origins: Int64[np.ndarray, " n"],
        series: Int64[np.ndarray, " N"],
        time_zone: str | None = None,
        *,
        multiples: Int64[np.ndarray, " n"] | None = None,
    ) -> tuple[Int64[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
        """Count the steps from its series' origin to each stamp.

        Args:
            stamps: Stamps of all series.
            origins: One stamp a series, from which its grid is laid.
            series: Series of each stamp, an index into `origins`.
            time_zone: Zone of the local clock; None where stamps have no zone.
            multiples: One a series, as in `after`.

        Returns:
            Steps from the origin (negative before it), and whether the stamp lies on the grid; the
            steps of one that doesn't mean nothing.
        """
        origin_ticks, origin_phase = self._split(origins, time_zone)
        ticks, phase = self._split(stamps, time_zone)
        numbers = self._number(ticks)
        origin_numbers = self._number(origin_ticks)
        skipped = self._skipped(time_zone)
        if skipped.size:
            origin_numbers = origin_numbers - np.searchsorted(skipped, origin_numbers)
        steps = numbers - np.searchsorted(skipped, numbers) if skipped.size else numbers
        steps = steps - origin_numbers[series]
        on_grid = phase == origin_phase[series]
        if self.unit in {"B", "W"} or self.unit in MONTH_UNITS:
            on_grid &= self._tick(numbers) == ticks
        if self.multiple > 1:
            multiple = self.multiple if multiples is None else multiples[series]
            steps, rest = np.divmod(steps, multiple)
            on_grid &= rest == 0
        return steps, on_grid

    @property
    def _tick_ns(self) -> int:
        return 1 if self.is_integer else CLOCK_NS.get(self.unit, DAY_NS)

    @property
    def _longest_step(self) -> int:
        # Integers count their own units; five business days take a week.
        if self.unit in MONTH_UNITS:
            return self.multiple * MONTH_UNITS[self.unit][0] * 31 * DAY_NS
        return self.multiple * {"W": 7 * DAY_NS, "B": DAY_NS * 7 // 5}.get(self.unit, self._tick_ns)

    @property
    def _rhythm(self) -> tuple[str, int]:
        if self.is_integer:
            return ("integer", 1)
        if self.unit in MONTH_UNITS:
            return ("months", self.multiple * MONTH_UNITS[self.unit][0])
        if self.unit == "B":
            return ("business days", self.multiple)
        return ("time", self._longest_step)

    @property
    def _offset(self) -> int:
        """The first tick, or month, from 1970-01-01 on that a number falls on."""
        if self.unit == "W":
            return (WEEKDAYS.index(self.anchor) + 4) % 7  # 1970-01-05 was a Monday
        return MONTHS.index(self.anchor) % MONTH_UNITS[self.unit][0] if self.anchor else 0

    def _split(
        self, stamps: Int64[np.ndarray, " N"], time_zone: str | None
    ) -> tuple[Int64[np.ndarray, " N"], Int64[np.ndarray, " N"]]:
        if self.is_integer:
            return stamps, np.zeros_like(stamps)
        if self.is_calendar:
            return split_days(stamps, time_zone)
        ticks, phase = np.divmod(stamps, self._tick_ns)
        return ticks, phase

    def _skipped(self, time_zone: str | None) -> Int64[np.ndarray, " k"]:
        """The numbers of days that a zone's calendar skips, which are no steps of days one by one.

        Several days, weeks or months that end on such a day still end: on the next one.
        """
        days = skipped_days(time_zone if self.multiple == 1 and self.unit in {"D", "B"} else None)
        return self._number(days[(days + 3) % 7 < 5] if self.unit == "B" else days)

    def _number(self, ticks: Int64[np.ndarray, "..."]) -> Int64[np.ndarray, "..."]:
        """Number the step that a tick lies in."""
        if self.unit == "B":
            weeks, weekdays = np.divmod(ticks + 3, 7)  # 1969-12-29 was a Monday
            return 5 * weeks + np.minimum(weekdays, 4)
        if self.unit == "W":
            return (ticks - self._offset) // 7
        if self.unit in MONTH_UNITS:
            return (month_numbers(ticks) - self._offset) // MONTH_UNITS[self.unit][0]
        return ticks

    def _tick(self, numbers: Int64[np.ndarray, "..."]) -> Int64[np.ndarray, "..."]:
        """Find the tick of a number."""
        if self.unit == "B":
            weeks, weekdays = np.divmod(numbers, 5)
            return 7 * weeks + weekdays - 3
        if self.unit == "W":
            return 7 * numbers + self._offset
        if self.unit in MONTH_UNITS:
            months = numbers * MONTH_UNITS[self.unit][0] + self._offset
            return month_edges(months, self.unit)
        return numbers


def month_numbers(days: Int64[np.ndarray, "..."]) -> Int64[np.ndarray, "..."]:
    """Number the months of days, from January 1970 on."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def month_edges(months: Int64[np.ndarray, "..."], unit: str) -> Int64[np.ndarray, "..."]:
    """Find the day on which a month ends or starts; for units with a B, the business day."""
    at_end = unit.endswith("E")
    days = (months + at_end).astype("M8[M]").astype("M8[D]").astype(np.int64) - at_end
    if unit.startswith("B"):
        weekdays = (days + 3) % 7
        days = days + (
            -np.maximum(weekdays - 4, 0) if at_end else np.where(weekdays > 4, 7 - weekdays, 0)
        )
    return days
