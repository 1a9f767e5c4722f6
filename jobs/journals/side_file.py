"""The file beside an output that tells which items got no answer, and why."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from foretell.jobs.output import replacing


def refused_file(output: Path) -> Path:
    """Where a job tells which items it refused, and why."""
    return output.parent / f"{output.name}.refused.csv"


def write_refused(
    output: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]] | None
) -> None:
    """Write an output's side file, whole or not at all; None removes an old one.

    Raises:
        OSError: It can't be written.
    """
    target = refused_file(output)
    if rows is None:
        target.unlink(missing_ok=True)
        return
    with (
        replacing(target, ".csv") as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
