"""The translation job: lines in, the translation of each in a line out, whoever computes them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from foretell.data.bundles.records import to_plain
from foretell.data.errors import ForetellError, OptionError
from foretell.data.text.lines import Line, check_sources
from foretell.data.text.normalising import is_copied, normalise
from foretell.data.text.translation import TranslateOptions, Translation
from foretell.jobs.journals.journal import Journal, refused_file
from foretell.jobs.lines.answered_lines import (
    REFUSED_COLUMNS,
    AnsweredLine,
    LineCounts,
    RefusedLine,
)
from foretell.jobs.lines.chunks import in_chunks, line_chunks
from foretell.jobs.lines.doors import OpenTranslatorDoor, TranslatorDoor
from foretell.jobs.lines.job import LinesDone, Tell, answer_lines, ask, write_answers
from foretell.jobs.lines.output import WriteLines, direct_output, kept_output
from foretell.jobs.lines.plan import LinePlan, plan_lines
from foretell.jobs.lines.text_file import TextFile, is_text_file, look_at_text
from foretell.jobs.lines.translation_text import json_line, text_line
from foretell.jobs.output import check_outputs, check_stdout
from foretell.jobs.pictures.attention_plot import MAX_PANELS, AttentionPicture, draw_attention
from foretell.jobs.pictures.plot import check_plot
from foretell.jobs.pool import Pool
from foretell.jobs.summary import Meter

_MOST_CANDIDATES = 32  # lines with words, kept for the picture: some of them may be refused


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateJob:
    """What to translate, and where the answer goes.

    Attributes:
        source: Path of the text, a sentence a line; "-" is standard input.
        options: How to search.
        output: Path of the answer; None is standard output.
        form: "text" is the hypotheses of a line with tabs between them; "jsonl" all that is known.
        scores: Put each hypothesis' score and a tab before it; "jsonl" holds it anyway.
        plot: Path of a picture of the attention of the first sentences, if one is wanted; there is
            none where no line holds words that could be translated.
        chunk_lines: Lines that are translated together; their length decides about memory. No
            answer depends on it.
        resume: Go on where this very job was ended; where it is complete, leave it so.
        overwrite: Replace files that stand at the outputs.
    """

    source: str
    options: TranslateOptions = field(default_factory=TranslateOptions)
    output: Path | None = None
    form: Literal["text", "jsonl"] = "text"
    scores: bool = False
    plot: Path | None = None
    chunk_lines: int = 1024
    resume: bool = False
    overwrite: bool = False

    @property
    def refused_file(self) -> Path | None:
        """Where the refused lines and their reasons go; None when the answer goes to stdout."""
        return None if self.output is None else refused_file(self.output)


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateResult:
    """What became of a job.

    Attributes:
        done: Lines and refusals.
        num_drawn: Sentences in the picture; without any there is none.
        where: What computed the translations, for people to read.
        was_complete: An earlier run had done it all; nothing was computed or written.
    """

    done: LinesDone
    num_drawn: int
    where: str
    was_complete: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatePlan:
    """What a job would do.

    Attributes:
        num_lines: Lines of the text; None where it can be read only once.
        num_done: Those that an earlier run has done.
        was_complete: There is nothing left to do.
        where: What would compute, for people to read.
    """

    num_lines: int | None
    num_done: int
    was_complete: bool
    where: str


def run_translate_job(
    job: TranslateJob, open_door: OpenTranslatorDoor, *, tell: Tell | None = None
) -> TranslateResult:
    """Translate a file line by line, in memory that doesn't grow with it.

    A blank line stays blank. Lines that can't be translated are left empty and written, with their
    reasons, to `job.refused_file`; without any, no such file is left. From standard input to
    standard output an answer comes as soon as whole lines are there.

    From a file to a file, what is done is kept in a journal: whatever ends the job, the same one
    with `resume` goes on from there, to the same bytes.

    Raises:
        ForetellError: The options, the input, the outputs or the door are at fault; no file is
            written.
    """
    _check(job)
    with ExitStack() as stack:
        journal = _journal(job)
        if journal is not None:
            stack.enter_context(journal)
        door = _open(job, open_door, stack)
        work = _Work(job, door)
        return work.run(tell) if journal is None else work.run_kept(journal, tell)


def plan_translate_job(job: TranslateJob, open_door: OpenTranslatorDoor) -> TranslatePlan:
    """Tell what `run_translate_job` would do, and write nothing; standard input isn't read.

    Raises:
        ForetellError: As the job would raise it before its first line.
    """
    _check(job)
    with ExitStack() as stack:
        journal = _journal(job)
        door = _open(job, open_door, stack)
        text = look_at_text(job.source) if is_text_file(job.source) else None
        if journal is not None and text is not None:
            journal.look(_identity(job, door, text))
        return TranslatePlan(
            num_lines=None if text is None else text.num_lines,
            num_done=0 if journal is None else journal.totals["line"],
            was_complete=journal is not None and journal.is_complete,
            where=door.where,
        )


def _check(job: TranslateJob) -> None:
    """Refuse what can't end well, before a model is loaded or a server asked."""
    if job.form not in ("text", "jsonl"):
        raise OptionError(f"the format is {job.form!r}; it must be text or jsonl.")
    if job.options.attention and job.form != "jsonl":
        raise OptionError("the text has no place for attention; give --format jsonl with it.")
    if job.resume and job.output is None:
        raise OptionError("nothing can be resumed on standard output; give an output file.")
    check_sources(job.source)
    if job.resume and not is_text_file(job.source):
        raise OptionError(
            f"{'standard input' if job.source == '-' else job.source} can be read only once, so "
            "nothing can be resumed (resume); give a file."
        )
    if job.output is None:
        check_stdout()
    if job.plot is not None:
        check_plot(job.plot)
    targets = [path for path in (job.output, job.refused_file, job.plot) if path is not None]
    inputs = [job.source] if job.source != "-" else []
    # What may stand there when a job is resumed its journal knows.
    check_outputs(targets, overwrite=job.overwrite or job.resume, inputs=inputs)


