"""What a proof is: differences of onnxruntime's answers to torch's, beside what is allowed.

The side of onnxruntime is the production path itself, `foretell.runtime`, not a second runner.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretell.data.bundles.records import to_plain
from foretell.export.onnx_graph import ExportError

# Called with what is being done.
Progress = Callable[[str], None]


class CaseProgress:
    """Tells which case of a proof is being compared, and how many there are."""

    def __init__(self, tell: Progress, num_cases: int) -> None:
        self._tell = tell
        self._num_cases = num_cases
        self._number = 0

    def begin(self, name: str) -> None:
        """Tell that the next case begins."""
        self._number += 1
        self._tell(
            f"comparing the graphs with torch, case {self._number} of {self._num_cases} ({name})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ParityReport:
    """What was compared and how far apart it was; goes into the bundle as `parity.json`.

    Attributes:
        atol: Allowed absolute difference.
        rtol: Allowed relative difference.
        comparisons: Number of arrays compared.
        largest_absolute: Largest difference.
        largest_relative: Largest relative difference.
        worst_case: Where most of the allowed difference was used.
        used: Share of the allowed difference used there; above 1 has failed.
        failures: What failed, a sentence each.
        provider: The onnxruntime provider that ran.
        tool_versions: Versions of the libraries on both sides.
    """

    atol: float
    rtol: float
    comparisons: int
    largest_absolute: float
    largest_relative: float
    worst_case: str
    used: float
    failures: tuple[str, ...]
    provider: str
    tool_versions: dict[str, str]

    def __str__(self) -> str:
        """Sum up a proof that holds."""
        return f"{self._compared()} use at most {self.used:.1%} of what is allowed " + (
            f"(rtol {self.rtol:g}, atol {self.atol:g})"
        )

    def _compared(self) -> str:
        return f"{self.comparisons:,} comparisons"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return to_plain(self)

    def check(self) -> None:
        """Raise an ExportError that lists everything outside the tolerance."""
        if self.failures:
            raise ExportError(
                [
                    *self.failures,
                    "onnxruntime doesn't compute what torch computes, so nothing was written.",
                ]
            )


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest differences of one comparison.

    Attributes:
        where: What was compared.
        absolute: The largest.
        relative: The largest in relation to the expected number.
        used: The largest in relation to what is allowed.
    """

    where: str
    absolute: float
    relative: float
    used: float

    @property
    def failed(self) -> bool:
        """Whether it is more than is allowed, or no number."""
        return not self.used <= 1

    def __str__(self) -> str:
        return (
            f"{self.where}: the largest difference is {self.absolute:.3g}, "
            f"{self.used:.3g} times what is allowed."
        )


def summary(differences: Sequence[Difference]) -> dict[str, Any]:
    """Return the fields of a report that follow from its differences."""
    worst = max(differences, key=lambda difference: difference.used)
    return {
        "comparisons": len(differences),
        "largest_absolute": max(difference.absolute for difference in differences),
        "largest_relative": max(difference.relative for difference in differences),
        "worst_case": worst.where,
        "used": worst.used,
        "failures": tuple(str(difference) for difference in differences if difference.failed),
    }


def largest_ratio(difference: np.ndarray, to: np.ndarray) -> float:
    """Return the largest quotient; no difference is 0 whatever it is measured against."""
    differs = difference > 0
    if not differs.any():
        return 0.0
    with np.errstate(divide="ignore"):
        return float((difference[differs] / to[differs]).max())
