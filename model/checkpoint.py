"""What a training keeps beside its weights: the checkpoint, the averaged weights, the log."""

import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foretell.data.errors import BundleError, ForetellError

CHECKPOINT_FILE = "checkpoint.pt"

Weights = dict[str, Tensor]


class Average:
    """An exponential moving average of a module's weights, and the best one so far.

    The average warms up: after t steps its decay is at most (1 + t) / (10 + t), so that early
    weights are forgotten.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights: Weights = _copy(module.state_dict())
        self.best: Weights | None = None

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        """Move the average towards the module's present weights."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, value in module.state_dict().items():
            average = self.weights[name]
            if average.dtype.is_floating_point:
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(value)

    def keep_best(self) -> None:
        """Remember the present average as the best."""
        self.best = _copy(self.weights)

    def copy_to(self, module: nn.Module, *, best: bool) -> None:
        """Load the average, or the best one, into the module."""
        module.load_state_dict(self.best if best and self.best is not None else self.weights)

    @contextmanager
    def swapped_into(self, module: nn.Module) -> Iterator[None]:
        """Let the module hold the average for a while."""
        trained = _copy(module.state_dict())
        module.load_state_dict(self.weights)
        try:
            yield
        finally:
            module.load_state_dict(trained)


class Checkpoint:
    """All that a killed training needs to go on, in one file that is either whole or not there."""

    def __init__(
        self, path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, average: Average
    ) -> None:
        self.path = path
        self._module = module
        self._optimizer = optimizer
        self._average = average

    def save(self, extra: dict[str, Any]) -> None:
        """Write the file anew.

        Raises:
            ForetellError: Some weights are no finite numbers; the file stays as it was.
        """
        if not all(bool(weight.isfinite().all()) for weight in self._trained()):
            raise diverged("the training", "some weights are infinite or no numbers")
        save_atomically(
            {
                "module": self._module.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "average": self._average.weights,
                "best": self._average.best,
                "extra": extra,
            },
            self.path,
        )

    def _trained(self) -> Iterator[Tensor]:
        """The weights and their averages, but no buffers."""
        for name, weight in self._module.named_parameters():
            yield weight
            yield self._average.weights[name]

    def read(self) -> bytes | None:
        """Return the file as it is, or None where there is none."""
        return self.path.read_bytes() if self.path.exists() else None

    def load(self, content: bytes) -> dict[str, Any]:
        """Restore everything from what `read` gave; return what was given to `save`.

        Raises:
            BundleError: The file is damaged, or another model's.
        """
        device = next(self._module.parameters()).device
        try:
            saved = torch.load(io.BytesIO(content), weights_only=True, map_location=device)
            self._module.load_state_dict(saved["module"])
            self._optimizer.load_state_dict(saved["optimizer"])
            self._average.weights = saved["average"]
            self._average.best = saved["best"]
            extra: dict[str, Any] = saved["extra"]
        except Exception as error:  # of bytes that hold anything, zip, pickle and torch raise all
            raise BundleError(
                f"checkpoint {self.path} can't be read ({type(error).__name__}); put a whole copy "
                "in its place, or start the training anew (overwrite)."
            ) from error
        return extra


class TrainingLog:
    """A CSV line a step; on resume the lines after the checkpoint are dropped and written again."""

    def __init__(self, path: Path, after: int) -> None:
        kept: list[str] = []
        if after and path.exists():
            kept = path.read_text().splitlines()[: after + 1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in kept))
        self._path = path
        # A log that an older version began keeps its columns.
        self._names = next(csv.reader(kept), [])

    def write(self, state: object) -> None:
        """Append the fields of a state."""
        with self._path.open("a", newline="") as file:
            writer = csv.writer(file)
            if not self._names:
                self._names = [*type(state).__slots__]  # type: ignore[attr-defined]
                writer.writerow(self._names)
            writer.writerow([getattr(state, name) for name in self._names])


def diverged(where: str, what: str) -> ForetellError:
    """Say that a training computes with what is no finite number, which no later step mends."""
    return ForetellError(
        f"{where} has diverged: {what}. Start anew (overwrite) with a lower "
        "learning_rate or more warmup_steps, or look for outlandish values in the data. What was "
        "saved before is as it was."
    )


def save_atomically(value: object, path: Path) -> None:
    """Write with `torch.save` to a sibling file and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _copy(weights: Weights) -> Weights:
    return {name: value.detach().clone() for name, value in weights.items()}
