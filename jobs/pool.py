"""Processes that compute whole chunks by themselves, on this machine or on others."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

D_co = TypeVar("D_co", covariant=True)
T = TypeVar("T")
R = TypeVar("R")

# Opens what computes an item. It travels to the processes: a function of a module, perhaps with
# arguments (functools.partial) that can be pickled.
OpenWorker = Callable[[], AbstractContextManager[Callable[[T], R]]]


class Pool(Protocol[D_co]):
    """Several processes that each open the model, and read what they compute."""

    @property
    def open_door(self) -> Callable[[], AbstractContextManager[D_co]]:
        """Opens the model in one of the processes; can be pickled."""

    def run(
        self,
        items: Sequence[T],
        open_worker: OpenWorker[T, R],
        *,
        paths: Sequence[str | Path] = (),
    ) -> Generator[R, None, None]:
        """Compute items; yield the results in the items' order.

        Args:
            items: What to compute, small: a chunk's number, not its rows.
            open_worker: Opens what computes them, in each process.
            paths: What each process must be able to read, besides the model.
        """
