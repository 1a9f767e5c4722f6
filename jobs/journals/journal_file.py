"""The file of a journal: what the job is, and a line for each part that is done."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretell.jobs.journals.sealed import FINGERPRINT, file_fingerprint, sealed, unsealed

Job = Mapping[str, Any]
Row = Sequence[Any]

FORMAT = 2


@dataclass(kw_only=True, slots=True)
class Written:
    """What stands in a journal, as far as its lines are whole.

    Attributes:
        job: What decides the output's bytes.
        overwrite: The job may replace a file that stood at the output when it began.
        parts: How many are done.
        totals: Sums of their counts.
        joined: Fingerprint of the output that was made of the parts, if it was.
        size_bytes: Of the whole lines; what follows was cut off by a kill.
        problem: Why nothing can go on from here; None where it can.
    """

    job: Job
    overwrite: bool
    parts: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    joined: str | None = None
    size_bytes: int = 0
    problem: str | None = None


class JournalFile:
    """Writes the lines of a journal, each whole or not at all."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Go on behind the whole lines of a journal, whose size that is."""
        os.truncate(path, size_bytes)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._size_bytes = size_bytes

    @classmethod
    def create(cls, path: Path, job: Job, *, overwrite: bool) -> "JournalFile":
        """Begin a journal."""
        path.touch()
        file = cls(path, 0)
        file.append({"format": FORMAT, "job": job, "overwrite": overwrite})
        return file

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write a line; when this returns it is on disk.

        Raises:
            OSError: It can't be written, and wasn't.
        """
        line = sealed(entry)
        try:
            written = os.write(self._file, line)
            while written < len(line):  # a disk that is nearly full takes the first half
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except BaseException:
            os.ftruncate(self._file, self._size_bytes)
            raise
        self._size_bytes += len(line)

    def close(self) -> None:
        """Write nothing more."""
        os.close(self._file)


def entries(path: Path) -> Iterator[tuple[dict[str, Any] | None, int]]:
    """Yield the whole lines with their sizes in bytes; None for one that is damaged."""
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield unsealed(line), len(line)


def read_journal(path: Path, part: Path) -> Written | None:
    """Read a journal; None where no job has begun.

    Args:
        path: Of the file.
        part: Folder of the parts.
    """
    try:
        lines = entries(path)
        head, size_bytes = next(lines, (None, 0))
    except FileNotFoundError:
        return None
    if size_bytes == 0:
        return None
    if head is None or head.get("format") != FORMAT:
        problem = f"{path} is damaged, or of another version of foretell"
        return Written(job={}, overwrite=False, problem=problem)
    written = Written(job=head["job"], overwrite=head["overwrite"], size_bytes=size_bytes)
    for entry, size_bytes in lines:
        if entry is not None and "joined" in entry:
            written.joined = entry["joined"]
        elif entry is not None and entry.get("part") == written.parts:
            found = part / str(written.parts)
            if not found.is_file() or found.stat().st_size != entry["bytes"]:
                written.problem = f"{found} is missing or damaged"
            written.parts += 1
            written.totals.update(entry["counts"])
        else:
            written.problem = f"{path} is damaged"
            break
        written.size_bytes += size_bytes
    return written


def damaged_part(path: Path, parts: Path) -> Path | None:
    """Return the first part that has other bytes than a journal tells; None where all have these.

    Args:
        path: Of the journal.
        parts: Folder of the parts.
    """
    for entry, _ in entries(path):
        if entry is not None and "part" in entry:
            part = parts / str(entry["part"])
            if file_fingerprint(part) != entry["sha256"]:
                return part
    return None


def changes(was: Job, now: Job) -> list[str]:
    """Name what differs between two jobs, with both values; fingerprints are told without."""
    told = []
    for name in dict.fromkeys([*was, *now]):
        before, after = was.get(name), now.get(name)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            told += changes(before, after)
        elif any(str(value).startswith(FINGERPRINT) for value in (before, after)):
            told.append(f"the {name.replace('_', ' ')} was another.")
        else:
            told.append(f"{name}: {before} then, {after} now.")
    return told
