"""What became of lines: answered, refused, cut; and how many were."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from foretell.jobs.journals.journal import MOST_KEPT, Journal

REFUSED_COLUMNS = ("line", "reason")  # of the side file


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """Why a line got no answer.

    Attributes:
        number: Its place in the file, from 1.
        reason: One sentence: what, got, expected, what to do.
    """

    number: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.number:,}: {self.reason}"


@dataclass(frozen=True, slots=True)
class AnsweredLine:
    """What is written for a line.

    Attributes:
        number: Its place in the file, from 1.
        text: What is written, without an end.
        refused: Why it got no answer; None where it got one.
        truncated: Its end was not read, because it was too long for the model.
    """

    number: int
    text: str
    refused: str | None = None
    truncated: bool = False


@dataclass(slots=True)
class LineCounts:
    """What became of the lines so far; the first of each kind are known, however many there are.

    Attributes:
        num_lines: All of them.
        num_refused: Those among them that got no answer.
        refused: The first of these, with their reasons.
        num_truncated: Those whose end was not read, because they were too long for the model.
        truncated: The numbers of the first of these.
    """

    num_lines: int = 0
    num_refused: int = 0
    refused: list[RefusedLine] = field(default_factory=list)
    num_truncated: int = 0
    truncated: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, journal: Journal) -> "LineCounts":
        """Take up what earlier runs of a job have counted."""
        return cls(
            num_lines=journal.totals["line"],
            num_refused=journal.totals["refused"],
            refused=[RefusedLine(*row) for row in islice(journal.refused(), MOST_KEPT)],
            num_truncated=journal.totals["truncated"],
            truncated=list(islice(journal.notes(), MOST_KEPT)),
        )

    @property
    def has_answers(self) -> bool:
        """Something can stand in the output: there are no lines, or not all were refused."""
        return self.num_lines == 0 or self.num_refused < self.num_lines

    def add(self, lines: Sequence[AnsweredLine]) -> None:
        """Count lines."""
        self.num_lines += len(lines)
        for line in lines:
            if line.refused is not None:
                self.num_refused += 1
                if len(self.refused) < MOST_KEPT:
                    self.refused.append(RefusedLine(line.number, line.refused))
            if line.truncated:
                self.num_truncated += 1
                if len(self.truncated) < MOST_KEPT:
                    self.truncated.append(line.number)


def line_bytes(lines: Sequence[AnsweredLine]) -> bytes:
    """Write lines in UTF-8 and with LF ends, whatever the machine's habits are."""
    return "".join(f"{line.text}\n" for line in lines).encode()
