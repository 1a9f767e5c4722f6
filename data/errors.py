"""The errors that foretell raises for what callers, files and machines do wrong.

Each is a member of one family and of a standard one, so that both `except ForetellError` and
`except ValueError` do what they say. A message tells what, got, expected, and what to do. Whoever
can find several problems at once reports all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class ForetellError(Exception):
    """The root of the family; its text is one clear paragraph for the person who made the mistake.

    Attributes:
        problems: Every problem that was found, a sentence each.
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("\n".join(self.problems))


class TableError(ForetellError, ValueError):
    """A table as a whole can't be read or understood: no such column, no such file, mixed dates."""


class TextError(ForetellError, ValueError):
    """A text file can't be read, or files whose lines belong together don't."""


class FrequencyError(ForetellError, ValueError):
    """A frequency is unknown, can't be inferred, or is not the one the model was trained for."""


class OptionError(ForetellError, ValueError):
    """An option is out of its range, or two options contradict each other."""


class BundleError(ForetellError, ValueError):
    """A model bundle is missing, incomplete, damaged, or of a format this version doesn't read."""


class ModelNotFoundError(ForetellError, LookupError):
    """There is no model of that name or version."""


class DeviceError(ForetellError, RuntimeError):
    """The device that was asked for can't be had."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one series got no forecast; the others got theirs.

    Attributes:
        position: Position of the series in the input, by first appearance of its id, from 0.
        unique_id: The id as the caller gave it.
        reason: One sentence: what, got, expected, what to do.
    """

    position: int
    unique_id: object
    reason: str

    def __str__(self) -> str:
        return f"{self.unique_id}: {self.reason}"


class RefusedSeriesError(ForetellError, ValueError):
    """Some series were refused; `forecast` holds the answers of the others, so nothing is lost.

    Attributes:
        refusals: The refused series with their reasons.
        forecast: The answers of all other series: a table as `forecast` would have returned it.
    """

    def __init__(self, refusals: Sequence[Refusal], forecast: object) -> None:
        self.refusals = tuple(refusals)
        self.forecast = forecast
        super().__init__([f"series {refusal}" for refusal in self.refusals])

    def __reduce__(self) -> tuple[type, tuple[Sequence[Refusal], object]]:
        return type(self), (self.refusals, self.forecast)  # pools hand errors on pickled


class TableWarning(UserWarning):
    """Something in a table was not used, and the caller may want to know."""
