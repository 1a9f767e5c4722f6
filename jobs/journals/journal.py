"""What a job has done so far, on disk: killed at any moment, it goes on from its last whole part.

A hidden folder beside the output, `.NAME.foretell-job`, holds it:

| file | what is in it |
|---|---|
| `lock` | locked by the process that works here |
| `journal.jsonl` | what the job is; then a line for each part: its size, counts, refused items |
| `parts/0`, `parts/1`, ... | what was computed, in the order of the input |
| `work/` | what the job has to put down; emptied whenever it begins or goes on |

A part counts once its line stands whole in the journal; until then the next run writes it anew.
Nothing stands at the output before all parts are there.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from foretell.data.errors import ForetellError
from foretell.jobs.amounts import counted
from foretell.jobs.journals.done_record import DoneRecord, read_done
from foretell.jobs.journals.job_folder import JobFolder, naming, sync
from foretell.jobs.journals.journal_file import (
    Job,
    JournalFile,
    Row,
    Written,
    changes,
    damaged_part,
    entries,
    read_journal,
)
from foretell.jobs.journals.sealed import FINGERPRINT, file_fingerprint
from foretell.jobs.journals.side_file import refused_file, write_refused

__all__ = ["FINGERPRINT", "MOST_KEPT", "Job", "Journal", "Row", "refused_file"]

MOST_KEPT = 20  # refused items that a finished job keeps for people; the side file has them all
_JOURNAL, _PARTS, _WORK = "journal.jsonl", "parts", "work"
_LISTS = ("refused", "notes")
_CHOICE = "go on with it (resume), or start anew (overwrite)."

Join = Callable[[Iterable[Path], Path], object]


class Journal:
    """Keeps the parts of one output until all are there; use it in a `with` block.

    Entering takes the output for this process, `begin` tells what the job is, `add` keeps parts,
    `finish` makes the output of them. A block that is left before keeps its parts for the next run;
    without parts nothing is left of it. Where somebody removes the folder meanwhile, the block ends
    with a ForetellError that says so, whatever failed by it.

    Attributes:
        output: Where the file shall stand in the end.
        parts: Parts that are done; the next one has this number.
        totals: Sums of the counts of all parts, those of killed runs too.
        is_complete: The output of this very job stands already, or all of it was refused, so
            nothing is left to do.
    """

    def __init__(
        self,
        output: Path,
        *,
        unit: str,
        columns: Sequence[str],
        others: Sequence[Path] = (),
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Say whose journal it is; nothing is looked at yet.

        Args:
            output: Where the file shall stand in the end; a link is followed.
            unit: What the job counts, and how much it has done: an item of `totals` in the
                singular, such as "line".
            columns: Head of the side file.
            others: What the job writes besides, such as a picture: a job that begins replaces these
                and the side file only with `overwrite`, one that goes on may have written them.
            resume: Go on with this very job where it was begun; where its output is complete,
                leave it so.
            overwrite: Replace what stands there, finished or not, unless it is to be resumed.
        """
        self.parts = 0
        self.totals: Counter[str] = Counter()
        self.is_complete = False
        self.output, self._unit, self._columns = output, unit, columns
        self._others = [refused_file(output), *others]
        self._resume, self._overwrite = resume, overwrite
        self._final = Path(os.path.realpath(output))
        self._record = self._final.with_name(f".{self._final.name}.foretell-done")
        self._folder = JobFolder(output)
        self._path = self._folder.path / _JOURNAL
        self._job: Job = {}
        self._file: JournalFile | None = None
        self._first: dict[str, list[Any]] = {name: [] for name in _LISTS}
        self._keeps = self._is_sound = True

    @property
    def work(self) -> Path:
        """A folder for what the job has to put down; empty when the block is entered."""
        return self._folder.path / _WORK

    def __enter__(self) -> Self:
        self._folder.lock()
        try:
            self._keeps = self._written() is not None
            self._check_choice()
            shutil.rmtree(self.work, ignore_errors=True)
            for folder in (self.work, self._folder.path / _PARTS):
                folder.mkdir(exist_ok=True)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, Exception) and self._is_lost:
                raise self._folder.loss() from error
            if error is not None and self._file is not None and self._keeps:
                error.add_note(f"{self._done(self.totals)} done and kept; go on with --resume.")
        finally:
            self._leave()

    def begin(self, job: Job) -> None:
        """Tell what the job is: it begins, or goes on where it was ended, or is complete.

        Args:
            job: All that decides the output's bytes, as JSON values, by names for people. What
                `sealed.fingerprint` returns is told as changed without its value.

        Raises:
            ForetellError: What stands there is of another job; every change is named.
        """
        self._folder.check()
        self._job = json.loads(json.dumps(job))
        written = self._look()
        if self.is_complete:
            return
        if written is not None:
            self.parts, self.totals = written.parts, written.totals
            self._file = JournalFile(self._path, written.size_bytes)
            return
        self._path.unlink(missing_ok=True)
        shutil.rmtree(self._folder.path / _PARTS)
        (self._folder.path / _PARTS).mkdir()
        self._keeps = False
        self._file = JournalFile.create(self._path, self._job, overwrite=self._overwrite)
        sync(self._folder.path)
        sync(self._folder.path.parent)

    def look(self, job: Job) -> None:
        """Tell what `begin` would find, as attributes, and write nothing; needs no `with` block.

        Raises:
            ForetellError: As `begin`, and entering the block, would raise.
        """
        self._folder.check_lock()
        self._check_choice()
        self._job = json.loads(json.dumps(job))
        written = self._look()
        if written is not None:
            self.parts, self.totals = written.parts, written.totals

    def add(
        self,
        part: bytes | Path,
        *,
        counts: Mapping[str, int],
        refused: Sequence[Row] = (),
        notes: Sequence[Any] = (),
    ) -> None:
        """Keep the next part: once this returns, no kill and no power failure loses it.

        Args:
            part: Its bytes, or a file in `work` that holds them and is moved.
            counts: What is summed in `totals`, in the singular, such as line.
            refused: Rows for the side file, in the order of the items; JSON values.
            notes: What people shall be told in the end besides; JSON values, a few.

        Raises:
            OSError: It can't be written, as on a full disk; the parts before it stay.
        """
        assert self._file is not None, "begin the job first"
        if not self._is_sound:
            raise RuntimeError("a part was not kept, or interrupted; nothing can follow it.")
        self._folder.check()
        self._is_sound = False  # whether an interrupted one is on disk the next run finds out
        path = self._part(self.parts)
        with naming(self.output):
            if isinstance(part, Path):
                part.replace(path)
            else:
                path.write_bytes(part)
            sync(path)
            sync(path.parent)
            seen = {"bytes": path.stat().st_size, "sha256": file_fingerprint(path)}
            lists = {"refused": [list(row) for row in refused], "notes": list(notes)}
            self._file.append({"part": self.parts, **seen, "counts": dict(counts), **lists})
        self.parts += 1
        self.totals.update(counts)
        self._keeps = self._is_sound = True

    def refused(self) -> Iterator[Row]:
        """Yield the side file's rows, of all parts so far; of a complete job the first 20."""
        return self._lists("refused")

    def notes(self) -> Iterator[Any]:
        """Yield the notes, of all parts so far; of a complete job the first 20."""
        return self._lists("notes")

    def finish(self, join: Join | None, *, ending: str = "") -> None:
        """Make the output of the parts, and the side file; then forget the parts.

        Each appears whole or not at all. Without refused items an old side file is removed. The
        block should end soon after, and the journal knows no parts any more.

        Args:
            join: Writes a file from those of the parts, in their order; None leaves the output as
                it is, where nothing came out that could stand in it.
            ending: Of the name of the file that `join` writes, for writers that go by it.

        Raises:
            OSError: They can't be written, as on a full disk; the parts stay.
        """
        assert self._file is not None, "begin the job first"
        self._folder.check()
        self._first = {name: list(islice(self._lists(name), MOST_KEPT)) for name in _LISTS}
        with naming(self.output):
            if join is not None:
                self._write_output(join, ending)
            has_refused = bool(self._first["refused"])
            write_refused(self.output, self._columns, self.refused() if has_refused else None)
            if join is not None or not self._final.exists():  # another job's would lose its record
                self._write_record()
        self._keeps = False
        self._path.unlink()  # from here on there is nothing to go on with
        self.is_complete = True

    @property
    def _is_lost(self) -> bool:
        return self._folder.is_lost or not (self._folder.path / _PARTS).is_dir()

    def _check_choice(self) -> None:
        """Refuse what stands there already if nothing is said about it, before any work."""
        written = self._written()
        if written is not None and not (self._resume or self._overwrite):
            raise ForetellError(
                f"{self.output} is half done, with {self._done(written.totals)} done; {_CHOICE}"
            )
        if written is None and self._final.exists() and not self._overwrite:
            if not self._resume:
                raise ForetellError(
                    f"{self.output} exists; give --overwrite to replace it, or another path."
                )
            if not self._record.exists():
                raise ForetellError(
                    f"{self.output} exists, and nothing tells that a job with --resume has "
                    "written it; give --overwrite to replace it, or another path."
                )

    def _written(self) -> Written | None:
        """What a job before this one has left to go on with."""
        written = read_journal(self._path, self._folder.path / _PARTS)
        has_parts = written is not None and (
            written.parts > 0 or written.joined is not None or written.problem is not None
        )
        return written if has_parts else None

    def _look(self) -> Written | None:
        """Find what to go on with; None where the job begins, or is complete already."""
        if not self._resume:
            return None
        written = self._written()
        if written is not None:
            written = self._resumable(written)
        else:
            self._look_at_record()
        if written is None and not (self.is_complete or self._overwrite):
            self._check_others()
        return written

    def _check_others(self) -> None:
        if there := [path for path in self._others if path.exists()]:
            raise ForetellError(
                [f"{path} exists; give --overwrite to replace it." for path in there]
            )

    def _resumable(self, written: Written) -> Written | None:
        problems: list[str] = []
        if written.problem is not None:
            problems = [f"{written.problem}; start anew (overwrite)."]
        elif told := changes(written.job, self._job):
            problems = [
                f"{self.output} was begun otherwise, and has {self._done(written.totals)} done:",
                *told,
                "Resume with what it was begun with, or start anew (overwrite).",
            ]
        elif part := damaged_part(self._path, self._folder.path / _PARTS):
            problems = [f"{part} is damaged; start anew (overwrite)."]
        if problems and self._overwrite:
            return None
        may_replace = written.overwrite or self._overwrite or not self._final.exists()
        if not problems and not may_replace and written.joined != file_fingerprint(self._final):
            problems = [
                f"{self.output} was written by something else since this job began; give "
                "--overwrite too to replace it, or move it away."
            ]
        if problems:
            raise ForetellError(problems)
        return written

    def _look_at_record(self) -> None:
        record, there, problems = read_done(self._record), self._fingerprint(), []
        told = [] if record is None else changes(record.job, self._job)
        if there is None:
            # Whoever has removed the list of what was refused wants it made again.
            has_list = refused_file(self.output).exists()
            if record is None or record.output is not None or told or not has_list:
                return
        elif record is None or record.output is None:
            problems = [f"{self.output} exists, and nothing tells which job has written it."]
        elif record.output != there:
            problems = [f"{self.output} was changed since a job has written it."]
        elif told:
            problems = [f"{self.output} is of another job:", *told]
        if record is not None and not problems:
            self.is_complete, self.parts = True, record.parts
            self.totals, self._first = Counter(record.totals), record.first
        elif not self._overwrite:
            raise ForetellError([*problems, "Give --overwrite to replace it, or another path."])

    def _fingerprint(self) -> str | None:
        return file_fingerprint(self._final) if self._final.exists() else None

    def _write_output(self, join: Join, ending: str) -> None:
        joined = self._folder.path / f"joined{ending}"
        join((self._part(number) for number in range(self.parts)), joined)
        sync(joined)
        assert self._file is not None
        self._file.append({"joined": file_fingerprint(joined)})
        self._folder.check()
        joined.replace(self._final)
        sync(self._final.parent)

    def _write_record(self) -> None:
        """Let a job that is resumed once more find out that it is complete."""
        if not self._resume:
            self._record.unlink(missing_ok=True)
            return
        record = DoneRecord(
            job=self._job,
            output=self._fingerprint(),
            parts=self.parts,
            totals=dict(self.totals),
            first=self._first,
        )
        record.write(self._record, self._folder.path / "done")

    def _lists(self, name: str) -> Iterator[Any]:
        if self.is_complete:
            yield from self._first[name]
            return
        for entry, _ in entries(self._path):
            yield from (entry or {}).get(name, ())

    def _part(self, number: int) -> Path:
        return self._folder.path / _PARTS / str(number)

    def _done(self, totals: Mapping[str, int]) -> str:
        return counted(totals.get(self._unit, 0), self._unit)

    def _leave(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._keeps:
            self._folder.unlock()
        else:
            self._folder.remove()
