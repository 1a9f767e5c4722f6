"""What a job over a table does with each chunk: type its rows, ask for forecasts, write a part."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from foretell.data.errors import Refusal
from foretell.data.series.answers import forecast_table
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Rows
from foretell.data.series.rows import read_future_rows, read_rows
from foretell.data.tables.plan import TableChunk, TablePlan
from foretell.jobs.pictures.history import pictures
from foretell.jobs.pictures.plot import MAX_PANELS, SeriesPicture
from foretell.jobs.tables.doors import ForecastRows, OpenDoor
from foretell.jobs.tables.parts import PartFormat

_MOST_WARNINGS = 5
# Of the answers to a chunk, in numbers: what bounds the memory where they are longer than the rows.
_MOST_NUMBERS = 1 << 21


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkAnswer:
    """What became of a chunk.

    Attributes:
        part: The answers, as the output's format has its parts; see `PartFormat`.
        num_series: Series of the chunk.
        num_rows: Rows of the answer.
        refusals: The series that got none; positions are those in the whole table.
        warnings: What was not used, a sentence each.
        pictures: Of the first answered series, where pictures are wanted.
    """

    part: bytes
    num_series: int
    num_rows: int
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...]
    pictures: tuple[SeriesPicture, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """What a job counts, in the singular."""
        return {
            "series": self.num_series,
            "refused series": len(self.refusals),
            "row": self.num_rows,
        }

    @property
    def refused(self) -> list[tuple[int, str, str]]:
        """Rows of the side file."""
        return [(one.position, str(one.unique_id), one.reason) for one in self.refusals]


@dataclass(frozen=True, kw_only=True, slots=True)
class TableWork:
    """Answers chunks, in any order, in any thread.

    Attributes:
        columns: Names of the columns, those of the model's covariates too.
        options: What to forecast.
        form: How parts are written.
        ask: Asks for forecasts.
    """

    columns: Columns
    options: ForecastOptions
    form: PartFormat
    ask: ForecastRows

    def answer(self, chunk: TableChunk, *, with_pictures: bool = False) -> ChunkAnswer:
        """Answer a chunk.

        Raises:
            ForetellError: The rows, the options or the door are at fault; no chunk can be answered.
        """
        rows = read_rows(chunk.table, self.columns)
        answer = self.ask(rows, self._future(chunk.future, rows), self.options)
        table = forecast_table(answer, id_col=self.columns.unique_id, time_col=self.columns.ds)
        drawn: list[SeriesPicture] = []
        if with_pictures and len(table):
            first = table.head(MAX_PANELS * self.options.horizon)
            drawn = pictures(chunk.table, first, columns=self.columns)
        return ChunkAnswer(
            part=self.form.part(table, self.options.horizon),
            num_series=len(answer.ids) + len(answer.refusals),
            num_rows=len(table),
            refusals=tuple(
                replace(refusal, position=chunk.first_series + refusal.position)
                for refusal in answer.refusals
            ),
            warnings=answer.warnings,
            pictures=tuple(drawn),
        )

    def _future(self, table: pd.DataFrame | None, rows: Rows) -> Rows | None:
        if table is None:
            return None
        if len(table):
            return read_future_rows(table, self.columns)
        # None of these series is in the future table: that is a fault of theirs, not of the table.
        return replace(
            rows,
            ids=rows.ids[:0],
            indptr=np.zeros(1, np.int64),
            stamps=rows.stamps[:0],
            target=rows.target[:0],
            covariates=np.empty((0, len(self.columns.future_covariates))),
            static=rows.static[:0],
            positions=rows.positions[:0],
            refusals=(),
        )


@contextmanager
def open_table_worker(
    plan: TablePlan,
    make_work: Callable[..., TableWork],
    open_door: OpenDoor,
    *,
    with_pictures: bool,
) -> Iterator[Callable[[int], ChunkAnswer]]:
    """Open the model in a process of a pool; hand out what reads and answers a chunk.

    Args:
        plan: What the chunks are.
        make_work: Makes the work, but for `ask`.
        open_door: Opens the model.
        with_pictures: Pictures are wanted.
    """
    with open_door() as door:
        work = make_work(ask=door.forecast_rows)
        yield lambda number: work.answer(plan.read(number), with_pictures=with_pictures)


def most_series(options: ForecastOptions) -> int:
    """Tell how many series a chunk may have, such that their answers don't take the memory."""
    return max(1, _MOST_NUMBERS // (options.horizon * (2 + len(options.quantile_levels))))


def together(warnings: Iterable[str]) -> list[str]:
    """Tell the same warning once, and of many that differ the first ones."""
    distinct = list(dict.fromkeys(warnings))
    more = len(distinct) - _MOST_WARNINGS
    return distinct[:_MOST_WARNINGS] + ([f"{more:,} more warnings like these."] if more > 0 else [])
