"""From typed rows to regular grids: sorted, one frequency a series, NaN where a step has no value.

Axes: N rows or steps of all series together, n series, C covariates, H horizon, F known-future
covariates.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

from foretell.data.calendar import Frequency
from foretell.data.errors import FrequencyError, Refusal
from foretell.data.future import FutureTable
from foretell.data.inference import anchored_at, candidates, explain
from foretell.data.options import ForecastOptions
from foretell.data.panel import Panel, Rows
from foretell.data.zones import describe_stamp

ANY_FREQUENCY = "any"

# A stray stamp, such as 1900-01-01 among hours of today, would ask for a grid of a million empty
# steps.
_LONG_GRID = 100_000
_LEAST_SHARE = 0.01


def regularise(
    rows: Rows,
    *,
    options: ForecastOptions,
    future: Rows | None = None,
    future_names: Sequence[str] = (),
    model_frequency: str = ANY_FREQUENCY,
) -> Panel:
    """Lay each series on its regular grid.

    Rows may come in any order. A step without a row, or with a blank, is NaN; blanks at the end
    belong to the context, so the forecast starts after the last row. Each series has its own
    frequency: `options.freq`, or the one inferred from its rows; where these fit several, or are
    too few, the model's, if the model has one.

    Args:
        rows: History.
        options: Horizon and frequency.
        future: Known-future covariates of the horizon; rows outside it are not used, with a
            warning.
        future_names: Names of the model's known-future covariates, in order.
        model_frequency: Frequency the model was trained for, or "any".

    Raises:
        FrequencyError: `options.freq` or `model_frequency` is unknown, doesn't fit the kind of
            stamps, or the two differ and `options.allow_other_frequency` is not set.
        TableError: Known-future covariates are needed and there are none, or their stamps are of
            another kind.
    """
    return _Regular(rows, options, _parse_model_frequency(model_frequency)).panel(
        future, future_names
    )


def _parse_model_frequency(name: str) -> Frequency | None:
    return None if name == ANY_FREQUENCY else Frequency.parse(name)


class _Regular:
    """The work on one set of rows; `reasons` collects why series are refused."""

    def __init__(self, rows: Rows, options: ForecastOptions, model: Frequency | None) -> None:
        self.rows = rows
        self.options = options
        self.model = model
        self.counts = np.diff(rows.indptr)
        self.series = np.repeat(np.arange(len(self.counts)), self.counts)
        self.reasons: dict[int, list[str]] = {}
        self.order = self._sort()
        self.stamps = rows.stamps if self.order is None else rows.stamps[self.order]
        self._refuse_empty()
        self._refuse_duplicates()
        self.last = self._last()
        self.frequencies = self._find_frequencies()
        self.positions = self._lay()

    def panel(self, future: Rows | None, future_names: Sequence[str]) -> Panel:
        horizon = self.options.horizon
        table = FutureTable(self.rows, future, future_names, self.last, horizon)
        for series, problems in table.align(self.frequencies, self._alive()).items():
            self._refuse(series, *problems)
        keep = self._alive()
        indptr, target, covariates = self._fill(keep)
        refusals = [
            Refusal(int(self.rows.positions[series]), self.rows.ids[series], " ".join(problems))
            for series, problems in self.reasons.items()
        ]
        return Panel(
            ids=self.rows.ids[keep],
            frequencies=tuple(self.frequencies[series] for series in np.flatnonzero(keep)),
            last=self.last[keep],
            stamp_kind=self.rows.stamp_kind,
            time_zone=self.rows.time_zone,
            indptr=indptr,
            target=target,
            context_covariates=covariates,
            horizon_covariates=table.values[keep],
            static=self.rows.static[keep],
            refusals=tuple(
                sorted([*self.rows.refusals, *refusals], key=lambda refusal: refusal.position)
            ),
            warnings=table.warnings,
        )

    def _refuse(self, series: int, *problems: str) -> None:
        self.reasons.setdefault(series, []).extend(problems)

    def _alive(self) -> Bool[np.ndarray, " n"]:
        alive = np.ones(len(self.counts), dtype=bool)
        alive[list(self.reasons)] = False
        return alive

    def _name(self, stamp: int) -> str:
        return describe_stamp(stamp, self.rows.stamp_kind, self.rows.time_zone)

    def _sort(self) -> Int64[np.ndarray, " N"] | None:
        """Order the rows of each series by stamp; None where they are so already."""
        falls = np.diff(self.rows.stamps) < 0
        if not (falls & (np.diff(self.series) == 0)).any():
            return None
        return np.lexsort((self.rows.stamps, self.series))

    def _refuse_empty(self) -> None:
        for series in np.flatnonzero(self.counts == 0).tolist():
            self._refuse(series, "it has no rows; give it at least one.")
        observed = ~np.isnan(self.rows.target)
        seen = np.bincount(self.series[observed], minlength=len(self.counts))
        for series in np.flatnonzero((seen == 0) & (self.counts > 0)).tolist():
            self._refuse(series, "all its values are blank; give it at least one value.")

    def _refuse_duplicates(self) -> None:
        twice = np.flatnonzero((np.diff(self.stamps) == 0) & (np.diff(self.series) == 0))
        if not twice.size:
            return
        for series in np.unique(self.series[twice]).tolist():
            stamps = self.stamps[self.series == series]
            distinct, counts = np.unique(stamps, return_counts=True)
            repeated = np.flatnonzero(counts > 1)
            named = ", ".join(
                f"{self._name(distinct[place])} has {counts[place]} rows" for place in repeated[:5]
            )
            more = f" and {repeated.size - 5} more stamps likewise" if repeated.size > 5 else ""
            self._refuse(series, f"{named}{more}; keep one row a stamp.")

    def _last(self) -> Int64[np.ndarray, " n"]:
        last = np.zeros(len(self.counts), dtype=np.int64)
        filled = self.counts > 0
        last[filled] = self.stamps[self.rows.indptr[1:][filled] - 1]
        return last

    def _find_frequencies(self) -> list[Frequency | None]:
        if self.options.freq is not None:
            return [self._given_frequency(self.options.freq)] * len(self.counts)
        found = candidates(self.stamps, self.rows.indptr, self.rows.stamp_kind, self.rows.time_zone)
        return [
            None if series in self.reasons else self._choose(series, fitting)
            for series, fitting in enumerate(found)
        ]

    def _given_frequency(self, name: str) -> Frequency:
        given = Frequency.parse(name)
        is_integer = self.rows.stamp_kind == "integer"
        if given.is_integer != is_integer:
            held = "integer steps" if is_integer else "dates"
            wanted = "an integer step such as 1" if is_integer else "a calendar frequency such as D"
            raise FrequencyError(
                f"frequency {name!r} is given, but the time column holds {held}; give {wanted}."
            )
        if self._is_other(given):
            raise FrequencyError(
                f"frequency {given.alias!r} is given, but the model was trained for {self.model}; use a model for "
                f"{given.alias!r}, or allow another frequency (allow_other_frequency)."
            )
        return given

    def _is_other(self, frequency: Frequency) -> bool:
        return (
            self.model is not None
            and not self.options.allow_other_frequency
            and not frequency.same_rhythm(self.model)
        )

    def _choose(self, series: int, fitting: tuple[Frequency, ...]) -> Frequency | None:
        """Take the one frequency that fits; of several, or for a lone row, the model's."""
        if self.model is not None and len(fitting) != 1:
            last = int(self.last[series])
            own = anchored_at(self.model, last, self.rows.stamp_kind, self.rows.time_zone)
            fitting = (
                tuple(
                    frequency
                    for frequency in (fitting or (own,))
                    if frequency is not None and frequency.same_rhythm(self.model)
                )
                or fitting
            )
        if len(fitting) != 1:
            self._refuse(series, explain(fitting, int(self.counts[series])))
            return None
        if self._is_other(fitting[0]):
            self._refuse(
                series,
                f"its rows step by {fitting[0].alias!r}, but the model was trained for {self.model}; use a model for "
                f"{fitting[0].alias!r}, or allow another frequency (allow_other_frequency).",
            )
        return fitting[0]

    def _lay(self) -> Int64[np.ndarray, " N"]:
        """Count each row's steps from the first row of its series."""
        positions = np.zeros(len(self.stamps), dtype=np.int64)
        groups: dict[Frequency, list[int]] = {}
        for series, frequency in enumerate(self.frequencies):
            if frequency is not None and series not in self.reasons:
                groups.setdefault(frequency, []).append(series)
        origins = np.zeros(len(self.counts), dtype=np.int64)
        filled = self.counts > 0
        origins[filled] = self.stamps[self.rows.indptr[:-1][filled]]
        for frequency, members in groups.items():
            inside = np.zeros(len(self.counts), dtype=bool)
            inside[members] = True
            rows = slice(None) if inside.all() else np.flatnonzero(inside[self.series])
            steps, on_grid = frequency.positions(
                self.stamps[rows], origins, self.series[rows], self.rows.time_zone
            )
            positions[rows] = steps
            if not on_grid.all():
                self._refuse_off_grid(frequency, np.arange(len(self.stamps))[rows][~on_grid])
            unreachable = inside & ~frequency.reaches(self.last, self.options.horizon)
            for series in np.flatnonzero(unreachable).tolist():
                self._refuse(
                    series,
                    f"{self.options.horizon} steps of {frequency.alias!r} after {self._name(self.last[series])} "
                    "lead past the last stamp that can be written; ask for a shorter horizon.",
                )
        self._refuse_crowded(positions)
        return positions

    def _refuse_off_grid(self, frequency: Frequency, rows: Int64[np.ndarray, " k"]) -> None:
        for series in np.unique(self.series[rows]).tolist():
            wrong = rows[self.series[rows] == series]
            named = ", ".join(self._name(stamp) for stamp in self.stamps[wrong[:3]])
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            start = self._name(self.stamps[self.rows.indptr[series]])
            self._refuse(
                series,
                f"{named}{more} {'is' if len(wrong) == 1 else 'are'} off the grid of {frequency.alias!r} that starts "
                f"at {start}; correct the stamps or give the frequency they step by (freq).",
            )

    def _refuse_crowded(self, positions: Int64[np.ndarray, " N"]) -> None:
        """Refuse two rows in one step (a clock that shows an hour twice), and grids that are nearly
        all gaps.
        """
        same = np.flatnonzero((np.diff(positions) == 0) & (np.diff(self.series) == 0))
        for row in same.tolist():
            series = int(self.series[row])
            if series not in self.reasons:
                self._refuse(
                    series,
                    f"{self._name(self.stamps[row])} and {self._name(self.stamps[row + 1])} fall into one step of "
                    f"{self.frequencies[series]}; keep one row a step.",
                )
        lengths = self._lengths(positions)
        sparse = (lengths > _LONG_GRID) & (self.counts < _LEAST_SHARE * lengths)
        for series in np.flatnonzero(sparse).tolist():
            if series not in self.reasons:
                self._refuse(
                    series,
                    f"its {self.counts[series]} rows spread over {lengths[series]:,} steps of "
                    f"{self.frequencies[series]} from {self._name(self.stamps[self.rows.indptr[series]])} on; "
                    "correct stray stamps or give the frequency (freq).",
                )

    def _lengths(self, positions: Int64[np.ndarray, " N"]) -> Int64[np.ndarray, " n"]:
        lengths = np.zeros(len(self.counts), dtype=np.int64)
        filled = self.counts > 0
        lengths[filled] = positions[self.rows.indptr[1:][filled] - 1] + 1
        return lengths

    def _fill(
        self, keep: Bool[np.ndarray, " n"]
    ) -> tuple[Int64[np.ndarray, " n1"], Float64[np.ndarray, " N"], Float64[np.ndarray, "N C"]]:
        """Write the values of the kept series at their steps, NaN everywhere else."""
        lengths = self._lengths(self.positions)[keep]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        target, covariates = self.rows.target, self.rows.covariates
        if self.order is not None:
            target, covariates = target[self.order], covariates[self.order]
        if keep.all() and len(target) == indptr[-1]:
            return indptr, target, covariates
        starts = np.zeros(len(keep), dtype=np.int64)
        starts[keep] = indptr[:-1]
        rows = keep[self.series]
        steps = starts[self.series[rows]] + self.positions[rows]
        grid = np.full(indptr[-1], np.nan)
        grid[steps] = target[rows]
        covariate_grid = np.full((indptr[-1], covariates.shape[1]), np.nan)
        covariate_grid[steps] = covariates[rows]
        return indptr, grid, covariate_grid
