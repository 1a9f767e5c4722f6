"""Files that were looked at once and are read again: the same bytes, or an error that says so."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from foretell.data.errors import TableError
from foretell.data.tables.table_read import nobody

_READ_BYTES = 1 << 22


class FileState(NamedTuple):
    """What tells without reading a file that nothing has happened to it.

    The times and the number see what puts size and time back, as `cp -p` and `rsync -t` do.

    Attributes:
        device: Where it lies.
        inode: Its number there.
        size: Of it, in bytes.
        written_ns: When it was written.
        changed_ns: When its entry was changed.
    """

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> "FileState":
        """Pick it from what the system tells."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as it was when it was looked at.

    Attributes:
        path: Of the file.
        state: Of it.
        sha256: Of its bytes.
    """

    path: Path
    state: FileState
    sha256: str

    @classmethod
    def hashed(cls, path: Path, seen: Callable[[int], object] = nobody) -> "SeenFile":
        """Look at a file, reading all of it.

        Args:
            path: Of the file.
            seen: Is told how many bytes were read, now and then.
        """
        state = FileState.of(os.stat(path))
        with path.open("rb") as file:
            digest = Digest(file.read)
            while digest.read(_READ_BYTES):
                seen(digest.size)
        return cls(path, state, digest.hexdigest())

    def check(self) -> None:
        """Make sure that the file holds what it held.

        A file to which something has happened is read and compared, so that a copy of it on
        another machine will do.

        Raises:
            TableError: It has changed, or is gone.
        """
        try:
            state = FileState.of(os.stat(self.path))
            if state == self.state:
                return
            is_same = state.size == self.state.size and _sha256_at(self.path, state) == self.sha256
        except FileNotFoundError as error:
            raise TableError(
                f"{self.path} was there when the job began, and is gone; put it back, or start the "
                "job anew."
            ) from error
        if not is_same:
            raise TableError(
                f"{self.path} has changed since the job began, so its rows can't be told any more; "
                "start the job anew, and leave the file alone while it runs."
            )


class Digest:
    """Reads a file that is open, and hashes what it reads.

    Args:
        read: Reads so many bytes.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._hash = hashlib.sha256()
        self.size = 0

    def read(self, size: int) -> bytes:
        """Read up to so many bytes; none at the end."""
        content = self._read(size)
        self._hash.update(content)
        self.size += len(content)
        return content

    def hexdigest(self) -> str:
        """Tell the SHA-256 of what was read."""
        return self._hash.hexdigest()


def digest_of(texts: Iterable[str]) -> str:
    """SHA-256 over several texts, which can't run into each other."""
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


@lru_cache(maxsize=4096)
def _sha256_at(path: Path, state: FileState) -> str:
    """SHA-256 of a file in a state: read once, not for every chunk."""
    return _sha256(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
