"""The refused series of a job as people are told of them: counted, and the first ones by reason."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

MOST_SHOWN = 20


@dataclass(slots=True)
class RefusedSeries:
    """Counts refused series; keeps the first reasons, and the first names of each.

    Attributes:
        count: All of them.
    """

    count: int = 0
    _names: dict[str, list[str]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, series: Iterable[tuple[object, str]]) -> Self:
        """Gather names with their reasons."""
        found = cls()
        for name, reason in series:
            found.add(name, reason)
        return found

    def add(self, name: object, reason: str) -> None:
        """Note one of them."""
        self.count += 1
        if reason not in self._names:
            if len(self._names) == MOST_SHOWN:
                return
            self._names[reason], self._counts[reason] = [], 0
        self._counts[reason] += 1
        if len(self._names[reason]) < MOST_SHOWN:
            self._names[reason].append(str(name))

    def by_reason(self) -> Iterator[tuple[str, list[str], int]]:
        """Yield each of the first reasons, the first names that have it, and how many have it."""
        for reason, names in self._names.items():
            yield reason, names, self._counts[reason]

    @property
    def num_shown(self) -> int:
        """Those that have one of the first reasons."""
        return sum(self._counts.values())
