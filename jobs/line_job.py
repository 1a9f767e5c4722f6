"""What every job over lines does: ask for those that can be read, write an answer for each."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from foretell.data.translation import RefusedSentencesError
from foretell.jobs.line_output import RefusedLine, RefusedLines, line_writer, refused_file
from foretell.jobs.option_names import problem_as_options


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


@dataclass(frozen=True, kw_only=True, slots=True)
class LinesDone:
    """What became of a job over lines.

    Attributes:
        num_lines: Lines of the input, and so of the output.
        num_refused: Those among them that got no answer.
        refused: The first of these, with their reasons.
        seconds: How long it took.
    """

    num_lines: int
    num_refused: int
    refused: tuple[RefusedLine, ...]
    seconds: float


class _NothingAnsweredError(Exception):
    """Leaves an output as it was."""


def answer_lines(
    chunks: Iterable[list[L]],
    answer: Callable[[list[L]], Iterable[tuple[str, RefusedLine | None]]],
    output: Path | None,
    *,
    tell: Callable[[str], None] | None = None,
) -> LinesDone:
    """Write a line for every line, in their order.

    Args:
        chunks: The lines of the input.
        answer: Yields for each line of a chunk what to write, and why it was refused if it was.
        output: See `line_writer`; refused lines go to `refused_file(output)`. Where every line is
            refused the output stays as it was.
        tell: Called with what has been done.
    """
    start = time.perf_counter()
    num_lines = 0
    with (
        RefusedLines(refused_file(output)) as refused,
        suppress(_NothingAnsweredError),
        line_writer(output) as write,
    ):
        for chunk in chunks:
            texts = []
            for text, refusal in answer(chunk):
                texts.append(text)
                if refusal is not None:
                    refused.add(refusal)
            write("".join(f"{text}\n" for text in texts))
            num_lines += len(texts)
            if tell is not None:
                tell(f"{num_lines:,} line{'' if num_lines == 1 else 's'} done")
        if 0 < num_lines == refused.count:
            raise _NothingAnsweredError
    return LinesDone(
        num_lines=num_lines,
        num_refused=refused.count,
        refused=tuple(refused.first),
        seconds=time.perf_counter() - start,
    )


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
