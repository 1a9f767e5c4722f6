"""A table as training data: regular series, what may be seen of each, a fingerprint of it all."""

import hashlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Int64

from foretell.data.bundles.manifest import ANY_FREQUENCY
from foretell.data.calendars.zones import describe_stamp
from foretell.data.errors import Refusal, TableError
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Panel
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_rows
from foretell.model.windows import SeriesSet

MAX_LISTED = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingData:
    """Series with their limits.

    Attributes:
        series: The series on their regular grids.
        limits: Steps of each that training windows may hold.
        ends: Where each ends for validation: `horizon` steps later, or at its limit for none.
        refusals: Series left out.
        fingerprint: SHA-256 of ids, stamps and values.
        last_stamp: The latest stamp of the table, steps held out included.
    """

    series: SeriesSet
    limits: Int64[np.ndarray, " n"]
    ends: Int64[np.ndarray, " n"]
    refusals: tuple[Refusal, ...]
    fingerprint: str
    last_stamp: str

    @property
    def num_observed(self) -> int:
        """Observed steps that training or validation sees."""
        return int((~np.isnan(self.series.target[self.series.before(self.ends)])).sum())


def read_training_data(
    table: pd.DataFrame,
    columns: Columns,
    *,
    freq: str,
    horizon: int,
    holdout: int,
    validation: bool,
    skip_refused: bool,
) -> TrainingData:
    """Read a table for training.

    Args:
        table: A row a step, in any order.
        columns: Names of the columns, covariates included.
        freq: Frequency of all series, or "any".
        horizon: Steps held back for validation from each series that is long enough.
        holdout: Last steps of each series to leave out altogether.
        validation: Whether to hold back anything for validation.
        skip_refused: Leave out series that can't be used instead of refusing all.

    Raises:
        TableError: The table or some series can't be used, or nothing is left to train on.
    """
    panel = regularise(
        read_rows(table, columns),
        options=ForecastOptions(horizon=1, freq=None if freq == ANY_FREQUENCY else freq),
        model_frequency=freq,
    )
    if panel.refusals and not skip_refused:
        listed = [f"series {refusal}" for refusal in panel.refusals[:MAX_LISTED]]
        more = len(panel.refusals) - len(listed)
        raise TableError(
            [
                *listed,
                *([f"and {more} series more."] if more else []),
                "Mend or remove these series, or leave them out (skip_refused).",
            ]
        )
    series = SeriesSet(
        indptr=panel.indptr,
        target=panel.target,
        covariates=panel.context_covariates,
        static=panel.static,
    )
    ends = np.maximum(series.lengths - holdout, 0)
    limits = ends.copy()
    if validation:  # a series gives up its last horizon only where twice as much is left
        limits = np.where(ends >= 3 * horizon, ends - horizon, ends)
    if not (limits > 1).any():
        raise TableError(
            f"no series has two steps to train on; the longest has "
            f"{series.lengths.max(initial=0)} steps, of which {holdout} are held out."
        )
    return TrainingData(
        series=series,
        limits=np.where(limits > 1, limits, 0),
        ends=ends,
        refusals=panel.refusals,
        fingerprint=_fingerprint(panel),
        last_stamp=_last_stamp(panel),
    )


def _fingerprint(panel: Panel) -> str:
    digest = hashlib.sha256()
    digest.update("\0".join(str(name) for name in panel.ids).encode())
    for array in (
        *(panel.indptr, panel.last, panel.target),
        *(panel.context_covariates, panel.static),
    ):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _last_stamp(panel: Panel) -> str:
    return describe_stamp(int(panel.last.max()), panel.stamp_kind, panel.time_zone)
