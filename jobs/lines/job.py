"""What every job over lines does: ask for those that can be read, write an answer for each."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Protocol, TypeVar

from foretell.data.text.translation import RefusedSentencesError
from foretell.jobs.lines.answered_lines import AnsweredLine, LineCounts, RefusedLine
from foretell.jobs.lines.doors import TranslatorDoor
from foretell.jobs.lines.option_names import problem_as_options
from foretell.jobs.lines.output import WriteLines
from foretell.jobs.pipeline import run_pipeline
from foretell.jobs.summary import JobProgress, JobSummary, Meter


class Numbered(Protocol):
    """A line, or lines of several files that belong together."""

    @property
    def number(self) -> int:
        """Its place, from 1."""

    @property
    def problem(self) -> str | None:
        """Why it can't be read; None where it can."""


L = TypeVar("L", bound=Numbered)
A = TypeVar("A")
Tell = Callable[[JobProgress], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinesDone:
    """What became of a job over lines.

    Attributes:
        num_lines: Lines of the input, and so of the output.
        num_refused: Those among them that got no answer.
        refused: The first of these, with their reasons.
        num_truncated: Lines whose end was not read, because they were too long for the model.
        truncated: The numbers of the first of these, from 1.
        summary: What this run took; it has done the lines that no earlier one had done.
    """

    num_lines: int
    num_refused: int
    refused: tuple[RefusedLine, ...]
    num_truncated: int
    truncated: tuple[int, ...]
    summary: JobSummary

    @classmethod
    def of(cls, counts: LineCounts, summary: JobSummary) -> "LinesDone":
        """Sum up."""
        return cls(
            num_lines=counts.num_lines,
            num_refused=counts.num_refused,
            refused=tuple(counts.refused),
            num_truncated=counts.num_truncated,
            truncated=tuple(counts.truncated),
            summary=summary,
        )


def answer_lines(
    chunks: Iterable[list[L]],
    answer: Callable[[list[L]], list[AnsweredLine]],
    output: AbstractContextManager[WriteLines],
    door: TranslatorDoor,
    *,
    before: LineCounts | None = None,
    total: int | None = None,
    eager: bool = False,
    tell: Tell | None = None,
) -> LinesDone:
    """Write a line for every line, in their order; reading, computing and writing overlap.

    Args:
        chunks: The lines of the input that are not done yet.
        answer: Answers the lines of a chunk; called in several threads.
        output: Hands out what writes lines.
        door: Who computes: how much at a time, and how that is stopped.
        before: What earlier runs have done.
        total: Lines of the whole input; None where nobody knows.
        eager: Write the answers of a chunk before the next one is taken.
        tell: Called with how far the job is.
    """
    in_flight = 1 if eager else door.in_flight
    results = run_pipeline(chunks, answer, in_flight=in_flight, stop=door.stop)
    return write_answers(results, output, door, before=before, total=total, tell=tell)


def write_answers(
    results: Generator[list[AnsweredLine], None, None],
    output: AbstractContextManager[WriteLines],
    door: TranslatorDoor,
    *,
    before: LineCounts | None = None,
    total: int | None = None,
    tell: Tell | None = None,
) -> LinesDone:
    """Write answers as they come, in the order of their lines; see `answer_lines`."""
    counts = LineCounts() if before is None else before
    num_before = counts.num_lines
    meter = Meter(done=num_before, total=total, busy_s=door.busy_s, threads=door.threads)
    with output as write, closing(results):
        for lines in results:
            write(lines)
            counts.add(lines)
            if tell is not None:
                tell(meter.progress(counts.num_lines - num_before))
    return LinesDone.of(counts, meter.summary(counts.num_lines - num_before))


def ask(lines: Sequence[L], call: Callable[[], Sequence[A]]) -> list[A | RefusedLine]:
    """Get an answer for each line; a refusal holds the place of those that got none.

    Args:
        lines: Lines, some of which may be unreadable; what is answered to these is dropped. (As
            blank ones they keep the places of the others, on which depends what sampling draws.)
        call: Answers all lines in their order, or raises RefusedSentencesError.
    """
    refused: dict[int, str] = {}
    try:
        answers = call()
    except RefusedSentencesError as error:
        answers = error.answers
        refused = {
            refusal.position: problem_as_options(refusal.reason) for refusal in error.refusals
        }
    refused |= {place: line.problem for place, line in enumerate(lines) if line.problem is not None}
    return [
        RefusedLine(line.number, refused[place]) if place in refused else answers[place]
        for place, line in enumerate(lines)
    ]
