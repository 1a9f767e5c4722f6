"""Picks from a table and its answer what a picture shows."""

import numpy as np
import pandas as pd
from jaxtyping import Shaped

from foretell.data.series.options import Columns
from foretell.data.series.panel import StampKind
from foretell.data.series.rows import read_rows
from foretell.jobs.pictures.plot import MAX_PANELS, SeriesPicture

# Enough past to see the season, little enough to see the horizon.
_HORIZONS_OF_HISTORY = 6
_LEAST_HISTORY = 48


def pictures(
    table: pd.DataFrame,
    answer: pd.DataFrame,
    *,
    columns: Columns,
    actual: pd.DataFrame | None = None,
) -> list[SeriesPicture]:
    """Gather the first answered series, at most six.

    Args:
        table: What was forecast.
        answer: The forecast of it.
        columns: Names of the table's columns.
        actual: Rows of the same form over the horizon, where they are known.
    """
    ids = answer[columns.unique_id].drop_duplicates().head(MAX_PANELS)
    past = _typed(table, ids, columns)
    known = {} if actual is None else _typed(actual, ids, columns)
    return [
        _picture(series_id, past[series_id], known.get(series_id), answer, columns)
        for series_id in ids
    ]


_Series = tuple[Shaped[np.ndarray, " T"], Shaped[np.ndarray, " T"]]


def _typed(table: pd.DataFrame, ids: pd.Series, columns: Columns) -> dict[object, _Series]:
    """Times and values of each series, sorted by time."""
    rows = read_rows(table[table[columns.unique_id].isin(ids)], columns)
    series = {}
    for i, series_id in enumerate(rows.ids):
        own = slice(rows.indptr[i], rows.indptr[i + 1])
        order = np.argsort(rows.stamps[own], kind="stable")
        times = clock_times(rows.stamps[own][order], rows.stamp_kind, rows.time_zone)
        series[series_id] = (times, rows.target[own][order])
    return series


def clock_times(
    stamps: Shaped[np.ndarray, " T"], kind: StampKind, time_zone: str | None
) -> Shaped[np.ndarray, " T"]:
    """Turn stamps into times as they are drawn: whole numbers, or the local clock's."""
    if kind == "integer":
        return stamps
    if kind == "naive":
        return stamps.view("datetime64[ns]")
    return _local(pd.DatetimeIndex(stamps, tz="UTC").tz_convert(time_zone))


def _local(times: pd.DatetimeIndex) -> Shaped[np.ndarray, " T"]:
    return times.tz_localize(None).to_numpy()


def _picture(
    series_id: object,
    past: _Series,
    known: _Series | None,
    answer: pd.DataFrame,
    columns: Columns,
) -> SeriesPicture:
    own = answer[answer[columns.unique_id] == series_id]
    times = own[columns.ds]
    names = sorted(
        (name for name in own.columns if name.startswith("q") and _is_level(name[1:])),
        key=lambda name: float(name[1:]),
    )
    shown = max(_LEAST_HISTORY, _HORIZONS_OF_HISTORY * len(own))
    horizon = _local(pd.DatetimeIndex(times)) if times.dtype.kind == "M" else times.to_numpy()
    return SeriesPicture(
        title=str(series_id),
        past_times=past[0][-shown:],
        past=past[1][-shown:],
        times=horizon,
        quantile_levels=tuple(float(name[1:]) for name in names),
        quantiles=own[names].to_numpy(np.float64),
        forecast=own["forecast"].to_numpy(np.float64),
        actual=None if known is None else known[1][: len(own)],
    )


def _is_level(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False
