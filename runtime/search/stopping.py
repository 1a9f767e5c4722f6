"""Stops work that nobody waits for any more, also while onnxruntime is in the middle of it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StoppedError(Exception):
    """Work was stopped before it was done; nobody waits for it, so nobody gets to see this."""


class Stop:
    """Stops some work once: whoever does it looks here now and then, or asks to be called.

    Attributes:
        begun_at: When the first block that wants to be called began, on the clock of
            `time.monotonic`; None before. All graphs of a batch run in such blocks.
        ended_at: When the last of them ended; None before.
    """

    def __init__(self) -> None:
        self.begun_at: float | None = None
        self.ended_at: float | None = None
        self._lock = threading.Lock()
        self._is_set = threading.Event()
        self._calls: set[Callable[[], None]] = set()

    def set(self) -> None:
        """Stop the work; from any thread, any number of times."""
        with self._lock:
            self._is_set.set()
            for call in self._calls:
                call()

    @property
    def is_set(self) -> bool:
        """Whether the work is to stop."""
        return self._is_set.is_set()

    def check(self) -> None:
        """Leave the work if it is to stop.

        Raises:
            StoppedError: It is.
        """
        if self._is_set.is_set():
            raise StoppedError

    @contextmanager
    def calling(self, call: Callable[[], None]) -> Iterator[None]:
        """Have `call` called when the work is to stop while the block runs.

        Args:
            call: Ends what the block waits for; is called in whatever thread stops the work, and
                must return at once.

        Raises:
            StoppedError: The work was to stop already.
        """
        with self._lock:
            self.check()
            self._calls.add(call)
            if self.begun_at is None:
                self.begun_at = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._calls.discard(call)
                self.ended_at = time.monotonic()
