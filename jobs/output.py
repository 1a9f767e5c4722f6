"""Files that appear whole or not at all: the old bytes stand until the new ones are complete."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from foretell.data.errors import ForetellError, OptionError


def _write_csv(table: pd.DataFrame, target: Path) -> None:
    table.to_csv(target, index=False, lineterminator="\n")


def _write_parquet(table: pd.DataFrame, target: Path) -> None:
    table.to_parquet(target, index=False)


_WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": _write_csv,
    ".csv.gz": _write_csv,
    ".parquet": _write_parquet,
}


def check_outputs(targets: Sequence[Path], *, overwrite: bool, inputs: Sequence[str] = ()) -> None:
    """Refuse outputs that can't be written, before any work is done.

    Args:
        targets: Where files shall stand.
        overwrite: Replace files that stand there already.
        inputs: What is read; it is never replaced, not even with `overwrite`.

    Raises:
        ForetellError: A target exists and `overwrite` is off, is no regular file, is an input, or
            its folder doesn't exist; all of them are named.
    """
    missing = dict.fromkeys(target.parent for target in targets if not target.parent.is_dir())
    problems = [f"the folder {folder} doesn't exist; make it first." for folder in missing]
    read = {Path(name).resolve() for name in inputs}
    for target in targets:
        if target.parent in missing:
            continue
        if target.resolve() in read:
            problems.append(f"{target} is also read; give the output another path.")
        elif target.exists() and not target.is_file():
            problems.append(f"{target} is no regular file; give the path of a file.")
        elif not os.access(target.parent, os.W_OK):
            problems.append(f"{target}: there is no right to write into {target.parent}.")
        elif target.exists() and not overwrite:
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
    final = target.resolve()
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial{ending}")
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(final)
    finally:
        partial.unlink(missing_ok=True)
