"""Sorted rows on their grids, and why a series can't be laid on one.

Axes: N rows of all series together, n series.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from foretell.data.calendars.calendar import Frequency
from foretell.data.calendars.inference import candidates
from foretell.data.calendars.zones import DAY_NS, StampKind, describe_stamp
from foretell.data.errors import Refusal
from foretell.data.segments import order_within
from foretell.data.series.ids import id_at
from foretell.data.series.panel import Rows

# A stray stamp, such as 1900-01-01 among hours of today, makes a grid of a million empty steps.
LONG_GRID = 100_000
LEAST_SHARE = 0.01
_NAMED = 5  # stamps named one by one before "and 20 more"


OnStep = Callable[[], None]
"""Looks whether the work is still wanted; what it raises ends it."""


def _go_on() -> None:
    """Work that nobody can leave."""


class Refused:
    """Collects why series are refused, by their index in a set of rows.

    Attributes:
        on_step: Is called for each refusal, and by whoever else does one of many things.
    """

    def __init__(self, rows: Rows, on_step: OnStep | None = None) -> None:
        self.on_step = on_step or _go_on
        self._rows = rows
        self._reasons: dict[int, list[str]] = {}

    def __contains__(self, series: int) -> bool:
        return series in self._reasons

    def add(self, series: int, reason: str) -> None:
        """Refuse a series, for one more reason if it was refused before."""
        self.on_step()
        self._reasons.setdefault(series, []).append(reason)

    def alive(self) -> Bool[np.ndarray, " n"]:
        """Which series are not refused."""
        alive = np.ones(len(self._rows.ids), dtype=bool)
        alive[list(self._reasons)] = False
        return alive

    def refusals(self) -> tuple[Refusal, ...]:
        """All refusals, those that the rows came with included, by position."""
        new = [
            Refusal(
                int(self._rows.positions[series]), id_at(self._rows.ids, series), " ".join(reasons)
            )
            for series, reasons in self._reasons.items()
        ]
        return tuple(sorted([*self._rows.refusals, *new], key=lambda refusal: refusal.position))


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows in order of series and stamp.

    Attributes:
        rows: The rows as they came.
        order: Where each sorted row stood in `rows`; None where they were sorted already.
        stamps: The sorted stamps.
        series: Series of each row.
        counts: Rows of each series.
        first: First stamp of each series; 0 for one without rows.
        last: Last stamp of each series; 0 for one without rows.
    """

    rows: Rows
    order: Int64[np.ndarray, " N"] | None
    stamps: Int64[np.ndarray, " N"]
    series: Int64[np.ndarray, " N"]
    counts: Int64[np.ndarray, " n"]
    first: Int64[np.ndarray, " n"]
    last: Int64[np.ndarray, " n"]

    @classmethod
    def of(cls, rows: Rows) -> "SortedRows":
        """Sort rows by stamp within each series."""
        counts = np.diff(rows.indptr)
        series = np.repeat(np.arange(len(counts)), counts)
        stamps, order = rows.stamps, None
        if ((stamps[1:] < stamps[:-1]) & (series[1:] == series[:-1])).any():
            order = order_within(stamps, rows.indptr)
            stamps = stamps[order]
        first, last = np.zeros((2, len(counts)), dtype=np.int64)
        filled = counts > 0
        first[filled] = stamps[rows.indptr[:-1][filled]]
        last[filled] = stamps[rows.indptr[1:][filled] - 1]
        return cls(rows, order, stamps, series, counts, first, last)

    def stamps_of(self, series: int) -> Int64[np.ndarray, " k"]:
        """Take the stamps of one series."""
        return self.stamps[self.rows.indptr[series] : self.rows.indptr[series + 1]]

    def name(self, stamp: int | np.int64) -> str:
        """Write a stamp for a person."""
        return describe_stamp(stamp, self.rows.stamp_kind, self.rows.time_zone)

    def pick(self, values: np.ndarray) -> np.ndarray:
        """Put an array by row into sorted order."""
        return values if self.order is None else values[self.order]


