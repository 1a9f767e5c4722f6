"""Rolling windows: the same series cut at several points, so that what came next is known.

Axes: n series, N steps of all series together, H horizon.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from foretell.data.calendars.calendar import Frequency
from foretell.data.series.panel import Panel, Rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """A window of all series that are long enough for it.

    Attributes:
        number: Which window, from 0, the earliest first.
        series: Which series of the panel stand in it.
        ends: Where in the panel each one's past ends and its horizon begins.
    """

    number: int
    series: Int64[np.ndarray, " n"]
    ends: Int64[np.ndarray, " n"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Some series of a cut.

    Attributes:
        context: The steps before the cut, one row a step, unobserved ones too.
        future: Known-future covariates over the horizon; None where the model has none.
        actual: What happened over the horizon; NaN where unobserved.
        series: Which series of the panel these are.
    """

    context: Rows
    future: Rows | None
    actual: Float64[np.ndarray, "n H"]
    series: Int64[np.ndarray, " n"]


def cuts(panel: Panel, *, horizon: int, num_windows: int) -> Iterator[Cut]:
    """Cut `num_windows` times, `horizon` steps apart; the last window ends where the series end.

    A series without an observed value before a cut doesn't stand in that window; a window without
    any series is left out.
    """
    observed = np.concatenate([[0], np.cumsum(~np.isnan(panel.target))])
    number = 0
    for back in range(num_windows, 0, -1):
        ends = np.maximum(panel.indptr[1:] - back * horizon, panel.indptr[:-1])
        series = np.flatnonzero(observed[ends] > observed[panel.indptr[:-1]])
        if series.size:
            yield Cut(number=number, series=series, ends=ends[series])
            number += 1


def pieces(panel: Panel, cut: Cut, *, most_steps: int, most_series: int) -> Iterator[Cut]:
    """Take a cut apart into pieces of so many steps or series, and at least one series each."""
    lengths = cut.ends - panel.indptr[cut.series]
    first = 0
    while first < cut.series.size:
        within = np.cumsum(lengths[first : first + most_series]) <= most_steps
        last = first + max(int(within.sum()), 1)
        yield Cut(number=cut.number, series=cut.series[first:last], ends=cut.ends[first:last])
        first = last


def lay_window(
    panel: Panel, stamps: Int64[np.ndarray, " N"], cut: Cut, *, horizon: int, num_future: int
) -> Window:
    """Lay the rows of a cut or of a piece of one.

    Args:
        panel: The whole series.
        stamps: Their `grid_stamps`.
        cut: Where they are cut.
        horizon: Steps in a window.
        num_future: How many of the panel's covariates are known for the future; they come first.
    """
    series, starts = cut.series, panel.indptr[cut.series]
    lengths = cut.ends - starts
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    past = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], lengths)
    ahead = cut.ends[:, None] + np.arange(horizon)
    context = _rows(panel, stamps, series, past, lengths)
    future = None
    if num_future:
        steps = np.full(series.size, horizon)
        future = _rows(panel, stamps, series, ahead.ravel(), steps, num_future=num_future)
    return Window(context=context, future=future, actual=panel.target[ahead], series=series)


def grid_stamps(panel: Panel, rows: Rows) -> Int64[np.ndarray, " N"]:
    """Stamps of every step of a panel's grid, those of missing rows too.

    Args:
        panel: The series on their grids.
        rows: The rows that the panel was made of.
    """
    counts = np.diff(rows.indptr)
    starts = np.full(counts.size, np.iinfo(np.int64).max)
    np.minimum.at(starts, np.repeat(np.arange(counts.size), counts), rows.stamps)
    starts = starts[rows.ids.get_indexer(panel.ids)]
    lengths = np.diff(panel.indptr)
    stamps = np.empty(panel.target.size, dtype=np.int64)
    alike: dict[tuple[Frequency, int], list[int]] = {}
    for i, frequency in enumerate(panel.frequencies):
        alike.setdefault((frequency, int(lengths[i])), []).append(i)
    for (frequency, length), series in alike.items():
        first = starts[series]
        later = frequency.after(first, length - 1, panel.time_zone)
        places = panel.indptr[series][:, None] + np.arange(length)
        stamps[places] = np.concatenate([first[:, None], later], axis=1)
    return stamps


def _rows(
    panel: Panel,
    stamps: Int64[np.ndarray, " N"],
    series: Int64[np.ndarray, " n"],
    steps: Int64[np.ndarray, " R"],
    lengths: Int64[np.ndarray, " n"],
    *,
    num_future: int | None = None,
) -> Rows:
    """Rows of chosen steps; with `num_future`, of the known-future covariates alone."""
    is_future = num_future is not None
    return Rows(
        ids=panel.ids[series],
        indptr=np.concatenate([[0], np.cumsum(lengths)]),
        stamps=stamps[steps],
        stamp_kind=panel.stamp_kind,
        time_zone=panel.time_zone,
        target=np.empty(0) if is_future else panel.target[steps],
        covariates=panel.context_covariates[steps, :num_future],
        static=panel.static[series, :0] if is_future else panel.static[series],
        positions=np.arange(series.size),
    )
