"""What is kept of a job that is done: by it the same job finds later that nothing is left to do."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretell.jobs.journals.job_folder import sync
from foretell.jobs.journals.journal_file import FORMAT, Job
from foretell.jobs.journals.sealed import sealed, unsealed


@dataclass(frozen=True, kw_only=True, slots=True)
class DoneRecord:
    """A job that is done.

    Attributes:
        job: What decided the output's bytes.
        output: Fingerprint of these; None where every item was refused, and there is no output.
        parts: Of which the output was made.
        totals: Sums of their counts.
        first: The first refused items and notes.
        format: Of this record.
    """

    job: Job
    output: str | None
    parts: int
    totals: Mapping[str, int]
    first: dict[str, list[Any]]
    format: int = FORMAT

    def write(self, path: Path, partial: Path) -> None:
        """Write it, whole or not at all, by way of another file in the same file system."""
        partial.write_bytes(sealed(asdict(self)))
        sync(partial)
        partial.replace(path)


def read_done(path: Path) -> DoneRecord | None:
    """Read a record; None where there is none that can be read."""
    try:
        values = unsealed(path.read_bytes())
    except OSError:
        return None
    if values is None or values.get("format") != FORMAT:
        return None
    return DoneRecord(**values)
