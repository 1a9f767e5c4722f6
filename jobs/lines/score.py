"""The scoring job: how probable given translations are, a line each."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal

from foretell.data.errors import ForetellError, OptionError
from foretell.data.text.lines import Line, arriving_lines, check_sources, count_lines, line_counts
from foretell.data.text.translation import PairScore
from foretell.jobs.journals.journal import refused_file
from foretell.jobs.lines.answered_lines import AnsweredLine, RefusedLine
from foretell.jobs.lines.chunks import in_chunks
from foretell.jobs.lines.doors import OpenTranslatorDoor, TranslatorDoor
from foretell.jobs.lines.job import LinesDone, Tell, answer_lines, ask
from foretell.jobs.lines.output import direct_output
from foretell.jobs.lines.translation_text import number, to_json
from foretell.jobs.output import check_outputs, check_stdout


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreJob:
    """What to score, and where the answer goes.

    Attributes:
        src: Path of the source sentences; "-" is standard input.
        tgt: Path of their translations.
        output: Path of the answer; None is standard output.
        form: "text" is log P(y|x) of each pair; "jsonl" all that is known.
        chunk_lines: Pairs that are scored together.
        overwrite: Replace files that stand at the outputs.
    """

    src: str
    tgt: str
    output: Path | None = None
    form: Literal["text", "jsonl"] = "text"
    chunk_lines: int = 1024
    overwrite: bool = False

    @property
    def refused_file(self) -> Path | None:
        """Where the refused lines and their reasons go; None when the answer goes to stdout."""
        return None if self.output is None else refused_file(self.output)


@dataclass(frozen=True, slots=True)
class _LinePair:
    """The same line of two files."""

    src: Line
    tgt: Line

    @property
    def number(self) -> int:
        return self.src.number

    @property
    def problem(self) -> str | None:
        sides = (("source", self.src), ("target", self.tgt))
        problems = [f"{side}: {line.problem}" for side, line in sides if line.problem]
        return " ".join(problems) or None


def run_score_job(
    job: ScoreJob, open_door: OpenTranslatorDoor, *, tell: Tell | None = None
) -> tuple[LinesDone, str]:
    """Score each pair of lines.

    Returns:
        What became of the lines, and what computed the scores, for people to read.

    Raises:
        ForetellError: The files differ in their lines, or the outputs or the door are at fault; no
            file is written.
    """
    _check(job)
    with open_door() as door:
        chunks = in_chunks(_pairs(job), job.chunk_lines, lambda p: len(p.src.text + p.tgt.text))
        output = direct_output(job.output)
        done = answer_lines(chunks, lambda chunk: _score(job, door, chunk), output, door, tell=tell)
        return done, door.where


def _check(job: ScoreJob) -> None:
    if job.form not in ("text", "jsonl"):
        raise OptionError(f"the format is {job.form!r}; it must be text or jsonl.")
    if job.src == job.tgt == "-":
        raise OptionError("--src and --tgt can't both be -; standard input is read once.")
    check_sources(job.src, job.tgt)
    if job.output is None:
        check_stdout()
    targets = [path for path in (job.output, job.refused_file) if path is not None]
    inputs = [source for source in (job.src, job.tgt) if source != "-"]
    check_outputs(targets, overwrite=job.overwrite, inputs=inputs)
    files = [name for name in inputs if os.path.isfile(name)]  # all else can be read only once
    if len(files) == 2:
        _check_counts({name: count_lines(name) for name in files})
    elif not files and len(inputs) == 2 and os.path.samefile(*inputs):
        raise OptionError(f"--src and --tgt are both {job.src}, which can be read only once.")


def _check_counts(counts: dict[str, int]) -> None:
    if len(set(counts.values())) > 1:
        told = line_counts(list(counts.items()))
        raise ForetellError(f"line i of --src belongs to line i of --tgt, but {told}.")


def _pairs(job: ScoreJob) -> Iterator[_LinePair]:
    src, tgt = (chain.from_iterable(arriving_lines(source)) for source in (job.src, job.tgt))
    counts = {job.src: 0, job.tgt: 0}
    for source, target in zip_longest(src, tgt):
        counts[job.src] += source is not None
        counts[job.tgt] += target is not None
        if source is not None and target is not None:
            yield _LinePair(source, target)
    _check_counts(counts)  # how many lines came through a pipe is known only now


def _score(job: ScoreJob, door: TranslatorDoor, lines: list[_LinePair]) -> list[AnsweredLine]:
    pairs = [(line.src.text, line.tgt.text) for line in lines]
    answers = ask(lines, lambda: door.score(pairs))
    return [_written(job, line, answer) for line, answer in zip(lines, answers, strict=True)]


def _written(job: ScoreJob, line: _LinePair, answer: PairScore | RefusedLine) -> AnsweredLine:
    refused = answer.reason if isinstance(answer, RefusedLine) else None
    if job.form == "jsonl":
        return AnsweredLine(line.number, _json_line(line, answer), refused=refused)
    text = "" if isinstance(answer, RefusedLine) else f"{answer.log_prob:.6f}"
    return AnsweredLine(line.number, text, refused=refused)


def _json_line(line: _LinePair, answer: PairScore | RefusedLine) -> str:
    values = {"line": line.number, "source": line.src.text, "target": line.tgt.text}
    if isinstance(answer, RefusedLine):
        return to_json(values | {"refused": answer.reason})
    values |= {
        "log_prob": number(answer.log_prob),
        "score": number(answer.score),
        "tokens": answer.tokens,
        "token_log_probs": [number(value) for value in answer.token_log_probs],
    }
    return to_json(values)