@dataclass(frozen=True, slots=True)
class Alike:
    """Series whose grids differ by no more than the multiple, so that all are laid at once.

    Stray stamps may give each of 10,000 series a multiple of its own.

    Attributes:
        frequency: Of all of them, but for the multiple.
        members: The series.
        multiples: Of each, where they differ; see `Frequency.after`.
    """

    frequency: Frequency
    members: Int64[np.ndarray, " k"]
    multiples: Int64[np.ndarray, " k"] | None


def by_frequency(
    frequencies: Sequence[Frequency | None], alive: Bool[np.ndarray, " n"]
) -> Iterable[Alike]:
    """Yield the living series that have a frequency, those that are alike together."""
    groups: dict[Frequency, list[int]] = {}
    for series in np.flatnonzero(alive).tolist():
        frequency = frequencies[series]
        if frequency is not None:
            groups.setdefault(frequency, []).append(series)
    alike: dict[Frequency, list[Frequency]] = {}
    for frequency in groups:
        key = replace(frequency, multiple=min(frequency.multiple, 2))
        alike.setdefault(key, []).append(frequency)
    for members in alike.values():
        series_of = [groups[frequency] for frequency in members]
        multiples = np.repeat([one.multiple for one in members], list(map(len, series_of)))
        yield Alike(
            members[0],
            np.array(list(chain.from_iterable(series_of)), dtype=np.int64),
            multiples if len(members) > 1 else None,
        )


def ranges(
    indptr: Int64[np.ndarray, " n1"], members: Int64[np.ndarray, " k"]
) -> tuple[Int64[np.ndarray, " K"], Int64[np.ndarray, " k1"]]:
    """List the rows of some series one after the other, and where each of these begins."""
    starts = indptr[members]
    counts = indptr[members + 1] - starts
    begins = np.concatenate([[0], np.cumsum(counts)])
    return np.arange(begins[-1]) + np.repeat(starts - begins[:-1], counts), begins


def refuse_unusable(table: SortedRows, refused: Refused) -> None:
    """Refuse series without rows, without a value, or with two rows of one stamp."""
    observed = table.series[~np.isnan(table.pick(table.rows.target))]
    seen = np.bincount(observed, minlength=len(table.counts))
    for series in np.flatnonzero(seen == 0).tolist():
        what = "it has no rows" if table.counts[series] == 0 else "all its values are blank"
        refused.add(series, f"{what}; give it at least one value.")
    twice = (table.stamps[1:] == table.stamps[:-1]) & (table.series[1:] == table.series[:-1])
    for series in np.unique(table.series[1:][twice]).tolist():
        refused.add(series, _repeated(table, table.stamps_of(series)))


def _repeated(table: SortedRows, stamps: Int64[np.ndarray, " k"]) -> str:
    distinct, counts = np.unique(stamps, return_counts=True)
    places = np.flatnonzero(counts > 1)
    named = listed(places, lambda place: f"{table.name(distinct[place])} has {counts[place]} rows")
    inside_days = table.rows.stamp_kind == "naive" and (distinct[places] % DAY_NS).all()
    hint = " (if a clock was set back, write stamps with offsets)" if inside_days else ""
    return f"{named}; keep one row a stamp{hint}."


def lay(
    table: SortedRows,
    frequencies: Sequence[Frequency | None],
    horizon: int,
    refused: Refused,
) -> Int64[np.ndarray, " N"]:
    """Count each row's steps from the first row of its series.

    Refuses series with stamps off their grid, with two rows in one step, with nearly nothing but
    gaps, or with a horizon past the last stamp that can be written.
    """
    positions = np.zeros(len(table.stamps), dtype=np.int64)
    off_grid: list[Int64[np.ndarray, " k"]] = []
    too_far: list[int] = []
    for alike in by_frequency(frequencies, refused.alive()):
        refused.on_step()
        frequency, members, multiples = alike.frequency, alike.members, alike.multiples
        rows, begins = ranges(table.rows.indptr, members)
        owners = np.repeat(np.arange(len(members)), np.diff(begins))
        first, last, zone = table.first[members], table.last[members], table.rows.time_zone
        steps, on_grid = frequency.positions(
            table.stamps[rows], first, owners, zone, multiples=multiples
        )
        positions[rows] = steps
        off_grid.append(rows[~on_grid])
        too_far += members[~frequency.reaches(last, horizon, multiples=multiples)].tolist()
    if off_grid:  # all at once: stray stamps may give every series a frequency of its own
        _refuse_off_grid(table, frequencies, np.sort(np.concatenate(off_grid)), refused)
    for series in too_far:
        refused.add(
            series,
            f"{horizon} steps of {str(frequencies[series])!r} after "
            f"{table.name(table.last[series])} lead past the last stamp that can be written; ask "
            "for a shorter horizon.",
        )
    _refuse_crowded(table, frequencies, positions, refused)
    _refuse_sparse(table, frequencies, grid_lengths(table, positions), refused)
    return positions


