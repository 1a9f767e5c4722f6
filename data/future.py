"""Known-future covariates: each value finds its series and step by id and stamp, never by its place
in a file.

Axes: n series, H horizon, F known-future covariates, M rows of the future table.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

from foretell.data.calendar import Frequency
from foretell.data.errors import TableError
from foretell.data.panel import Rows
from foretell.data.zones import describe_stamp

_NAMED = 10  # problems named one by one before "and 20 more"


class FutureTable:
    """The known-future covariates of a set of series.

    Attributes:
        values: What was found, [n, H, F]; NaN where nothing was.
        warnings: What was not used, a sentence each.
    """

    def __init__(
        self,
        rows: Rows,
        future: Rows | None,
        names: Sequence[str],
        last: Int64[np.ndarray, " n"],
        horizon: int,
    ) -> None:
        self.rows = rows
        self.future = future if names else None
        self.names = tuple(names)
        self.last = last
        self.horizon = horizon
        self.values: Float64[np.ndarray, "n H F"] = np.full(
            (len(last), horizon, len(names)), np.nan
        )
        self._warnings: list[str] = []
        if future is not None and not names:
            self._warnings.append(
                "the model uses no known-future covariates; the future table is not used."
            )
        self._check()

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def _check(self) -> None:
        if not self.names:
            return
        wanted = ", ".join(map(repr, self.names))
        if self.future is None:
            raise TableError(
                f"the model needs {wanted} over the horizon; give a table of these columns (future)."
            )
        if self.future.stamp_kind != self.rows.stamp_kind:
            raise TableError(
                f"the future table's stamps are {self.future.stamp_kind}, those of the history "
                f"{self.rows.stamp_kind}; write both alike."
            )

    def align(
        self, frequencies: Sequence[Frequency | None], alive: Bool[np.ndarray, " n"]
    ) -> dict[int, list[str]]:
        """Fill `values` and say, by series, what is wrong: missing, blank, repeated or unreadable
        rows.
        """
        if self.future is None:
            return {}
        series = self._match_ids()
        counts = np.diff(self.future.indptr)
        owner = np.repeat(series, counts)
        steps = self._steps(owner, frequencies, alive)
        self._warn_unused(owner, steps)
        problems: dict[int, list[str]] = {}
        ids = {unique_id: place for place, unique_id in enumerate(self.rows.ids)}
        for refusal in self.future.refusals:
            place = ids.get(refusal.unique_id)
            if place is not None and alive[place]:
                problems.setdefault(place, []).append(f"in the future table, {refusal.reason}")
        used = np.flatnonzero(steps >= 0)
        used = used[alive[owner[used]]]
        slots = owner[used] * self.horizon + steps[used]
        filled = np.bincount(slots, minlength=len(alive) * self.horizon)
        self.values.reshape(-1, len(self.names))[slots] = self.future.covariates[used]
        filled = filled.reshape(-1, self.horizon)
        self._report(frequencies, alive, filled, problems)
        return problems

    def _match_ids(self) -> Int64[np.ndarray, " m"]:
        assert self.future is not None
        series = np.asarray(self.rows.ids.get_indexer(self.future.ids), dtype=np.int64)
        refused = {refusal.unique_id for refusal in self.rows.refusals}
        unknown = [
            unique_id
            for unique_id, place in zip(self.future.ids, series, strict=True)
            if place < 0 and unique_id not in refused
        ]
        if unknown and len(unknown) == len(series) and len(series):
            raise TableError(
                f"the future table has no id of the history: it has {unknown[0]!r}, the history "
                f"{self.rows.ids[0]!r}; write ids alike, in one type."
            )
        if unknown:
            named = ", ".join(str(unique_id) for unique_id in unknown[:_NAMED])
            self._warnings.append(
                f"the future table has rows of ids that the history lacks; they are not used: {named}"
                f"{_more(len(unknown))}."
            )
        return series

    def _steps(
        self,
        owner: Int64[np.ndarray, " M"],
        frequencies: Sequence[Frequency | None],
        alive: Bool[np.ndarray, " n"],
    ) -> Int64[np.ndarray, " M"]:
        """Find the step of the horizon of each row, -1 for rows outside or off the grid."""
        assert self.future is not None
        steps = np.full(len(owner), -1, dtype=np.int64)
        groups: dict[Frequency, list[int]] = {}
        for series in np.flatnonzero(alive).tolist():
            frequency = frequencies[series]
            if frequency is not None:
                groups.setdefault(frequency, []).append(series)
        for frequency, members in groups.items():
            inside = np.zeros(len(alive), dtype=bool)
            inside[members] = True
            rows = np.flatnonzero((owner >= 0) & inside[owner])
            positions, on_grid = frequency.positions(
                self.future.stamps[rows], self.last, owner[rows], self.rows.time_zone
            )
            ahead = on_grid & (positions >= 1) & (positions <= self.horizon)
            steps[rows[ahead]] = positions[ahead] - 1
        return steps

    def _warn_unused(self, owner: Int64[np.ndarray, " M"], steps: Int64[np.ndarray, " M"]) -> None:
        assert self.future is not None
        # Rows of the past are no news: many tables hold a covariate's past and future together.
        known = np.flatnonzero((owner >= 0) & (steps < 0))
        extra = known[self.future.stamps[known] > self.last[owner[known]]]
        if extra.size:
            named = ", ".join(
                f"({self.rows.ids[owner[row]]}, {self._name(self.future.stamps[row])})"
                for row in extra[:_NAMED]
            )
            self._warnings.append(
                f"the future table has rows outside the horizon; they are not used: {named}{_more(extra.size)}."
            )

    def _report(
        self,
        frequencies: Sequence[Frequency | None],
        alive: Bool[np.ndarray, " n"],
        filled: Int64[np.ndarray, "n H"],
        problems: dict[int, list[str]],
    ) -> None:
        blank = np.isnan(self.values)
        wrong = (filled != 1) | blank.any(axis=2)
        for series in np.flatnonzero(wrong.any(axis=1) & alive).tolist():
            frequency = frequencies[series]
            assert frequency is not None
            stamps = frequency.after(
                self.last[series : series + 1], self.horizon, self.rows.time_zone
            )[0]
            found = []
            for step in np.flatnonzero(wrong[series]).tolist():
                place = f"({self.rows.ids[series]}, {self._name(stamps[step])})"
                if filled[series, step] > 1:
                    found.append(f"{place} has {filled[series, step]} rows")
                elif filled[series, step] == 0:
                    found.append(f"{place} has no row")
                else:
                    names = [
                        name
                        for name, is_blank in zip(self.names, blank[series, step], strict=True)
                        if is_blank
                    ]
                    found.append(f"{place} has a blank {', '.join(map(repr, names))}")
            problems.setdefault(series, []).append(
                f"in the future table, {'; '.join(found[:_NAMED])}{_more(len(found))}; "
                "give each step of the horizon one row with all values."
            )

    def _name(self, stamp: int) -> str:
        return describe_stamp(stamp, self.rows.stamp_kind, self.rows.time_zone)


def _more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""
