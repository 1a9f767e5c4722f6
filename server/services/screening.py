"""Refuses, one by one, the series that no forecaster can take; the others go on.

Rows that a table's reader made have passed this already; rows from any other client have not.
"""

from dataclasses import replace

import numpy as np

from foretell.data.bundles.bundle import ForecasterSpec
from foretell.data.errors import Refusal
from foretell.data.series.panel import Rows
from foretell.data.series.values import LARGEST_VALUE

_NO_STAMP = np.iinfo(np.int64).min  # pandas reads it as NaT


def screen(rows: Rows, spec: ForecasterSpec, max_steps: int) -> Rows:
    """Take out series without rows, with infinite or huge values, or with impossible stamps.

    Args:
        rows: Of the past.
        spec: The model's.
        max_steps: Most rows of a series; one with more is taken out too.

    Returns:
        The rows of the other series; a refusal with the first reason for each series taken out.
    """
    reasons: dict[int, str] = {}
    for series in np.flatnonzero(np.diff(rows.indptr) == 0).tolist():
        reasons[series] = "it has no rows; give it at least one."
    _refuse_long(rows, max_steps, reasons)
    _refuse_values(rows.target, "target", rows.indptr, reasons)
    _refuse_static(rows.static, spec.static, reasons)
    _refuse_rows(rows, (*spec.future_covariates, *spec.past_covariates), reasons)
    return _without(rows, reasons)


def screen_future(rows: Rows, spec: ForecasterSpec, max_steps: int) -> Rows:
    """Do the same for the rows of known-future covariates, where a series may have none."""
    reasons: dict[int, str] = {}
    _refuse_long(rows, max_steps, reasons)
    _refuse_rows(rows, spec.future_covariates, reasons)
    return _without(rows, reasons)


def _refuse_long(rows: Rows, max_steps: int, reasons: dict[int, str]) -> None:
    lengths = np.diff(rows.indptr)
    for series in np.flatnonzero(lengths > max_steps).tolist():
        reasons[series] = (
            f"it has {lengths[series]:,} rows; this server takes at most {max_steps:,} of a series "
            "(--max-steps). Send the last ones."
        )


def _refuse_rows(rows: Rows, names: tuple[str, ...], reasons: dict[int, str]) -> None:
    for column, name in enumerate(names):
        _refuse_values(rows.covariates[:, column], f"covariate {name!r}", rows.indptr, reasons)
    if rows.stamp_kind != "integer":
        for series, row, _ in _first(rows.stamps == _NO_STAMP, rows.indptr):
            reasons.setdefault(series, f"row {row + 1} has no time stamp; send one for each row.")


def _refuse_static(static: np.ndarray, names: tuple[str, ...], reasons: dict[int, str]) -> None:
    for series, column in np.argwhere(~(np.abs(static) <= LARGEST_VALUE)).tolist():
        reasons.setdefault(
            series,
            f"static covariate {names[column]!r} is {static[series, column]:g}; "
            f"expected a number within ±{LARGEST_VALUE:g}.",
        )


def _refuse_values(
    values: np.ndarray, name: str, indptr: np.ndarray, reasons: dict[int, str]
) -> None:
    bad = ~np.isnan(values) & ~(np.abs(values) <= LARGEST_VALUE)
    for series, row, at in _first(bad, indptr):
        reasons.setdefault(
            series,
            f"{name} is {values[at]:g} in row {row + 1}; expected a number within "
            f"±{LARGEST_VALUE:g}, or NaN where nothing was observed.",
        )


def _first(bad: np.ndarray, indptr: np.ndarray) -> list[tuple[int, int, int]]:
    """First bad row of each series: the series, the row within it, the row among all."""
    at = np.flatnonzero(bad)
    series, first = np.unique(np.searchsorted(indptr, at, side="right") - 1, return_index=True)
    return list(
        zip(series.tolist(), (at[first] - indptr[series]).tolist(), at[first].tolist(), strict=True)
    )


def _without(rows: Rows, reasons: dict[int, str]) -> Rows:
    if not reasons:
        return rows
    lengths = np.diff(rows.indptr)
    keep = np.ones(len(lengths), bool)
    keep[list(reasons)] = False
    keep_rows = np.repeat(keep, lengths)
    refusals = [
        Refusal(int(rows.positions[series]), rows.ids[series], reasons[series])
        for series in sorted(reasons)
    ]
    return replace(
        rows,
        ids=rows.ids[keep],
        indptr=np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int64),
        stamps=rows.stamps[keep_rows],
        target=rows.target[keep_rows] if rows.target.size else rows.target,
        covariates=rows.covariates[keep_rows],
        static=rows.static[keep],
        positions=rows.positions[keep],
        refusals=(*rows.refusals, *refusals),
    )
