"""Files that can be read at once: a pipe would keep its reader waiting for ever, a device too."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_plain(path: Path) -> BufferedReader:
    """Open a regular file to read its bytes; links are followed.

    Raises:
        OSError: There is none, it can't be read, or something else stands there, such as a named
            pipe, a socket or a device.
    """
    _check(path, os.stat(path))  # some devices do something when they are opened
    file = open(path, "rb", opener=_open)  # noqa: SIM115  # Path.open knows no opener
    try:
        _check(path, os.fstat(file.fileno()))  # it may have been exchanged since
    except OSError:
        file.close()
        raise
    return file


def read_plain(path: Path, most_bytes: int) -> bytes:
    """Read a regular file whole, if it isn't larger than it may be.

    Args:
        path: Of the file.
        most_bytes: That it may have.

    Raises:
        OSError: As `open_plain`, or it is larger.
    """
    with open_plain(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"more than {most_bytes:,} bytes", str(path))
    return content


def _check(path: Path, state: os.stat_result) -> None:
    # A folder is told by what opens it.
    if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(state.st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
