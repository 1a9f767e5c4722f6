"""Rolling windows: the same series cut at several points, so that what came next is known.

Axes: n series, N steps of all series together, H horizon.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from foretell.data.calendar import Frequency
from foretell.data.panel import Panel, Rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """One cut through many series.

    Attributes:
        context: The steps before the cut, one row a step, unobserved ones too.
        future: Known-future covariates over the horizon; None where the model has none.
        actual: What happened over the horizon; NaN where unobserved.
        series: Which series of the panel these are; others are too short for this window.
    """

    context: Rows
    future: Rows | None
    actual: Float64[np.ndarray, "n H"]
    series: Int64[np.ndarray, " n"]


def rolling_windows(
    panel: Panel,
    stamps: Int64[np.ndarray, " N"],
    *,
    horizon: int,
    num_windows: int,
    num_future: int,
) -> Iterator[Window]:
    """Cut `num_windows` times, `horizon` steps apart; the last window ends where the series end.

    Args:
        panel: The whole series.
        stamps: Their `grid_stamps`.
        horizon: Steps in a window.
        num_windows: Windows, the earliest first.
        num_future: How many of the panel's covariates are known for the future; they come first.
    """
    for back in range(num_windows, 0, -1):
        cuts = panel.indptr[1:] - back * horizon
        series = np.flatnonzero([_has_past(panel, i, int(cut)) for i, cut in enumerate(cuts)])
        if series.size:
            yield _window(panel, stamps, series, cuts[series], horizon, num_future)


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


def _has_past(panel: Panel, series: int, cut: int) -> bool:
    return not np.isnan(panel.target[panel.indptr[series] : max(cut, panel.indptr[series])]).all()


def _window(
    panel: Panel,
    stamps: Int64[np.ndarray, " N"],
    series: Int64[np.ndarray, " n"],
    cuts: Int64[np.ndarray, " n"],
    horizon: int,
    num_future: int,
) -> Window:
    starts = panel.indptr[series]
    past = np.concatenate([np.arange(a, b) for a, b in zip(starts, cuts, strict=True)])
    ahead = cuts[:, None] + np.arange(horizon)
    context = _rows(panel, stamps, series, past, cuts - starts)
    future = None
    if num_future:
        steps = np.full(series.size, horizon)
        future = _rows(panel, stamps, series, ahead.ravel(), steps, num_future=num_future)
    return Window(context=context, future=future, actual=panel.target[ahead], series=series)


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
