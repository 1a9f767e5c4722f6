"""From typed rows to regular grids: sorted, one frequency a series, NaN where a step has no value.

Axes: N rows or steps of all series together, n series, C covariates.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

from foretell.data.series.choosing import ANY_FREQUENCY, choose_frequencies
from foretell.data.series.future import align_future
from foretell.data.series.grid import (
    OnStep,
    Refused,
    SortedRows,
    grid_lengths,
    lay,
    refuse_unusable,
)
from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import Panel, Rows


def regularise(
    rows: Rows,
    *,
    options: ForecastOptions,
    future: Rows | None = None,
    future_names: Sequence[str] = (),
    model_frequency: str = ANY_FREQUENCY,
    max_steps: int | None = None,
    on_step: OnStep | None = None,
) -> Panel:
    """Lay each series on its regular grid.

    Rows may come in any order. A step without a row, or with a blank, is NaN; blanks at the end
    belong to the context, so the forecast starts after the last row. Each series has its own
    frequency: `options.freq`, or the one inferred from its rows; where these fit several, or are
    too few, the model's, if the model has one.

    Args:
        rows: History.
        options: Horizon and frequency.
        future: Known-future covariates; rows outside the horizon are not used.
        future_names: Names of the model's known-future covariates, in order.
        model_frequency: Frequency the model was trained for, or "any".
        max_steps: At least 1: lay only the last so many steps of each grid, as far as the model
            looks back, which bounds the memory by series x `max_steps` however far apart rows lie.
            All rows are checked, and decide the frequency, all the same. None lays whole grids.
        on_step: Called for each frequency that is laid and each series that is refused, which are
            what takes long; what it raises ends the work.

    Raises:
        FrequencyError: `options.freq` or `model_frequency` is unknown, doesn't fit the kind of
            stamps, or the two differ and `options.allow_other_frequency` is not set.
        TableError: Known-future covariates are needed and there are none, or they don't fit the
            history at all.
    """
    table = SortedRows.of(rows)
    refused = Refused(rows, on_step)
    refuse_unusable(table, refused)
    frequencies = choose_frequencies(table, options, model_frequency, refused)
    positions = lay(table, frequencies, options.horizon, refused)
    known = align_future(table, future, future_names, frequencies, options.horizon, refused)
    keep = refused.alive()
    indptr, target, covariates = _fill(table, positions, keep, max_steps)
    return Panel(
        ids=rows.ids[keep],
        frequencies=tuple(
            frequency
            for frequency, kept in zip(frequencies, keep.tolist(), strict=True)
            if kept and frequency is not None
        ),
        last=table.last[keep],
        stamp_kind=rows.stamp_kind,
        time_zone=rows.time_zone,
        indptr=indptr,
        target=target,
        context_covariates=covariates,
        horizon_covariates=known.values[keep],
        static=rows.static[keep],
        refusals=refused.refusals(),
        warnings=known.warnings,
    )


def _fill(
    table: SortedRows,
    positions: Int64[np.ndarray, " M"],
    keep: Bool[np.ndarray, " n"],
    max_steps: int | None,
) -> tuple[Int64[np.ndarray, " n1"], Float64[np.ndarray, " N"], Float64[np.ndarray, "N C"]]:
    """Write the values of the kept series at their last steps, NaN everywhere else."""
    lengths = grid_lengths(table, positions)[keep]
    laid = lengths if max_steps is None else np.minimum(lengths, max_steps)
    indptr = np.concatenate([[0], np.cumsum(laid)])
    target, covariates = table.pick(table.rows.target), table.pick(table.rows.covariates)
    if keep.all() and len(target) == lengths.sum() == indptr[-1]:  # every step has its row
        return indptr, target, covariates
    first, starts = np.zeros((2, len(keep)), dtype=np.int64)
    first[keep] = lengths - laid  # the first step that is laid
    starts[keep] = indptr[:-1]
    rows = keep[table.series] & (positions >= first[table.series])
    steps = ((starts - first)[table.series] + positions)[rows]
    target_grid = np.full(indptr[-1], np.nan)
    target_grid[steps] = target[rows]
    covariate_grid = np.full((indptr[-1], covariates.shape[1]), np.nan)
    covariate_grid[steps] = covariates[rows]
    return indptr, target_grid, covariate_grid