def grid_lengths(table: SortedRows, positions: Int64[np.ndarray, " N"]) -> Int64[np.ndarray, " n"]:
    """Count the steps from each series' first to its last row."""
    lengths = np.zeros(len(table.counts), dtype=np.int64)
    filled = table.counts > 0
    lengths[filled] = positions[table.rows.indptr[1:][filled] - 1] + 1
    return lengths


def _refuse_off_grid(
    table: SortedRows,
    frequencies: Sequence[Frequency | None],
    rows: Int64[np.ndarray, " k"],
    refused: Refused,
) -> None:
    if not rows.size:
        return
    kind, zone = table.rows.stamp_kind, table.rows.time_zone
    series, starts = np.unique(table.series[rows], return_index=True)
    all_rows, begins = ranges(table.rows.indptr, series)
    stepping = candidates(table.stamps[all_rows], begins, kind, zone)
    wrong_rows = np.split(rows, starts[1:])
    for one, wrong, fitting in zip(series.tolist(), wrong_rows, stepping, strict=True):
        frequency = frequencies[one]
        assert frequency is not None
        names = listed(table.stamps[wrong], table.name)
        refused.add(
            one,
            f"{names} {'is' if len(wrong) == 1 else 'are'} off the grid of {frequency.alias!r} "
            f"that starts at {table.name(table.first[one])}; correct the stamps, or give the "
            f"frequency they step by (freq).{_hint(frequency, fitting, kind)}",
        )


def _hint(refused: Frequency, stepping: tuple[Frequency, ...], kind: StampKind) -> str:
    """Say what was probably meant: W-MON where W was given for Mondays."""
    if kind == "zoned" and refused.same_rhythm(Frequency("D")):
        # Local midnights are 23 or 25 hours apart twice a year.
        return " If they keep a local time of day, give its time_zone."
    if len(stepping) != 1 or stepping[0] == refused:
        return ""
    return f" Most of its rows step by {stepping[0].alias!r}."


def _refuse_crowded(
    table: SortedRows,
    frequencies: Sequence[Frequency | None],
    positions: Int64[np.ndarray, " N"],
    refused: Refused,
) -> None:
    """Refuse two rows in one step: the same local time of a day whose clock was set back."""
    same = (positions[1:] == positions[:-1]) & (table.series[1:] == table.series[:-1])
    for row in np.flatnonzero(same & refused.alive()[table.series[1:]]).tolist():
        series = int(table.series[row])
        refused.add(
            series,
            f"{table.name(table.stamps[row])} and {table.name(table.stamps[row + 1])} fall into "
            f"one step of {str(frequencies[series])!r}; keep one row a step.",
        )


def _refuse_sparse(
    table: SortedRows,
    frequencies: Sequence[Frequency | None],
    lengths: Int64[np.ndarray, " n"],
    refused: Refused,
) -> None:
    sparse = (lengths > LONG_GRID) & (table.counts < LEAST_SHARE * lengths)
    sparse |= (lengths < 1) & (table.counts > 0)  # nanoseconds over centuries overflow
    for series in np.flatnonzero(sparse & refused.alive()).tolist():
        refused.add(
            series,
            f"its {table.counts[series]} rows from {table.name(table.first[series])} to "
            f"{table.name(table.last[series])} leave nearly all steps of "
            f"{str(frequencies[series])!r} empty; correct stray stamps, or the frequency (freq).",
        )


def listed(
    things: Sequence[Any] | np.ndarray, name: Callable[[Any], str], limit: int = _NAMED
) -> str:
    """Name the first few things: "a, b and 20 more"."""
    more = f" and {len(things) - limit} more" if len(things) > limit else ""
    return ", ".join(name(thing) for thing in things[:limit]) + more
