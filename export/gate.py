"""What an int8 bundle may lose: float32 and int8 measured on the same held-out data, compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretell.data.bundles.bundle import Bundle
from foretell.data.errors import OptionError
from foretell.export.onnx_graph import ExportError

MIN_HELD_OUT = 200  # lines or series; of fewer, chance says more than the weights
_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """How good a bundle is on held-out data.

    Attributes:
        num_held_out: Lines or series.
        values: A number for each measure that `LIMITS` knows of this kind of model.
    """

    num_held_out: int
    values: dict[str, float]


Measure = Callable[[Bundle], Measured]


@dataclass(frozen=True, slots=True)
class Limit:
    """What a measure may be in int8.

    Attributes:
        what: The measure, for people.
        allowed: From float32's number to the worst that int8's may be.
        rule: The same in words.
        higher_is_better: Of the measure.
        form: How its numbers are written.
    """

    what: str
    allowed: Callable[[float], float]
    rule: str
    higher_is_better: bool = False
    form: str = ".4f"

    def holds(self, before: float, after: float) -> bool:
        """Tell whether int8's number is good enough; no number never is."""
        most = self.allowed(before)
        return after >= most if self.higher_is_better else after <= most


LIMITS = {
    "bleu": Limit("BLEU", lambda x: x - 1.0, "1.0 lower", True, ".2f"),
    "copied_share": Limit(
        "share of translations equal to their source", lambda x: x + 0.01, "0.01 higher"
    ),
    "mase": Limit("MASE", lambda x: x * 1.05, "5 % higher"),
    "constant_error": Limit(
        "relative error of a constant series", lambda _: 0.01, "0.01", form=".2g"
    ),
}


@dataclass(slots=True)
class Gate:
    """Measures a model in float32 and in int8, and says whether int8 may be written.

    Attributes:
        measure: Measures a bundle on the held-out data.
        before: What float32 came to.
        after: What int8 came to.
        sizes: Bytes of the graphs before and after.
    """

    measure: Measure
    before: Measured | None = field(default=None, init=False)
    after: Measured | None = field(default=None, init=False)
    sizes: tuple[int, int] = field(default=(0, 0), init=False)

    def take_before(self, bundle: Bundle) -> None:
        """Measure float32.

        Raises:
            OptionError: There is too little held-out data.
        """
        self.before = self.measure(bundle)
        check_held_out(self.before.num_held_out)
        self.sizes = (_graph_bytes(bundle), 0)

    def take_after(self, bundle: Bundle) -> None:
        """Measure int8.

        Raises:
            ExportError: It loses more than it may; every measure is told.
        """
        self.after = self.measure(bundle)
        self.sizes = (self.sizes[0], _graph_bytes(bundle))
        if not all(self._holds()):
            raise ExportError(
                [
                    *self.lines(),
                    "int8 loses more than it may, so nothing was written; serve fp32, or train a "
                    "wider model or for longer.",
                ]
            )

    def _holds(self) -> list[bool]:
        return [LIMITS[name].holds(*both) for name, both in self._values().items()]

    def lines(self) -> list[str]:
        """Tell what was measured and what was allowed, a line each."""
        lines = []
        for (name, (before, after)), holds in zip(
            self._values().items(), self._holds(), strict=True
        ):
            limit = LIMITS[name]
            lines.append(
                f"{limit.what}: float32 {before:{limit.form}}, int8 {after:{limit.form}}; at most "
                f"{limit.rule} is allowed{'' if holds else ': FAILED'}."
            )
        return lines

    def __str__(self) -> str:
        assert self.before is not None
        small, large = (size / _MIB for size in reversed(self.sizes))
        return (
            f"{self.before.num_held_out:,} held-out lines or series; the graphs' "
            f"{large:.1f} MiB became {small:.1f}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return what goes into the manifest."""
        assert self.before is not None
        assert self.after is not None
        return {
            "num_held_out": self.before.num_held_out,
            "float32": self.before.values,
            "int8": self.after.values,
            "allowed": {name: LIMITS[name].rule for name in self.before.values},
            "graph_bytes": {"float32": self.sizes[0], "int8": self.sizes[1]},
        }

    def _values(self) -> Mapping[str, tuple[float, float]]:
        assert self.before is not None
        assert self.after is not None
        return {name: (x, self.after.values[name]) for name, x in self.before.values.items()}


def check_held_out(count: int) -> None:
    """Refuse data of which nothing follows.

    Raises:
        OptionError: There is too little of it.
    """
    if count < MIN_HELD_OUT:
        raise OptionError(
            f"the held-out data has {count} lines or series that can be measured; int8 needs at "
            f"least {MIN_HELD_OUT} that the model was not trained on."
        )


def _graph_bytes(bundle: Bundle) -> int:
    return sum((bundle.path / graph.file).stat().st_size for graph in bundle.manifest.graphs)
