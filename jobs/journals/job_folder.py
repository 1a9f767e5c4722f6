"""The hidden folder in which a job works: one job at a time, and bytes that are on disk."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foretell.data.errors import ForetellError

_LOCK = "lock"


class JobFolder:
    """A folder beside an output that one process at a time may use.

    Attributes:
        path: The folder, beside the file to which the output leads, whatever links lead there.
    """

    def __init__(self, output: Path) -> None:
        final = Path(os.path.realpath(output))
        self.path = final.with_name(f".{final.name}.foretell-job")
        self._output = output
        self._lock: int | None = None

    def lock(self) -> None:
        """Make the folder if there is none, and keep all others out.

        Raises:
            ForetellError: Another process works in it, or something else stands in its place.
        """
        while self._lock is None:
            with suppress(FileNotFoundError):  # just now somebody removed it
                self._make()
                self._lock = self._locked()

    def check_lock(self) -> None:
        """Refuse a folder in which another process works, and change nothing.

        Raises:
            ForetellError: One does.
        """
        with suppress(FileNotFoundError):
            lock = os.open(self.path / _LOCK, os.O_RDONLY)
            try:
                self._take(lock)
            finally:
                os.close(lock)

    @property
    def is_lost(self) -> bool:
        """It was removed since it was locked, and another job's may stand in its place."""
        assert self._lock is not None, "lock it first"
        try:
            return not os.path.samestat(os.fstat(self._lock), os.stat(self.path / _LOCK))
        except (FileNotFoundError, NotADirectoryError):
            return True

    def check(self) -> None:
        """Make sure that what is written here doesn't come into another job's folder.

        Raises:
            ForetellError: It was removed.
        """
        if self.is_lost:
            raise self.loss()

    def loss(self) -> ForetellError:
        """Tell that it was removed."""
        return ForetellError(
            f"{self.path} was removed while the job worked there, and what it had done for "
            f"{self._output} with it; give the command again."
        )

    def remove(self) -> None:
        """Remove it with all that is in it, and let others begin; another job's stays."""
        with suppress(OSError):  # what ends a job is more than what can't be tidied up
            if not self.is_lost:
                self._empty()
                (self.path / _LOCK).unlink()  # last: now others may come in
                self.path.rmdir()
        self.unlock()

    def unlock(self) -> None:
        """Let others begin."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _empty(self) -> None:
        for entry in list(self.path.iterdir()):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != _LOCK:
                entry.unlink()

    def _make(self) -> None:
        try:
            self.path.mkdir()
        except FileExistsError:  # maybe it is gone by now, as another job has just ended
            if os.path.lexists(self.path) and not self.path.is_dir():
                raise ForetellError(
                    f"{self.path} is in the way: a job that writes {self._output} keeps there what "
                    "it has done; move it away."
                ) from None

    def _locked(self) -> int | None:
        """Lock it; None where it was removed meanwhile, and another one may stand there."""
        lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._take(lock)
            if os.path.samestat(os.fstat(lock), os.stat(self.path / _LOCK)):
                held, lock = lock, -1
                return held
        finally:
            if lock >= 0:
                os.close(lock)
        return None

    def _take(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ForetellError(
                f"{self._output} is being written by another job; wait until that has ended, or "
                "give another path."
            ) from None


def sync(path: Path) -> None:
    """Have a file's bytes, or a folder's names, on disk before anything that follows."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a file in errors of the system that name none, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
