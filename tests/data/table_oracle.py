"""A plan of chunks held against the slow obvious way: the whole table in memory, read at once."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foretell.data.errors import TableError
from foretell.data.series.file_rows import file_rows
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Panel, Rows
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_future_rows, read_rows
from foretell.data.series.values import without_categories
from foretell.data.tables.kept_rows import MOST_BYTES
from foretell.data.tables.plan import TablePlan, plan_table
from foretell.data.tables.reading import CsvFormat, read_table

Refused = list[tuple[int, object, str]]


@dataclass
class Found:
    """A table as it was read: frames and typed rows, or why it was refused."""

    problems: tuple[str, ...] = ()
    frame: pd.DataFrame | None = None
    rows: list[Rows] | None = None
    refused: Refused | None = None
    firsts: list[int] | None = None


def wanted(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    names = {columns.unique_id, columns.ds, columns.y, *columns.static}
    names |= {*columns.future_covariates, *columns.past_covariates}
    return frame[[name for name in frame.columns if name in names]]


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Write out the texts that rows kept in memory hold as categories."""
    return frame.apply(without_categories)


def by_whole(path: Path, csv: CsvFormat, columns: Columns, *, is_future: bool = False) -> Found:
    try:
        frame = wanted(read_table(path, csv=csv, columns=columns), columns)
        rows = (read_future_rows if is_future else read_rows)(frame, columns)
    except TableError as error:
        return Found(error.problems)
    order = np.argsort(pd.factorize(frame[columns.unique_id])[0], kind="stable")
    frame.index = file_rows(np.arange(len(frame)))
    return Found((), frame.iloc[order], [rows], refusals(rows, 0), [0])


def by_chunks(
    path: Path, csv: CsvFormat, columns: Columns, work: Path, most: dict[str, int]
) -> tuple[Found, TablePlan | None]:
    try:
        plan = plan_table(path, csv=csv, columns=columns, work=work, **most)
    except TableError as error:
        return Found(error.problems), None
    chunks = [plan.read(ref.number) for ref in plan.chunks]
    rows = [read_rows(chunk.table, columns) for chunk in chunks]
    refused = [
        refusal
        for chunk, part in zip(chunks, rows, strict=True)
        for refusal in refusals(part, chunk.first_series)
    ]
    firsts = [chunk.first_series for chunk in chunks]
    frame = pd.concat([plain(chunk.table) for chunk in chunks])
    return Found((), frame, rows, refused, firsts), plan


def refusals(rows: Rows, first: int) -> Refused:
    return [(first + one.position, one.unique_id, one.reason) for one in rows.refusals]


def assert_same(path: Path, csv: CsvFormat, columns: Columns, work: Path, most_rows: int) -> None:
    """Assert that chunks give what the whole table gives: rows, types, refusals, errors.

    Whether none, some or all rows are kept in memory makes no difference.
    """
    whole = by_whole(path, csv, columns)
    for kept in (0, 200, MOST_BYTES):
        most = {"most_rows": most_rows, "most_kept_bytes": kept}
        assert_like_whole(whole, path, csv, columns, work, most)


def assert_like_whole(
    whole: Found, path: Path, csv: CsvFormat, columns: Columns, work: Path, most: dict[str, int]
) -> None:
    parts, plan = by_chunks(path, csv, columns, work, most)
    assert parts.problems == whole.problems
    if whole.problems:
        return
    assert plan is not None
    assert whole.frame is not None
    pd.testing.assert_frame_equal(parts.frame, plain(whole.frame))
    assert (parts.refused or []) == whole.refused
    assert_same_rows(parts.rows or [], (whole.rows or [])[0], parts.firsts or [])
    assert plan.num_rows == len(whole.frame)
    assert plan.num_series == whole.frame[columns.unique_id].nunique()
    assert sum(ref.num_rows for ref in plan.chunks) == plan.num_rows
    sizes = [(ref.num_rows, ref.num_series) for ref in plan.chunks]
    assert all(rows <= most["most_rows"] or series == 1 for rows, series in sizes)


def assert_same_rows(parts: list[Rows], whole: Rows, firsts: list[int]) -> None:
    ids = [name for part in parts for name in part.ids]
    assert ids == list(whole.ids)
    assert {part.stamp_kind for part in parts} == {whole.stamp_kind}
    assert {part.time_zone for part in parts} == {whole.time_zone}
    for name in ("stamps", "target", "covariates", "static"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name), err_msg=name)
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    np.testing.assert_array_equal(counts, np.diff(whole.indptr))
    positions = [first + part.positions for first, part in zip(firsts, parts, strict=True)]
    np.testing.assert_array_equal(np.concatenate(positions), whole.positions)


def assert_same_future(
    data: Path, future: Path, columns: Columns, work: Path, most_rows: int
) -> None:
    """Assert that chunks find their known-future covariates as the whole table does."""
    csv, options = CsvFormat(), ForecastOptions(horizon=2, freq="1")
    names = columns.future_covariates

    def panel(table: pd.DataFrame, ahead: pd.DataFrame) -> Panel:
        rows, known = read_rows(table, columns), read_future_rows(ahead, columns)
        return regularise(rows, options=options, future=known, future_names=names)

    tables = [read_table(path, csv=csv, columns=columns) for path in (data, future)]
    try:
        whole = panel(*tables)
    except TableError as error:
        with pytest.raises(TableError, match=re.escape(str(error))):
            plan_table(data, future=future, csv=csv, columns=columns, work=work)
        return
    plan = plan_table(data, future=future, csv=csv, columns=columns, work=work, most_rows=most_rows)
    chunks = [plan.read(ref.number) for ref in plan.chunks]
    panels = [panel(chunk.table, chunk.future) for chunk in chunks]
    assert [name for part in panels for name in part.ids] == list(whole.ids)
    known = np.concatenate([part.horizon_covariates for part in panels])
    np.testing.assert_array_equal(known, whole.horizon_covariates)
    firsts = [chunk.first_series for chunk in chunks]
    refused = [
        (first + one.position, one.reason)
        for first, part in zip(firsts, panels, strict=True)
        for one in part.refusals
    ]
    assert refused == [(one.position, one.reason) for one in whole.refusals]
    unknown = [text for text in whole.warnings if "unknown ids" in text]
    assert list(plan.warnings) == unknown
