"""What seconds went into, of one batch and of many: the units of the account."""

from dataclasses import dataclass

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Duration:
    """How often something was done, and how long it took in all.

    Attributes:
        count: Times.
        ns: Nanoseconds.
    """

    count: int = 0
    ns: int = 0

    def __add__(self, other: "Duration") -> "Duration":
        """Both together."""
        return Duration(self.count + other.count, self.ns + other.ns)


@dataclass(frozen=True, slots=True)
class Spent:
    """What the seconds of a batch went into.

    Attributes:
        input_s: Until the first of its graphs ran.
        infer_s: From there to the end of the last one.
        output_s: After it.
    """

    input_s: float
    infer_s: float
    output_s: float

    def __add__(self, other: "Spent") -> "Spent":
        """Both together."""
        return Spent(
            self.input_s + other.input_s,
            self.infer_s + other.infer_s,
            self.output_s + other.output_s,
        )


NOTHING = Spent(0.0, 0.0, 0.0)


def split(compute_s: float, input_s: float, output_s: float) -> Spent:
    """What a batch's seconds went into, of which so many were before its graphs and after them."""
    return Spent(input_s, max(0.0, compute_s - input_s - output_s), output_s)


@dataclass(frozen=True, slots=True)
class Computing:
    """The same of many batches.

    Attributes:
        input: As in `Spent`, and so on.
        infer: Also.
        output: Also.
    """

    input: Duration
    infer: Duration
    output: Duration

    def __add__(self, other: "Computing") -> "Computing":
        """Both together."""
        return Computing(
            self.input + other.input, self.infer + other.infer, self.output + other.output
        )


class Sum:
    """A `Duration` that grows."""

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.count += 1
        self.ns += int(seconds * _NS)

    def read(self) -> Duration:
        """As it is now."""
        return Duration(self.count, self.ns)


class BatchSums:
    """A `Computing` that grows."""

    def __init__(self) -> None:
        self.input, self.infer, self.output = Sum(), Sum(), Sum()

    def add(self, spent: Spent) -> None:
        """Count a batch."""
        self.input.add(spent.input_s)
        self.infer.add(spent.infer_s)
        self.output.add(spent.output_s)

    def read(self) -> Computing:
        """As it is now."""
        return Computing(self.input.read(), self.infer.read(), self.output.read())
