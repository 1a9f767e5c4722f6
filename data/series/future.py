"""Known-future covariates: each value finds its series and step by id and stamp.

Axes: n series, H horizon, F known-future covariates, M rows of the future table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from foretell.data.calendars.calendar import Frequency
from foretell.data.calendars.zones import StampKind
from foretell.data.errors import TableError
from foretell.data.series.grid import Refused, SortedRows, by_frequency, listed, ranges
from foretell.data.series.ids import id_at
from foretell.data.series.panel import Rows

_NAMED = 50
# How a refusal begins whose cause stands there.
FUTURE_TABLE = "in the future table, "


@dataclass(frozen=True, slots=True)
class KnownFuture:
    """The known-future covariates of all series.

    Attributes:
        values: NaN where a series was refused.
        warnings: What was not used, a sentence each.
    """

    values: Float64[np.ndarray, "n H F"]
    warnings: tuple[str, ...] = ()


def align_future(
    table: SortedRows,
    future: Rows | None,
    names: Sequence[str],
    frequencies: Sequence[Frequency | None],
    horizon: int,
    refused: Refused,
) -> KnownFuture:
    """Find the value of every known-future covariate at every step of the horizon.

    Refuses series with a step that has no row, several rows, or a blank, naming every such id and
    stamp. Rows of unknown ids and rows after the horizon are not used, with a warning; rows of the
    past are not used either, without one, because many tables hold past and future together.

    Raises:
        TableError: The model needs covariates and `future` is None, or its stamps or ids are of
            another kind.
    """
    owner, strangers = match_future(table.rows, future, names)
    shape = (len(table.counts), horizon, len(names))
    if future is None or not names:
        return KnownFuture(np.empty(shape), strangers)
    alive = refused.alive()
    steps = _steps(table, future, owner, frequencies, horizon, alive)
    _pass_on_refusals(table.rows, future, refused)
    used = np.flatnonzero(steps >= 0)
    slots = owner[used] * horizon + steps[used]
    values = np.full(shape, np.nan)
    values.reshape(-1, len(names))[slots] = future.covariates[used]
    counts = np.bincount(slots, minlength=shape[0] * horizon).reshape(shape[:2])
    _refuse_incomplete(table, _Filled(values, counts, tuple(names)), frequencies, refused)
    unused = np.flatnonzero((steps < 0) & (owner >= 0))
    return KnownFuture(
        values, (*strangers, *_late_rows(table, future, owner, unused[alive[owner[unused]]]))
    )


@dataclass(frozen=True, slots=True)
class _Filled:
    values: Float64[np.ndarray, "n H F"]
    counts: Int64[np.ndarray, "n H"]
    names: tuple[str, ...]

    def wrong(self) -> Bool[np.ndarray, "n H"]:
        blank = np.isnan(self.values).any(axis=2)
        return np.where(self.counts == 1, blank, True)

    def describe(self, series: int, step: int | np.int64) -> str:
        count = self.counts[series, step]
        if count != 1:
            return f"has {count} rows" if count else "has no row"
        blank = np.flatnonzero(np.isnan(self.values[series, step]))
        return f"has a blank {', '.join(repr(self.names[place]) for place in blank)}"


def match_future(
    rows: Rows, future: Rows | None, names: Sequence[str]
) -> tuple[Int64[np.ndarray, " M"], tuple[str, ...]]:
    """Find the series that each row of the future table belongs to.

    Returns:
        Places in `rows.ids`, -1 for none; and warnings of what can't be used.

    Raises:
        TableError: See `align_future`.
    """
    if not names:
        unused = "the model uses no known-future covariates; the future table is not used."
        return np.empty(0, np.int64), (unused,) if future is not None else ()
    if future is None:
        raise TableError(
            f"the model needs {', '.join(map(repr, names))} over the horizon; give a table of these"
            " with ids and stamps (future)."
        )
    check_kinds(rows.stamp_kind, future.stamp_kind)
    series = np.asarray(rows.ids.get_indexer(future.ids), dtype=np.int64)
    refused = {refusal.unique_id for refusal in rows.refusals}
    unknown = [id_at(future.ids, place) for place in np.flatnonzero(series < 0).tolist()]
    unknown = [unique_id for unique_id in unknown if unique_id not in refused]
    if unknown and len(unknown) == len(series) and len(rows.ids):
        raise TableError(all_unknown(unknown[0], id_at(rows.ids, 0)))
    owner = np.repeat(series, np.diff(future.indptr))
    if not unknown:
        return owner, ()
    return owner, (some_unknown(unknown),)


def check_kinds(history: StampKind, future: StampKind) -> None:
    """Refuse a future table whose stamps are of another kind than those of the history.

    Raises:
        TableError: They are.
    """
    if future != history:
        raise TableError(
            f"the stamps of the future table are {future}, those of the history are {history}; "
            "write both alike."
        )


def all_unknown(theirs: object, ours: object) -> str:
    """Say that no id of the future table is one of the history, with an example of each."""
    return (
        f"the future table has none of the history's ids: it has {theirs!r}, the history {ours!r}; "
        "write ids alike, of one type."
    )


def some_unknown(unknown: Sequence[object]) -> str:
    """Name the ids of the future table that the history hasn't."""
    named = listed(unknown, str, _NAMED)
    return f"the future table has rows of unknown ids, which are not used: {named}."