def _journal(job: TranslateJob) -> Journal | None:
    """What keeps a job that can be resumed."""
    if job.output is None or not is_text_file(job.source):
        return None
    return Journal(
        job.output,
        unit="line",
        columns=REFUSED_COLUMNS,
        others=[] if job.plot is None else [job.plot],
        resume=job.resume,
        overwrite=job.overwrite,
    )


def _open(job: TranslateJob, open_door: OpenTranslatorDoor, stack: ExitStack) -> TranslatorDoor:
    door = stack.enter_context(open_door())
    if job.plot is not None and not door.spec.has_attention:
        raise ForetellError(
            f"{job.plot} can't be drawn: the model has no attention. Translate without it."
        )
    return door


def _identity(job: TranslateJob, door: TranslatorDoor, text: TextFile) -> dict[str, Any]:
    """All that decides the output's bytes."""
    return {
        "input": text.fingerprint,
        "model": door.fingerprint,
        "format": job.form,
        "scores": job.scores,
        "options": to_plain(job.options),
    }


class _Work:
    """A job and the door to which it goes."""

    def __init__(self, job: TranslateJob, door: TranslatorDoor) -> None:
        self._job = job
        self._door = door
        self._candidates: list[Line] = []
        self._num_drawn = 0

    def run(self, tell: Tell | None) -> TranslateResult:
        """Do a job that nothing is kept of before its end."""
        job = self._job
        if self._door.pool is not None:
            raise OptionError("several processes read and write files; give a text and an output.")
        eager = job.source == "-" and job.output is None
        chunks = line_chunks(job.source, most_lines=job.chunk_lines, eager=eager)
        output = self._drawing(direct_output(job.output))
        done = answer_lines(
            self._noting(chunks), self.answer, output, self._door, eager=eager, tell=tell
        )
        return self._result(done)

    def run_kept(self, journal: Journal, tell: Tell | None) -> TranslateResult:
        """Do what is left to do of a job that can be resumed."""
        job = self._job
        text = look_at_text(job.source)
        journal.begin(_identity(job, self._door, text))
        before = LineCounts.of(journal)
        if journal.is_complete:
            return self._result(LinesDone.of(before, Meter().summary(0)), was_complete=True)
        if self._door.pool is not None:
            return self._result(self._run_pooled(text, journal, self._door.pool, tell))
        chunks = in_chunks(text.lines(), job.chunk_lines, lambda line: len(line.text))
        done = answer_lines(
            _behind(before.num_lines, self._noting(chunks)),
            self.answer,
            self._drawing(kept_output(journal)),
            self._door,
            before=before,
            total=text.num_lines,
            tell=tell,
        )
        return self._result(done)

    def _result(self, done: LinesDone, *, was_complete: bool = False) -> TranslateResult:
        return TranslateResult(
            done=done,
            num_drawn=self._num_drawn,
            where=self._door.where,
            was_complete=was_complete,
        )

    def _run_pooled(
        self, text: TextFile, journal: Journal, pool: Pool[TranslatorDoor], tell: Tell | None
    ) -> LinesDone:
        """Let other processes read and translate what is left."""
        before = LineCounts.of(journal)
        most, after = self._job.chunk_lines, before.num_lines
        plan = plan_lines(text, journal.work, most_lines=most, after=after)
        if self._job.plot is not None:
            self._note(text.lines())
        results = pool.run(
            range(len(plan.chunks)),
            partial(open_line_worker, self._job, plan, pool.open_door),
            paths=[plan.text.path],
        )
        output = self._drawing(kept_output(journal))
        return write_answers(
            results, output, self._door, before=before, total=text.num_lines, tell=tell
        )

    def answer(self, lines: list[Line]) -> list[AnsweredLine]:
        """Translate lines; called in several threads."""
        texts, first_place = [line.text for line in lines], lines[0].number - 1
        answers = ask(
            lines,
            lambda: self._door.translate(texts, self._job.options, first_place=first_place),
        )
        return [self._written(line, answer) for line, answer in zip(lines, answers, strict=True)]

    def _written(self, line: Line, answer: Translation | RefusedLine) -> AnsweredLine:
        is_json = self._job.form == "jsonl"
        if isinstance(answer, RefusedLine):
            text = json_line(line, answer) if is_json else ""
            return AnsweredLine(line.number, text, refused=answer.reason)
        text = json_line(line, answer) if is_json else text_line(answer, scores=self._job.scores)
        return AnsweredLine(line.number, text, truncated=answer.truncated)

    def _noting(self, chunks: Iterable[list[Line]]) -> Iterator[list[Line]]:
        """Note the first lines that may be drawn, as the chunks go by."""
        for chunk in chunks:
            if self._job.plot is not None:
                self._note(chunk)
            yield chunk

    def _note(self, lines: Iterable[Line]) -> None:
        missing = _MOST_CANDIDATES - len(self._candidates)
        with_words = (line for line in lines if line.problem is None and not is_copied(line.text))
        self._candidates += islice(with_words, missing)

    @contextmanager
    def _drawing(self, output: AbstractContextManager[WriteLines]) -> Iterator[WriteLines]:
        """Draw the picture when all lines are written, and before the output appears."""
        with output as write:
            yield write
            if self._job.plot is not None:
                pictures = list(islice(self._pictures(), MAX_PANELS))
                self._num_drawn = len(pictures)
                if pictures:
                    draw_attention(pictures, self._job.plot)

    def _pictures(self) -> Iterator[AttentionPicture]:
        options = replace(self._job.options, attention=True)
        for line in self._candidates:
            place = line.number - 1
            (answer,) = ask(
                [line], partial(self._door.translate, [line.text], options, first_place=place)
            )
            picture = None
            if not isinstance(answer, RefusedLine):
                picture = AttentionPicture.of(answer, normalise(line.text))
            if picture is not None:
                yield picture


@contextmanager
def open_line_worker(
    job: TranslateJob, plan: LinePlan, open_door: OpenTranslatorDoor
) -> Iterator[Callable[[int], list[AnsweredLine]]]:
    """Open the model in a process of a pool; hand out what reads and translates a chunk."""
    with open_door() as door:
        work = _Work(job, door)
        yield lambda number: work.answer(plan.read(number))


def _behind(count: int, chunks: Iterable[list[Line]]) -> Iterator[list[Line]]:
    """Leave out the first lines."""
    for chunk in chunks:
        left = chunk[count:]
        count = max(0, count - len(chunk))
        if left:
            yield left
