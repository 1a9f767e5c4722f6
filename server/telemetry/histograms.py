"""Counts of values by size: cheap to add to, exact to merge, good enough to read percentiles of."""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

# 0.1 ms to 105 s; every bound is 19 % above the one before, so a percentile is off by less.
SECONDS = tuple(1e-4 * 2 ** (k / 4) for k in range(81))
SIZES = tuple(float(2**k) for k in range(13))
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values were how large.

    Attributes:
        bounds: Largest value of each bucket but the last, which has no bound; ascending.
        counts: Values in each bucket, one more than bounds.
        total: Sum of the values.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.counts)

    def __add__(self, other: "Histogram") -> "Histogram":
        """The values of both; they have the same bounds."""
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Histogram(self.bounds, counts, self.total + other.total)

    def __sub__(self, earlier: "Histogram") -> "Histogram":
        """The values since an earlier state of the same counts."""
        counts = tuple(a - b for a, b in zip(self.counts, earlier.counts, strict=True))
        return Histogram(self.bounds, counts, self.total - earlier.total)

    def percentile(self, percent: float) -> float | None:
        """The value that this share of the values doesn't exceed.

        Within a bucket values are taken to be spread evenly; what lies above the last bound is
        told as that bound.

        Args:
            percent: 0 to 100.

        Returns:
            None without values.
        """
        rank = self.count * percent / 100
        below = 0
        for bucket, count in enumerate(self.counts):
            if count and below + count >= rank:
                if bucket == len(self.bounds):
                    return self.bounds[-1]
                low = self.bounds[bucket - 1] if bucket else 0.0
                return low + (self.bounds[bucket] - low) * (rank - below) / count
            below += count
        return None

    def cumulated(self, every: int = 1) -> list[tuple[float, int]]:
        """Bounds with the number of values up to each, as Prometheus wants them; infinity last.

        Args:
            every: Take only each so many-th bound, from the first.
        """
        sums = list(accumulate(self.counts))
        pairs = list(zip(self.bounds, sums, strict=False))[::every]
        return [*pairs, (float("inf"), sums[-1])]


class Recorder:
    """A histogram that grows; whoever adds holds the lock that guards it."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def read(self) -> Histogram:
        """The state of now."""
        return Histogram(self._bounds, tuple(self._counts), self._total)
