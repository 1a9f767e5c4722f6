"""Files that appear whole or not at all: the old bytes stand until the new ones are complete."""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from foretell.data.errors import ForetellError, OptionError


def _write_csv(table: pd.DataFrame, target: Path) -> None:
    table.to_csv(target, index=False, lineterminator="\n")


def _write_parquet(table: pd.DataFrame, target: Path) -> None:
    table.to_parquet(target, index=False)


# Of a file's name, in bytes; most file systems take 255, and a temporary name has more around it.
_LONGEST_NAME = 255 - 32

_WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": _write_csv,
    ".csv.gz": _write_csv,
    ".parquet": _write_parquet,
}


def check_stdout() -> None:
    """Refuse to begin what ends on standard output when that is closed; writes would vanish.

    Raises:
        ForetellError: It is closed.
    """
    if sys.stdout is None:
        raise ForetellError("standard output is closed; leave it open, or give an output file.")


def write_stdout(content: bytes) -> None:
    """Pass bytes on to standard output at once, all of them.

    Where Python doesn't buffer (`PYTHONUNBUFFERED`, usual in containers), a pipe that is being
    closed or a disk that is nearly full takes the first bytes, and says so in a number only.

    Raises:
        OSError: They can't be written.
    """
    left = memoryview(content)
    while left:
        taken = sys.stdout.buffer.write(left)
        if taken is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), "standard output")
        left = left[taken:]
    sys.stdout.buffer.flush()


def check_outputs(targets: Sequence[Path], *, overwrite: bool, inputs: Sequence[str] = ()) -> None:
    """Refuse outputs that can't be written, before any work is done.

    Args:
        targets: Where files shall stand.
        overwrite: Replace files that stand there already.
        inputs: What is read; it is never replaced, not even with `overwrite`.

    Raises:
        ForetellError: A target exists and `overwrite` is off, is no regular file, is an input or
            another target, its name is too long or its folder doesn't exist; all are named.
    """
    finals = [(target, Path(os.path.realpath(target))) for target in targets]
    missing = dict.fromkeys(final.parent for _, final in finals if not os.path.isdir(final.parent))
    problems = [f"the folder {folder} doesn't exist; make it first." for folder in missing]
    read = {os.path.realpath(name) for name in inputs}
    written: dict[Path, Path] = {}
    for target, final in finals:
        if final.parent in missing:
            continue
        other = written.setdefault(final, target)
        if other is not target:
            problems.append(f"{other} and {target} are the same file; give one another path.")
        elif len(os.fsencode(final.name)) > _LONGEST_NAME:
            problems.append(
                f"{target}: the name has {len(os.fsencode(final.name))} bytes; give a shorter one."
            )
        elif final.is_symlink():  # as a last resort realpath names a link of a circle
            problems.append(f"{target} is a link that leads to itself; give another path.")
        elif str(final) in read:
            problems.append(f"{target} is also read; give the output another path.")
        elif final.exists() and not final.is_file():
            problems.append(f"{target} is no regular file; give the path of a file.")
        elif not os.access(final.parent, os.W_OK):
            problems.append(f"{target}: there is no right to write into {final.parent}.")
        elif final.exists() and not overwrite:
            problems.append(f"{target} exists; give --overwrite to replace it, or another path.")
    if problems:
        raise ForetellError(problems)


def table_format(target: Path) -> str:
    """Return the ending that decides how a table is written.

    Raises:
        OptionError: It is none of `.csv`, `.csv.gz`, `.parquet`.
    """
    for ending in sorted(_WRITERS, key=len, reverse=True):
        if target.name.endswith(ending):
            return ending
    raise OptionError(
        f"{target}: the output must end in {', '.join(_WRITERS)}, or be - for stdout."
    )


def write_table(table: pd.DataFrame, target: Path) -> None:
    """Write a table as its ending says, whole or not at all."""
    ending = table_format(target)
    with replacing(target, ending) as partial:
        _WRITERS[ending](table, partial)


@contextmanager
def replacing(target: Path, ending: str) -> Iterator[Path]:
    """Hand out a path beside `target`; on success what was written there takes its place.

    Args:
        target: Where the file shall stand in the end; a link is followed.
        ending: Ending of the temporary name, for writers that go by it.

    Yields:
        A path in the same folder (a rename is atomic within one file system only).
    """
    final = Path(os.path.realpath(target))
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial{ending}")
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(final)
    finally:
        partial.unlink(missing_ok=True)
