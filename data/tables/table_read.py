"""How far a table is read that is gone through as a whole."""

from collections.abc import Callable
from dataclasses import dataclass

Heard = Callable[[float], object]  # gets the share of a file that is read, now and then


def nobody(_: float) -> None:
    """Hear nothing."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table on its way.

    Attributes:
        name: Of the table, for messages.
        doing: What is done with its rows: "copied", "read" or "sorted".
        done_bytes: Of its files, so far.
        total_bytes: Of its files; None where nobody knows.
    """

    name: str
    doing: str
    done_bytes: int
    total_bytes: int | None