def _steps(
    table: SortedRows,
    future: Rows,
    owner: Int64[np.ndarray, " M"],
    frequencies: Sequence[Frequency | None],
    horizon: int,
    alive: Bool[np.ndarray, " n"],
) -> Int64[np.ndarray, " M"]:
    """Find the step of the horizon that each row belongs to, from 0; -1 for none."""
    steps = np.full(len(owner), -1, dtype=np.int64)
    order = np.argsort(owner, kind="stable")
    indptr = np.searchsorted(owner, np.arange(len(alive) + 1), sorter=order)
    for alike in by_frequency(frequencies, alive):
        members = alike.members
        places, begins = ranges(indptr, members)
        rows = order[places]
        positions, on_grid = alike.frequency.positions(
            future.stamps[rows],
            table.last[members],
            np.repeat(np.arange(len(members)), np.diff(begins)),
            table.rows.time_zone,
            multiples=alike.multiples,
        )
        ahead = on_grid & (positions >= 1) & (positions <= horizon)
        steps[rows[ahead]] = positions[ahead] - 1
    return steps


def _pass_on_refusals(rows: Rows, future: Rows, refused: Refused) -> None:
    """Refuse the series whose rows of the future table could not be read."""
    if not future.refusals:
        return
    names = pd.Index([refusal.unique_id for refusal in future.refusals])
    places = rows.ids.get_indexer(names)
    for place, refusal in zip(places.tolist(), future.refusals, strict=True):
        if place >= 0:
            refused.add(place, f"{FUTURE_TABLE}{refusal.reason}")


def _refuse_incomplete(
    table: SortedRows,
    filled: _Filled,
    frequencies: Sequence[Frequency | None],
    refused: Refused,
) -> None:
    wrong = filled.wrong()
    for series in np.flatnonzero(wrong.any(axis=1) & refused.alive()).tolist():
        frequency, last = frequencies[series], table.last[series : series + 1]
        assert frequency is not None  # a living series has one
        stamps = frequency.after(last, filled.counts.shape[1], table.rows.time_zone)[0]
        named = listed(
            np.flatnonzero(wrong[series]),
            partial(_describe_step, table, filled, series, stamps),
            _NAMED,
        )
        refused.add(
            series,
            f"{FUTURE_TABLE}{named}; give each step of the horizon one row with all values.",
        )


def _describe_step(
    table: SortedRows,
    filled: _Filled,
    series: int,
    stamps: Int64[np.ndarray, " H"],
    step: int | np.int64,
) -> str:
    place = f"({table.rows.ids[series]}, {table.name(stamps[step])})"
    return f"{place} {filled.describe(series, step)}"


def _late_rows(
    table: SortedRows,
    future: Rows,
    owner: Int64[np.ndarray, " M"],
    unused: Int64[np.ndarray, " k"],
) -> tuple[str, ...]:
    """Warn of unused rows after the last row of their series."""
    late = unused[future.stamps[unused] > table.last[owner[unused]]]
    if not late.size:
        return ()
    named = listed(
        late,
        lambda row: f"({table.rows.ids[owner[row]]}, {table.name(future.stamps[row])})",
        _NAMED,
    )
    return (f"the future table has rows outside the horizon, which are not used: {named}.",)
