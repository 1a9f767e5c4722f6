"""What frequency do stamps step by? Answered for all series at once, and never by a guess.

Axes: N stamps of all series together, n series. A series is `stamps[indptr[i]:indptr[i + 1]]`,
rising.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from foretell.data.calendars.aliases import CLOCK_NS, MONTH_UNITS, UNITS, WEEKDAYS, anchor_month
from foretell.data.calendars.calendar import Frequency, month_edges, month_numbers
from foretell.data.calendars.zones import StampKind, describe_stamp, split_days
from foretell.data.errors import FrequencyError
from foretell.data.segments import order_within

_EDGES = ("ME", "MS", "BME", "BMS")  # calendar edges come first where both fit
_CLOCK_UNITS = tuple(sorted(CLOCK_NS, key=CLOCK_NS.__getitem__, reverse=True))


def infer(
    stamps: Int64[np.ndarray, " N"], kind: StampKind, time_zone: str | None = None
) -> Frequency:
    """Infer the frequency of one series; gaps don't matter if the commonest step is the true one.

    Args:
        stamps: Rising stamps.
        kind: What the stamps are.
        time_zone: Zone of the local clock; None where stamps have no zone.

    Raises:
        FrequencyError: There are fewer than two stamps, they fit several frequencies, or some are
            off the grid.
    """
    found = candidates(stamps, np.array([0, len(stamps)]), kind, time_zone)[0]
    if len(found) != 1:
        raise FrequencyError(explain(found, len(stamps)))
    _, on_grid = found[0].positions(stamps, stamps[:1], np.zeros(len(stamps), np.int64), time_zone)
    if not on_grid.all():
        first = describe_stamp(stamps[np.argmin(on_grid)], kind, time_zone)
        raise FrequencyError(
            f"the stamps step by {found[0].alias!r} most often, but {first} is off that grid; "
            "give the frequency."
        )
    return found[0]


def explain(found: tuple[Frequency, ...], num_rows: int) -> str:
    """Say why no frequency could be inferred, and what to do."""
    if not found:
        rows = "1 row" if num_rows == 1 else f"{num_rows} rows"
        return (
            f"its frequency can't be inferred from {rows}, 2 are needed; give the frequency (freq)."
        )
    names = " or ".join(repr(frequency.alias) for frequency in found)
    return f"its {num_rows} rows may step by {names}; give the frequency (freq)."


def anchored(
    frequency: Frequency,
    stamps: Int64[np.ndarray, " N"],
    indptr: Int64[np.ndarray, " n1"],
    kind: StampKind,
    time_zone: str | None = None,
) -> list[Frequency | None]:
    """Find the frequency of the same rhythm that each series lies on, if it steps in that rhythm.

    W-SUN becomes W-MON on a Monday; the last day of a month that is a working day is a BME for BME
    and an ME for all others. None where there is none: plain steps for a date, or months for a day
    that is neither first nor last.

    Args:
        frequency: Whose rhythm, and, where it fits, whose edge of the month.
        stamps: Stamps of all series, at least one each.
        indptr: Start of each series' stamps, and the end.
        kind: What the stamps are.
        time_zone: Zone of the local clock; None where stamps have no zone.
    """
    count = len(indptr) - 1
    if frequency.is_integer != (kind == "integer"):
        return [None] * count
    if frequency.unit != "W" and frequency.unit not in MONTH_UNITS:
        return [frequency] * count
    days = _Segments(split_days(stamps, time_zone)[0], indptr)
    if frequency.unit == "W":
        by_weekday = [Frequency("W", frequency.multiple, weekday) for weekday in WEEKDAYS]
        return [by_weekday[day] for day in ((days.first() + 3) % 7).tolist()]
    length = frequency.multiple * MONTH_UNITS[frequency.unit][0]
    edges = (re.sub("[QY]", "M", frequency.unit), *_EDGES)
    by_edge = [[_month_frequency(edge, length, month) for month in range(12)] for edge in edges]
    months = month_numbers(days.first()) % 12
    return [
        by_edge[edge][month] if edge >= 0 else None
        for edge, month in zip(_edge_places(days, edges).tolist(), months.tolist(), strict=True)
    ]


def candidates(
    stamps: Int64[np.ndarray, " N"],
    indptr: Int64[np.ndarray, " n1"],
    kind: StampKind,
    time_zone: str | None = None,
) -> list[tuple[Frequency, ...]]:
    """Find the frequencies that each series may step by: none for a lone row, one, or several.

    Stamps of the same time of day step by months where all lie on month ends or starts, by weeks
    where all steps are weeks, by business days (one to four) where no weekend has a row and some
    step leaves a weekend out, as from a Friday to a Monday, otherwise by days. All others step by a
    fixed time. Days from Monday to Friday without a weekend between may be either: two candidates.
    """
    counts = np.diff(indptr)
    found: list[tuple[Frequency, ...]] = [()] * len(counts)
    enough = np.flatnonzero(counts >= 2)
    if not enough.size:
        return found
    if enough.size < counts.size:
        stamps = stamps[np.repeat(counts >= 2, counts)]
        counts = counts[enough]
        indptr = np.concatenate([[0], np.cumsum(counts)])
    instants = _Segments(stamps, indptr)
    if kind == "integer":
        codes = _codes("integer", np.maximum(instants.steps().mode(), 1))
    else:
        days, time_of_day = split_days(stamps, time_zone)
        times = _Segments(time_of_day, indptr)
        daily = times.minimum() == times.maximum()
        codes = np.zeros((len(counts), 4), dtype=np.int64)
        if daily.any():
            codes[daily] = _calendar_codes(_Segments(days, indptr).take(daily))
        if not daily.all():
            codes[~daily] = _clock_codes(instants.take(~daily).steps())
    # Numbers sort faster than rows of them.
    multiples = np.unique(codes[:, 1], return_inverse=True)[1]
    keys = np.ravel_multi_index(
        (codes[:, 0], multiples, codes[:, 2], codes[:, 3]), (len(UNITS), len(codes), 12, 5)
    )
    _, distinct, which = np.unique(keys, return_index=True, return_inverse=True)
    decoded = [_decode(code) for code in codes[distinct]]
    for series, place in zip(enough.tolist(), which.tolist(), strict=True):
        found[series] = decoded[place]
    return found


# A code is [unit, multiple, anchor, business days that it may also be or 0]: numbers, so that many
# series are told apart at once.


def _codes(
    unit: str, multiple: Int64[np.ndarray, " n"], anchor: Int64[np.ndarray, " n"] | int = 0
) -> Int64[np.ndarray, "n 4"]:
    codes = np.zeros((len(multiple), 4), dtype=np.int64)
    codes[:, 0] = UNITS.index(unit)
    codes[:, 1] = multiple
    codes[:, 2] = anchor
    return codes


def _decode(code: Int64[np.ndarray, " 4"]) -> tuple[Frequency, ...]:
    unit, multiple, anchor = UNITS[code[0]], int(code[1]), int(code[2])
    if unit == "W":
        found = Frequency(unit, multiple, WEEKDAYS[anchor])
    elif unit in _EDGES:
        found = _month_frequency(unit, multiple, anchor)
    else:
        found = Frequency(unit, multiple)
    return (found, Frequency("B", int(code[3]))) if code[3] else (found,)


def _month_frequency(edge: str, months: int, month: int) -> Frequency:
    for length, letter in ((12, "Y"), (3, "Q")):
        if months % length == 0:
            unit = edge.replace("M", letter)
            return Frequency(unit, months // length, anchor_month(unit, month % length))
    return Frequency(edge, months)


def _clock_codes(steps: "_Segments") -> Int64[np.ndarray, "n 4"]:
    mode = np.maximum(steps.mode(), 1)
    codes = _codes("ns", mode)
    for unit in reversed(_CLOCK_UNITS):
        whole = mode % CLOCK_NS[unit] == 0
        codes[whole] = _codes(unit, mode[whole] // CLOCK_NS[unit])
    return codes


def _calendar_codes(days: "_Segments") -> Int64[np.ndarray, "n 4"]:
    codes = np.zeros((len(days.indptr) - 1, 4), dtype=np.int64)
    monthly = np.flatnonzero(days.steps().minimum() >= 28)
    if monthly.size:
        codes[monthly] = _month_codes(days.take(monthly))
    others = codes[:, 1] == 0
    if others.any():
        codes[others] = _day_codes(days.take(others))
    return codes


def _day_codes(days: "_Segments") -> Int64[np.ndarray, "n 4"]:
    steps = days.steps()
    mode = np.maximum(steps.mode(), 1)
    codes = _codes("D", mode)
    _mark_business_days(codes, days, steps)
    weekly = (mode % 7 == 0) & steps.all(steps.values % 7 == 0)
    codes[weekly] = _codes("W", mode[weekly] // 7, (days.first()[weekly] + 3) % 7)
    return codes


def _mark_business_days(
    codes: Int64[np.ndarray, "n 4"], days: "_Segments", steps: "_Segments"
) -> None:
    weeks, weekdays = np.divmod(days.values + 3, 7)
    working = days.all(weekdays < 5)
    if not working.any():
        return
    numbers = _Segments(5 * weeks + weekdays, days.indptr).steps()
    multiple = np.maximum(numbers.mode(), 1)
    mode = codes[:, 1]
    each, each_mode = (np.repeat(values, np.diff(steps.indptr)) for values in (multiple, mode))
    possible = working & (multiple < 5) & numbers.all(numbers.values % each == 0)
    # Most steps are as many days as business days; one that is longer has a weekend in it.
    over_weekend = ~steps.all((numbers.values != each) | (steps.values == each))
    by_days = steps.all(steps.values % each_mode == 0)
    certain = possible & ((over_weekend & (mode == multiple)) | ~by_days)
    codes[possible & ~certain, 3] = multiple[possible & ~certain]
    codes[certain] = _codes("B", multiple[certain])


def _month_codes(days: "_Segments") -> Int64[np.ndarray, "n 4"]:
    """Give codes to series on an edge of their months; zeros to the others."""
    codes = np.zeros((len(days.indptr) - 1, 4), dtype=np.int64)
    places = _edge_places(days, _EDGES)
    on_edge = np.flatnonzero(places >= 0)
    if on_edge.size:
        part = days.take(on_edge)
        months = _Segments(month_numbers(part.values), part.indptr)
        mode = np.maximum(months.steps().mode(), 1)
        codes[on_edge] = _codes("ME", mode, months.first() % 12)
        codes[on_edge, 0] = np.array([UNITS.index(edge) for edge in _EDGES])[places[on_edge]]
    return codes


def _edge_places(days: "_Segments", edges: Sequence[str]) -> Int64[np.ndarray, " n"]:
    """Find the first of some edges of months on which all days of a series lie; -1 for none."""
    places = np.full(len(days.indptr) - 1, -1, dtype=np.int64)
    first = days.first()
    for place, edge in enumerate(edges):
        likely = np.flatnonzero((places < 0) & (month_edges(month_numbers(first), edge) == first))
        if likely.size:
            part = days.take(likely)
            fits = part.all(month_edges(month_numbers(part.values), edge) == part.values)
            places[likely[fits]] = place
    return places


@dataclass(frozen=True, slots=True)
class _Segments:
    """Values of all series in one array; every series has at least one."""

    values: Int64[np.ndarray, " N"]
    indptr: Int64[np.ndarray, " n1"]

    def steps(self) -> "_Segments":
        """The differences within each series, which has two values at least."""
        inside = np.ones(len(self.values) - 1, dtype=bool)
        inside[self.indptr[1:-1] - 1] = False
        return _Segments(np.diff(self.values)[inside], self.indptr - np.arange(len(self.indptr)))

    def first(self) -> Int64[np.ndarray, " n"]:
        first: Int64[np.ndarray, " n"] = self.values[self.indptr[:-1]]
        return first

    def take(self, series: Bool[np.ndarray, " n"] | Int64[np.ndarray, " m"]) -> "_Segments":
        counts = np.diff(self.indptr)
        keep = np.zeros(len(counts), dtype=bool)
        keep[series] = True
        if keep.all():
            return self
        indptr = np.concatenate([[0], np.cumsum(counts[keep])])
        return _Segments(self.values[np.repeat(keep, counts)], indptr)

    def minimum(self) -> Int64[np.ndarray, " n"]:
        return np.minimum.reduceat(self.values, self.indptr[:-1])

    def maximum(self) -> Int64[np.ndarray, " n"]:
        return np.maximum.reduceat(self.values, self.indptr[:-1])

    def all(self, truth: Bool[np.ndarray, " N"]) -> Bool[np.ndarray, " n"]:
        return np.logical_and.reduceat(truth, self.indptr[:-1])

    def mode(self) -> Int64[np.ndarray, " n"]:
        """The commonest value of each series; the smallest of those that are equally common."""
        mode = self.minimum()
        mixed = np.flatnonzero(mode != self.maximum())
        if not mixed.size:
            return mode
        part = self.take(mixed)
        series = np.repeat(np.arange(mixed.size), np.diff(part.indptr))
        values = part.values[order_within(part.values, part.indptr)]
        starts = np.flatnonzero(
            np.r_[True, (values[1:] != values[:-1]) | (series[1:] != series[:-1])]
        )
        counts = np.diff(np.r_[starts, len(values)])
        owners = series[starts]
        most = np.maximum.reduceat(counts, np.searchsorted(owners, np.arange(mixed.size)))
        commonest = np.flatnonzero(counts == most[owners])
        first = np.r_[True, np.diff(owners[commonest]) > 0]
        mode[mixed] = values[starts[commonest[first]]]
        return mode
