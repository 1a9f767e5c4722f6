"""What is read from files, and read again when they change."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from foretell.data.errors import ForetellError

Value = TypeVar("Value")
_Signature = tuple[tuple[int, int, int] | None, ...]

_log = logging.getLogger(__name__)


class Reloaded(Generic[Value]):
    """A value made from files; threads may share it.

    The files are looked at when the value is asked for. Those that can't be read any more, or hold
    something bad, are logged once a change, and the value before stays in force.

    Args:
        paths: The files. Links are followed, so what Kubernetes mounts is seen to change.
        read: Reads and checks them.
        check_every_s: Seconds for which the files are not looked at again.

    Raises:
        ForetellError: The first reading fails.
    """

    def __init__(
        self, paths: Sequence[Path], read: Callable[[], Value], *, check_every_s: float = 1.0
    ) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._check_every_s = check_every_s
        self._lock = threading.Lock()
        self._signature, self._value = self._read_whole()
        self._checked_s = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether `get` would look at the files, and so wait for a disk."""
        is_time = time.monotonic() - self._checked_s >= self._check_every_s
        return is_time and not self._lock.locked()

    @property
    def value(self) -> Value:
        """What `get` last found."""
        return self._value

    def get(self) -> Value:
        """The value of the files as they are now, or were when they were last good.

        It waits for nothing that another thread does: where a disk hangs, one waits for it.
        """
        if self.is_due and self._lock.acquire(blocking=False):
            try:
                self._checked_s = time.monotonic()
                self._look()
            finally:
                self._lock.release()
        return self._value

    def _look(self) -> None:
        signature = _signature(self._paths)
        if signature == self._signature:
            return
        names = ", ".join(map(str, self._paths))
        try:
            self._signature, self._value = self._read_whole()
        except ForetellError as error:
            self._signature = signature  # told once; the next change is another one
            _log.error("%s: not taken over, the former content stays: %s", names, _line(error))
        else:
            _log.info("%s: read again", names)

    def _read_whole(self) -> tuple[_Signature, Value]:
        """Read; the signature is that from before, so that what changes meanwhile is read again."""
        return _signature(self._paths), self._read()


def _signature(paths: Sequence[Path]) -> _Signature:
    """What differs between two contents of files: time, size, and which file it is."""
    return tuple(map(_sign, paths))


def _sign(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _line(error: ForetellError) -> str:
    return " ".join(str(error).splitlines())
