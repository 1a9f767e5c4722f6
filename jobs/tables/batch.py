"""The batch job: a table file in, a table file of forecasts out, whoever computes them.

The table may be larger than memory: it is read in chunks of whole series, several of which are on
their way at a time, and each leaves its part of the output with a journal.
"""

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from foretell.data.errors import TableWarning
from foretell.data.series.answers import quantile_column
from foretell.data.tables.plan import TablePlan
from foretell.jobs.journals.journal import Journal
from foretell.jobs.output import table_format
from foretell.jobs.pictures.plot import MAX_PANELS, SeriesPicture, draw
from foretell.jobs.pipeline import run_pipeline
from foretell.jobs.pool import Pool
from foretell.jobs.summary import JobProgress, JobSummary, Meter
from foretell.jobs.tables.doors import Door, OpenDoor, with_covariates
from foretell.jobs.tables.forecast_job import ForecastJob, check_job, identity_of, plan_job
from foretell.jobs.tables.parts import part_format
from foretell.jobs.tables.refused_series import RefusedSeries
from foretell.jobs.tables.spool import Spool
from foretell.jobs.tables.work import ChunkAnswer, TableWork, open_table_worker, together

UNIT, REFUSED = "series", "refused series"
_REFUSED_COLUMNS = ("position", "unique_id", "reason")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobResult:
    """What became of a job.

    Attributes:
        num_answered: Series that got a forecast, in runs before this one too.
        refused: Series that got none.
        where: What computed the forecasts, for people to read.
        summary: What this run took; None where the output was complete before.
    """

    num_answered: int
    refused: RefusedSeries
    where: str
    summary: JobSummary | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPreview:
    """What a job would do.

    Attributes:
        num_series: Series of the table.
        num_rows: Rows of the table.
        num_chunks: Chunks that it is read in.
        num_done: Series that are done already.
        is_complete: The output of this very job stands there.
        sorted_bytes: Size of the files into which rows of one series that stood apart have to be
            sorted; None where all stand together.
        where: What would compute, for people to read.
    """

    num_series: int
    num_rows: int
    num_chunks: int
    num_done: int
    is_complete: bool
    sorted_bytes: int | None
    where: str


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears how a job goes.

    Attributes:
        tell: Is told what takes long before the first series, such as sorting.
        progress: Is told how far the job is, whenever a part is done; before the first one how far
            the table is read, from whatever thread, where that takes longer than a second.
    """

    tell: Callable[[str], None] = lambda _: None
    progress: Callable[[JobProgress], None] = lambda _: None


_NOBODY = Listeners()


def run_job(job: ForecastJob, open_door: OpenDoor, listeners: Listeners = _NOBODY) -> JobResult:
    """Forecast a file; the outputs appear whole or not at all.

    Refused series are written, with their reasons, to `job.refused_file`; without any, no such file
    is left. When every series is refused nothing else is written. A job that was ended before, even
    by kill -9, leaves what it has done with a journal, for one with `resume`.

    Raises:
        ForetellError: The table, the options, the outputs or the door are at fault; nothing is
            written.
    """
    check_job(job)
    if job.output is None:
        with Spool() as spool, open_door() as door:
            return _Run(job, door, spool, listeners).run()
    with _journal(job, job.output) as journal, open_door() as door:
        return _Run(job, door, journal, listeners).run()


def preview_job(
    job: ForecastJob, open_door: OpenDoor, listeners: Listeners = _NOBODY
) -> JobPreview:
    """Tell what `run_job` would do; the table is gone through once, and nothing is written.

    Raises:
        ForetellError: As `run_job`, as far as it can be told beforehand.
    """
    check_job(job)
    with Spool() as spool, open_door() as door:
        plan = plan_job(job, door, spool.work, listeners.tell, listeners.progress)
        looked: Journal | Spool = spool
        if job.output is not None:
            looked = journal = _journal(job, job.output)
            journal.look(identity_of(job, door, plan))
        return JobPreview(
            num_series=plan.num_series,
            num_rows=plan.num_rows,
            num_chunks=len(plan.chunks),
            num_done=looked.totals[UNIT],
            is_complete=isinstance(looked, Journal) and looked.is_complete,
            sorted_bytes=plan.partition_bytes if plan.is_partitioned else None,
            where=door.where,
        )


def _journal(job: ForecastJob, output: Path) -> Journal:
    return Journal(
        output,
        unit=UNIT,
        columns=_REFUSED_COLUMNS,
        resume=job.resume,
        overwrite=job.overwrite,
    )


class _Run:
    """One run of a job, whose parts a journal or a spool keeps."""

    def __init__(
        self, job: ForecastJob, door: Door, keeper: Journal | Spool, listeners: Listeners
    ) -> None:
        self._job, self._door, self._keeper = job, door, keeper
        self._listeners = listeners
        names = [job.columns.unique_id, job.columns.ds, "forecast"]
        names += map(quantile_column, job.options.quantile_levels)
        self._form = part_format(job.output, names)
        self._make_work = partial(
            TableWork,
            columns=with_covariates(job.columns, door.spec),
            options=job.options,
            form=self._form,
        )
        self._work = self._make_work(ask=door.forecast_rows)
        self._refused = RefusedSeries()
        self._warnings: list[str] = []
        self._pictures: list[SeriesPicture] = []

    def run(self) -> JobResult:
        job, keeper = self._job, self._keeper
        meter = Meter(busy_s=self._door.busy_s, threads=self._door.threads)
        plan = plan_job(
            job, self._door, keeper.work, self._listeners.tell, self._listeners.progress
        )
        self._warnings += plan.warnings
        if isinstance(keeper, Journal):
            keeper.begin(identity_of(job, self._door, plan))
            self._remember(keeper)
        num_before, summary = keeper.totals[UNIT], None
        if not (isinstance(keeper, Journal) and keeper.is_complete):
            self._draw_again(plan, keeper.parts)
            self._answer(plan)
            self._finish()
            summary = meter.summary(keeper.totals[UNIT] - num_before)
        return JobResult(
            num_answered=keeper.totals[UNIT] - keeper.totals[REFUSED],
            refused=self._refused,
            where=self._door.where,
            summary=summary,
        )

    def _remember(self, journal: Journal) -> None:
        """Know what earlier runs have refused and warned of."""
        for _, name, reason in journal.refused():
            self._refused.add(name, reason)
        self._refused.count = journal.totals[REFUSED]
        self._warnings += journal.notes()

    def _answer(self, plan: TablePlan) -> None:
        """Answer what is left of the table, and keep the parts."""
        keeper, done = self._keeper, self._keeper.totals[UNIT]
        meter = Meter(done=done, total=plan.num_series)
        with closing(self._answers(plan, keeper.parts)) as answers:
            for answer in answers:
                for refusal in answer.refusals:
                    self._refused.add(refusal.unique_id, refusal.reason)
                self._warnings += answer.warnings
                self._take_pictures(answer)
                keeper.add(
                    answer.part,
                    counts=answer.counts,
                    refused=answer.refused,
                    notes=answer.warnings,
                )
                self._listeners.progress(meter.progress(keeper.totals[UNIT] - done))

    def _answers(self, plan: TablePlan, first: int) -> Generator[ChunkAnswer, None, None]:
        """Read, compute and hand out chunks, at the same time."""
        numbers = range(first, len(plan.chunks))
        if self._door.pool is not None:
            return self._pooled(plan, numbers, self._door.pool)
        return run_pipeline(
            map(plan.read, numbers),
            lambda chunk: self._work.answer(chunk, with_pictures=self._wants_pictures),
            in_flight=self._door.in_flight,
            stop=self._door.stop,
        )

    def _pooled(
        self, plan: TablePlan, numbers: Sequence[int], pool: Pool[Door]
    ) -> Generator[ChunkAnswer, None, None]:
        """Let other processes read and compute chunks."""
        open_worker = partial(
            open_table_worker,
            plan,
            self._make_work,
            pool.open_door,
            with_pictures=self._wants_pictures,
        )
        given = [path for path in (self._job.data, self._job.future) if path not in (None, "-")]
        put_down = [self._keeper.work] if any(self._keeper.work.iterdir()) else []
        return pool.run(numbers, open_worker, paths=[*given, *put_down])

    @property
    def _wants_pictures(self) -> bool:
        return self._job.plot is not None and len(self._pictures) < MAX_PANELS

    def _take_pictures(self, answer: ChunkAnswer) -> None:
        if self._wants_pictures:
            self._pictures += answer.pictures[: MAX_PANELS - len(self._pictures)]

    def _draw_again(self, plan: TablePlan, end: int) -> None:
        """Ask once more for the pictures of chunks that were done before this run."""
        for number in range(end):
            if not self._wants_pictures:
                return
            self._take_pictures(self._work.answer(plan.read(number), with_pictures=True))

    def _finish(self) -> None:
        """Draw what is to be drawn, and make the output of the parts."""
        job, keeper = self._job, self._keeper
        has_answers = keeper.totals[UNIT] > keeper.totals[REFUSED]
        if job.plot is not None and self._pictures:
            draw(self._pictures, job.plot)
        for warning in together(self._warnings):
            warnings.warn(warning, TableWarning, stacklevel=2)
        if isinstance(keeper, Spool):
            keeper.finish(self._form.join if has_answers else None)
            return
        assert job.output is not None  # a journal has one
        keeper.finish(self._write if has_answers else None, ending=table_format(job.output))

    def _write(self, parts: Iterable[Path], target: Path) -> None:
        with target.open("wb") as file:
            self._form.join(parts, file)
