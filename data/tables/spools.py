"""Copies of what can be read but once, or from its beginning alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from foretell.data.errors import TableError
from foretell.data.tables.table_read import nobody

_READ_BYTES = 1 << 20


def spool(
    read: Callable[[int], bytes], target: Path, seen: Callable[[int], object] = nobody
) -> None:
    """Copy all bytes of a stream to a file.

    Args:
        read: Reads so many bytes.
        target: The file; an old one is replaced.
        seen: Is told how many bytes were copied, now and then.

    Raises:
        TableError: The folder can't hold it.
    """
    with writing_told(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("wb")
    with file:
        while content := read(_READ_BYTES):
            with writing_told(target.parent):
                file.write(content)
            seen(file.tell())


@contextmanager
def writing_told(folder: Path) -> Iterator[None]:
    """Turn what the system says of a full disk and the like into a `TableError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).rsplit("] ", 1)[-1]  # Arrow's own words before it
        raise TableError(
            f"folder {folder} can't hold a copy of the input's rows: {reason}. "
            "Make room, or name an output on another disk."
        ) from error
