"""From a long table to typed rows, grouped by series: here a table's types are judged.

What is wrong with the table as a whole is a `TableError`; what is wrong with one series is its
`Refusal`, and the others go on. Nothing is sorted, filled or dropped here: that is
`foretell.data.series.regular`.
"""

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from foretell.data.errors import Refusal, TableError
from foretell.data.series.file_rows import settled_kind
from foretell.data.series.ids import id_at, read_ids
from foretell.data.series.options import Columns
from foretell.data.series.panel import Rows
from foretell.data.series.stamps import Stamps, read_stamps
from foretell.data.series.values import RowProblem, read_numbers

_NAMED = 12  # columns named one by one before "and 20 more"


def read_rows(df: pd.DataFrame, columns: Columns) -> Rows:
    """Read a long table of history: one row a series and step.

    Args:
        df: Columns `columns.unique_id`, `columns.ds`, `columns.y` and the named covariates; others
            are left alone.
        columns: The names of the columns.

    Raises:
        TableError: The table as a whole can't be read: columns are missing, have a type that can't
            be used, rows without an id, or no rows at all. All problems are reported.
    """
    _check_type(df)
    numeric = (columns.y, *columns.future_covariates, *columns.past_covariates)
    table = _Table(df, columns, numeric, columns.static)
    return table.group(target=table.numbers[:, 0], covariates=table.numbers[:, 1:])


def read_future_rows(df: pd.DataFrame, columns: Columns) -> Rows:
    """Read a long table of known-future covariates: ids, stamps and `columns.future_covariates`.

    The target is empty and there are no static columns. Raises as `read_rows` does.
    """
    _check_type(df)
    table = _Table(df, columns, columns.future_covariates, ())
    return table.group(target=np.empty(0), covariates=table.numbers)


class _Table:
    """The typed columns of a table, with what is wrong in which rows."""

    def __init__(
        self, df: pd.DataFrame, columns: Columns, numeric: Sequence[str], static: Sequence[str]
    ) -> None:
        check_columns(df, [columns.unique_id, columns.ds, *numeric, *static])
        self.settled = settled_kind(df)
        self.problems: list[RowProblem] = []
        self.static_names = static
        self.row_count = len(df)
        errors: list[str] = []
        with noted(errors):
            self.codes, self.ids = read_ids(df[columns.unique_id])
        with noted(errors):
            self._read_stamps(df[columns.ds], columns.time_zone)
        self.numbers = self._read_numbers(df, numeric, errors)
        self.static = self._read_numbers(df, static, errors)
        if errors:
            raise TableError(errors)

    def _read_stamps(self, column: pd.Series, time_zone: str | None) -> None:
        self.stamps: Stamps = read_stamps(column, time_zone, settled=self.settled)
        self.problems += self.stamps.problems

    def _read_numbers(
        self, df: pd.DataFrame, names: Sequence[str], errors: list[str]
    ) -> Float64[np.ndarray, "N C"]:
        table = np.empty((self.row_count, len(names)), order="F")
        for place, name in enumerate(names):
            with noted(errors):
                table[:, place], problems = read_numbers(
                    df[name], is_settled=self.settled is not None
                )
                self.problems += problems
        return table

    def group(
        self, *, target: Float64[np.ndarray, " M"], covariates: Float64[np.ndarray, "N C"]
    ) -> Rows:
        """Put the rows of each series together, and the refused series aside."""
        reasons = self._reasons()
        count = len(self.ids)
        order: Int64[np.ndarray, " N"] | slice = slice(None)
        if (np.diff(self.codes) < 0).any():
            order = np.argsort(self.codes, kind="stable")
        counts = np.bincount(self.codes, minlength=count)
        starts = np.cumsum(counts) - counts
        static = self._constant(self.static[order], starts, reasons)
        keep = np.ones(count, dtype=bool)
        keep[list(reasons)] = False
        if reasons:
            rows = np.repeat(keep, counts)
            order = np.arange(self.row_count)[order][rows]
        return Rows(
            ids=self.ids[keep],
            indptr=np.concatenate([[0], np.cumsum(counts[keep])]),
            stamps=self.stamps.values[order],
            stamp_kind=self.stamps.kind,
            time_zone=self.stamps.time_zone,
            target=target[order] if len(target) else target,
            covariates=covariates[order],
            static=static[keep],
            positions=np.flatnonzero(keep),
            refusals=tuple(
                Refusal(series, id_at(self.ids, series), " ".join(reasons[series]))
                for series in sorted(reasons)
            ),
        )

    def _reasons(self) -> dict[int, list[str]]:
        """Write a sentence for each problem of each series, naming the first of its rows."""
        reasons: dict[int, list[str]] = {}
        for problem in self.problems:
            series, first, counts = np.unique(
                self.codes[problem.rows], return_index=True, return_counts=True
            )
            for code, place, count in zip(series, first, counts, strict=True):
                sentence = problem.describe(int(problem.rows[place]))
                if count > 1:
                    sentence += f" So {'is' if count == 2 else 'are'} {count - 1} more of its rows."
                reasons.setdefault(int(code), []).append(sentence)
        return reasons

    def _constant(
        self,
        static: Float64[np.ndarray, "N S"],
        starts: Int64[np.ndarray, " n"],
        reasons: dict[int, list[str]],
    ) -> Float64[np.ndarray, "n S"]:
        """Take each series' one value of each static column; blanks beside a value don't matter."""
        if not self.static_names:
            return np.empty((len(starts), 0))
        lowest = np.fmin.reduceat(static, starts, axis=0)
        highest = np.fmax.reduceat(static, starts, axis=0)
        for series, place in np.argwhere(~(lowest == highest)).tolist():
            name = self.static_names[place]
            low, high = lowest[series, place], highest[series, place]
            sentence = (
                f"static column {name!r} is blank; give the series a value."
                if np.isnan(low)
                else f"static column {name!r} holds both {low:g} and {high:g}; "
                "give the series one value."
            )
            reasons.setdefault(series, []).append(sentence)
        return lowest


@contextmanager
def noted(errors: list[str]) -> Iterator[None]:
    """Note what is wrong with one column, and go on to the next."""
    try:
        yield
    except TableError as error:
        errors += error.problems


def _check_type(df: object) -> None:
    if not isinstance(df, pd.DataFrame):
        raise TableError(f"the table is a {type(df).__name__}; give a pandas DataFrame.")


def check_columns(df: pd.DataFrame, names: Sequence[object]) -> None:
    """Refuse a table that lacks columns, has several of one name, or has no rows.

    A part of a table may be without rows: of the future table, where its series have none there.

    Raises:
        TableError: With all problems.
    """
    there: list[object] = list(df.columns)
    problems = [_missing_column(df, name) for name in names if name not in there]
    problems += [
        f"the table has {there.count(name)} columns named {name!r}; keep one."
        for name in names
        if there.count(name) > 1
    ]
    if not problems and df.empty and settled_kind(df) is None:
        problems = ["the table has no rows; give each series at least one."]
    if problems:
        raise TableError(problems)


def _missing_column(df: pd.DataFrame, name: object) -> str:
    there = [str(column) for column in df.columns]
    # pandas names columns by anything, such as 5.
    close = difflib.get_close_matches(str(name), there, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    if name in df.index.names:
        hint = " It is the index: use df.reset_index()."
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    listed = (", ".join(map(repr, there[:_NAMED])) or "none") + more
    return f"the table has no column {name!r}; it has {listed}.{hint}"
