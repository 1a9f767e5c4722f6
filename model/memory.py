"""Gives memory back to the machine while a training goes on."""

import ctypes
import sys
import time
from collections.abc import Callable

INTERVAL_S = 5.0  # giving back takes milliseconds, and what is given back has to be asked for again


class MemoryKeeper:
    """Keeps the holes in glibc's heap from adding up in a long training on a CPU.

    Batches vary in shape, and what large arrays leave rarely fits the next ones.
    """

    def __init__(self) -> None:
        self._trim = _find_trim()
        self._last = time.monotonic()

    def step(self) -> None:
        """Give back what is free, now and then."""
        if self._trim is not None and time.monotonic() - self._last >= INTERVAL_S:
            self._trim(0)
            self._last = time.monotonic()


def _find_trim() -> Callable[[int], int] | None:
    """Find glibc's `malloc_trim`; other C libraries and systems have none."""
    if sys.platform != "linux":
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
