"""What a model takes and gives over the Open Inference Protocol: tensors, sizes, parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from foretell.data.bundles.bundle import TensorSpec

Kind = Literal["bool", "int", "float", "text"]

DATATYPES = {
    "bool": "BOOL",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "bytes": "BYTES",
}
"""The protocol's names of NumPy's types."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output.

    Attributes:
        name: As clients name it.
        datatype: The protocol's name, such as "FP64".
        axes: An axis each: its name where any size will do, its size where it is fixed. Axes of one
            name have one size in a request.
    """

    name: str
    datatype: str
    axes: tuple[str | int, ...]

    @classmethod
    def of(cls, spec: TensorSpec) -> "Tensor":
        """Read a tensor off a manifest."""
        return cls(spec.name, DATATYPES[spec.dtype], spec.shape)

    @property
    def shape(self) -> list[int]:
        """The sizes, -1 where any will do."""
        return [axis if isinstance(axis, int) else -1 for axis in self.axes]


@dataclass(frozen=True, slots=True)
class Limit:
    """How far an axis may go.

    Attributes:
        most: Its largest size.
        reason: Whose limit that is, as it follows "at most 10 ".
    """

    most: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """What a model is asked and what it answers.

    Attributes:
        model: Its name, as in the request.
        inputs: All of them are needed.
        outputs: Those that an answer has when none are asked for by name.
        limits: Of axes that have one, by name.
        may_be_empty: Axes whose size may be 0.
        parameters: Those of a request that are this model's own.
        facts: What else a client may want to know of the model.
    """

    model: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    limits: Mapping[str, Limit] = field(default_factory=dict)
    may_be_empty: frozenset[str] = frozenset()
    parameters: Mapping[str, Kind] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
