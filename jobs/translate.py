"""The translation job: lines in, the translation of each in a line out, whoever computes them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from foretell.data.errors import ForetellError, OptionError
from foretell.data.lines import Line, check_sources
from foretell.data.text import is_copied, normalise
from foretell.data.translation import TranslateOptions, Translation
from foretell.jobs.attention_plot import MAX_PANELS, AttentionPicture, draw_attention
from foretell.jobs.line_chunks import line_chunks
from foretell.jobs.line_job import LinesDone, answer_lines, ask
from foretell.jobs.line_output import MOST_KEPT, RefusedLine, refused_file
from foretell.jobs.output import check_outputs, check_stdout
from foretell.jobs.plot import check_plot
from foretell.jobs.translation_text import json_line, text_line
from foretell.jobs.translator_doors import OpenTranslatorDoor, TranslatorDoor


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
        chunk_lines: Lines that are translated together; their length decides about memory.
        overwrite: Replace files that stand at the outputs.
    """

    source: str
    options: TranslateOptions = field(default_factory=TranslateOptions)
    output: Path | None = None
    form: Literal["text", "jsonl"] = "text"
    scores: bool = False
    plot: Path | None = None
    chunk_lines: int = 1024
    overwrite: bool = False

    @property
    def refused_file(self) -> Path | None:
        """Where the refused lines and their reasons go; None when the answer goes to stdout."""
        return refused_file(self.output)


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateResult:
    """What became of a job.

    Attributes:
        done: Lines and refusals.
        num_truncated: Lines whose end was not read, because they were too long for the model.
        truncated: The numbers of the first of these, from 1.
        num_drawn: Sentences in the picture; without any there is none.
        where: What computed the translations, for people to read.
    """

    done: LinesDone
    num_truncated: int
    truncated: tuple[int, ...]
    num_drawn: int
    where: str


def run_translate_job(
    job: TranslateJob, open_door: OpenTranslatorDoor, *, tell: Callable[[str], None] | None = None
) -> TranslateResult:
    """Translate a file line by line, in memory that doesn't grow with it.

    A blank line stays blank. Lines that can't be translated are left empty and written, with their
    reasons, to `job.refused_file`; without any, no such file is left. From standard input to
    standard output an answer comes as soon as whole lines are there.

    Raises:
        ForetellError: The options, the input, the outputs or the door are at fault; no file is
            written.
    """
    _check(job)
    eager = job.source == "-" and job.output is None
    with open_door() as door:
        if job.plot is not None and not door.spec.has_attention:
            raise ForetellError(
                f"{job.plot} can't be drawn: the model has no attention. Translate without it."
            )
        work = _Work(job, door)
        chunks = line_chunks(job.source, most_lines=job.chunk_lines, eager=eager)
        done = answer_lines(chunks, work.answer, job.output, tell=tell)
        if job.plot is not None and work.pictures:
            draw_attention(work.pictures, job.plot)
    return TranslateResult(
        done=done,
        num_truncated=work.num_truncated,
        truncated=tuple(work.truncated),
        num_drawn=len(work.pictures),
        where=door.where,
    )


def _check(job: TranslateJob) -> None:
    """Refuse what can't end well, before a model is loaded or a server asked."""
    if job.form not in ("text", "jsonl"):
        raise OptionError(f"the format is {job.form!r}; it must be text or jsonl.")
    if job.options.attention and job.form != "jsonl":
        raise OptionError("the text has no place for attention; give --format jsonl with it.")
    check_sources(job.source)
    if job.output is None:
        check_stdout()
    if job.plot is not None:
        check_plot(job.plot)
    targets = [path for path in (job.output, job.refused_file, job.plot) if path is not None]
    inputs = [job.source] if job.source != "-" else []
    check_outputs(targets, overwrite=job.overwrite, inputs=inputs)


class _Work:
    """Translates chunk by chunk, and remembers what is told in the end."""

    def __init__(self, job: TranslateJob, door: TranslatorDoor) -> None:
        self.num_truncated = 0
        self.truncated: list[int] = []
        self.pictures: list[AttentionPicture] = []
        self._job = job
        self._door = door
        self._most_drawn = MAX_PANELS if job.plot is not None else 0

    def answer(self, lines: list[Line]) -> Iterator[tuple[str, RefusedLine | None]]:
        drawn = self._choose_drawn(lines)
        answers = ask(lines, lambda: self._translate(lines, drawn))
        for line, answer in zip(lines, answers, strict=True):
            refusal = answer if isinstance(answer, RefusedLine) else None
            if isinstance(answer, Translation):
                self._note(line, answer, line.number in drawn)
            if self._job.form == "jsonl":
                yield json_line(line, answer), refusal
            elif isinstance(answer, Translation):
                yield text_line(answer, scores=self._job.scores), None
            else:
                yield "", refusal

    def _translate(self, lines: Sequence[Line], drawn: set[int]) -> list[Translation]:
        options = self._job.options
        each: TranslateOptions | list[TranslateOptions] = options
        if drawn:
            attentive = replace(options, attention=True)
            each = [attentive if line.number in drawn else options for line in lines]
        texts = [line.text for line in lines]
        return self._door.translate(texts, each, first_place=lines[0].number - 1)

    def _choose_drawn(self, lines: Sequence[Line]) -> set[int]:
        """Numbers of the next lines to draw: those that hold words."""
        missing = self._most_drawn - len(self.pictures)
        return set([line.number for line in lines if not is_copied(line.text)][:missing])

    def _note(self, line: Line, answer: Translation, drawn: bool) -> None:
        if answer.truncated:
            self.num_truncated += 1
            if len(self.truncated) < MOST_KEPT:
                self.truncated.append(line.number)
        picture = AttentionPicture.of(answer, normalise(line.text)) if drawn else None
        if picture is not None:
            self.pictures.append(picture)
