"""A job that is killed at any moment goes on to the same bytes, and nothing looks done before."""

import hashlib
import json
import os
import shutil
import zlib

import pytest

from foretell.data.errors import ForetellError
from foretell.jobs.journals.journal import Journal, refused_file
from foretell.jobs.journals.journal_file import JournalFile
from foretell.jobs.journals.sealed import fingerprint

JOB = {"input": fingerprint({"x": 1}), "options": {"beam_size": 5, "prefix": ""}}
PARTS = [b"one\n", b"", b"two\nthree\n", b"four\n"]
WHOLE = b"one\ntwo\nthree\nfour\n"


class KilledError(BaseException):
    """As a signal that nobody can catch: what stands on disk in this moment is all there is."""


@pytest.fixture(autouse=True)
def nobody_waits_for_the_disk(monkeypatch):
    """No machine loses its power here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def journal(folder, name="out.txt", **options):
    return Journal(folder / name, unit="line", columns=("line", "reason"), **options)


def join(parts, target):
    with target.open("wb") as file:
        for part in parts:
            file.write(part.read_bytes())


def work(found, parts=PARTS):
    """What a job does: the parts that are missing, and the output."""
    for number in range(found.parts, len(parts)):
        lines = parts[number].count(b"\n")
        refused = [[number, "no, „never“"]] if lines == 0 else []
        found.add(parts[number], counts={"line": lines}, refused=refused, notes=[number])


def run(folder, job=JOB, **options):
    with journal(folder, **options) as found:
        found.begin(job)
        began_at = found.parts
        if not found.is_complete:
            work(found)
            found.finish(join)
    return began_at, found


def run_half(folder, parts=2, **options):
    with journal(folder, **options) as found:
        found.begin(JOB)
        work(found, PARTS[:parts])
        raise OSError("gone")


def leave(folder, parts=2, **options):
    """Leave a job half done, as an error does."""
    with pytest.raises(OSError, match="gone"):
        run_half(folder, parts, **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_output_is_made_of_the_parts_and_nothing_else_is_left(tmp_path):
    _, found = run(tmp_path)
    assert (tmp_path / "out.txt").read_bytes() == WHOLE
    assert refused_file(tmp_path / "out.txt").read_text() == 'line,reason\n1,"no, „never“"\n'
    assert found.totals == {"line": 4}
    assert names(tmp_path) == ["out.txt", "out.txt.refused.csv"]


def test_a_job_without_parts_writes_an_empty_file(tmp_path):
    with journal(tmp_path) as found:
        found.begin(JOB)
        found.finish(join)
    assert (tmp_path / "out.txt").read_bytes() == b""
    assert names(tmp_path) == ["out.txt"]


def test_nothing_to_show_leaves_the_old_output_and_tells_why(tmp_path):
    (tmp_path / "out.txt").write_text("old")
    with journal(tmp_path, overwrite=True) as found:
        found.begin(JOB)
        found.add(b"\n", counts={"line": 1}, refused=[(1, "no")])
        found.finish(None)
    assert (tmp_path / "out.txt").read_text() == "old"
    assert refused_file(tmp_path / "out.txt").read_text() == "line,reason\n1,no\n"
    assert names(tmp_path) == ["out.txt", "out.txt.refused.csv"]


@pytest.mark.parametrize("old", [None, b"old"], ids=["new", "replaced"])
def test_killed_at_any_call_to_the_system_it_goes_on_to_the_same_bytes(tmp_path, monkeypatch, old):
    """Every write, sync and rename is a moment at which the machine may stop."""
    calls = ["open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "truncate"]
    options = {"resume": True, "overwrite": old is not None}
    moment, is_done = 0, False
    while not is_done:
        moment += 1
        folder = tmp_path / str(moment)
        folder.mkdir()
        if old is not None:
            (folder / "out.txt").write_bytes(old)
        with monkeypatch.context() as patched:
            count_down(patched, calls, moment)
            try:
                run(folder, **options)
                is_done = True
            except KilledError:
                pass
        output = folder / "out.txt"
        assert not output.exists() or output.read_bytes() in (old, WHOLE)
        _, found = run(folder, **options)
        assert output.read_bytes() == WHOLE
        assert found.totals == {"line": 4}
        assert refused_file(output).read_text() == 'line,reason\n1,"no, „never“"\n'
        assert names(folder) == [".out.txt.foretell-done", "out.txt", "out.txt.refused.csv"]
    assert moment > 50


def count_down(patched, calls, moment):
    """Have the machine stop before the n-th call, and every call after it do nothing at all."""
    left = [moment]

    def dying(call):
        def die(*arguments, **options):
            left[0] -= 1
            if left[0] <= 0:
                raise KilledError
            return call(*arguments, **options)

        return die

    for name in calls:
        patched.setattr(os, name, dying(getattr(os, name)))
    patched.setattr(os, "ftruncate", dying(os.ftruncate))
    patched.setattr(Journal, "_leave", lambda self: os.close(self._folder._lock))


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_line_that_was_half_written_does_not_count(tmp_path, cut):
    leave(tmp_path)
    path = tmp_path / ".out.txt.foretell-job" / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert run(tmp_path, resume=True)[0] == 1
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


def test_what_is_half_done_is_refused_until_one_of_both_is_chosen(tmp_path):
    leave(tmp_path, parts=3)
    assert names(tmp_path) == [".out.txt.foretell-job"]
    told = r"half done, with 3 lines done; go on with it \(resume\), or start anew \(overwrite\)"
    with pytest.raises(ForetellError, match=told):
        run(tmp_path)
    with pytest.raises(ForetellError, match=told):
        journal(tmp_path).look(JOB)
    assert run(tmp_path, overwrite=True)[0] == 0
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


def test_a_job_that_fails_tells_that_it_can_be_resumed(tmp_path):
    with pytest.raises(OSError, match="gone") as error:
        run_half(tmp_path, parts=1)
    assert error.value.__notes__ == ["1 line done and kept; go on with --resume."]


def test_a_job_that_fails_before_its_first_part_leaves_nothing(tmp_path):
    leave(tmp_path, parts=0)
    assert names(tmp_path) == []


def test_what_fails_before_the_job_is_told_keeps_the_parts_of_the_last_one(tmp_path):
    leave(tmp_path)
    with pytest.raises(OSError, match="plan"), journal(tmp_path, resume=True):
        raise OSError("no plan")
    assert run(tmp_path, resume=True)[0] == 2


def test_every_change_is_named(tmp_path):
    """Parts of two jobs in one file would be noticed by nobody."""
    leave(tmp_path)
    other = {
        "input": fingerprint({"x": 2}),
        "options": {"beam_size": 4, "prefix": ""},
        "form": "jsonl",
    }
    with pytest.raises(ForetellError) as error:
        run(tmp_path, other, resume=True)
    assert error.value.problems == (
        f"{tmp_path / 'out.txt'} was begun otherwise, and has 1 line done:",
        "the input was another.",
        "beam_size: 5 then, 4 now.",
        "form: None then, jsonl now.",
        "Resume with what it was begun with, or start anew (overwrite).",
    )
    assert run(tmp_path, resume=True)[0] == 2
    with pytest.raises(ForetellError, match="is of another job:\nthe input was another"):
        run(tmp_path, other, resume=True)


def test_both_choices_go_on_where_they_can_and_else_start_anew(tmp_path):
    leave(tmp_path)
    both = {"resume": True, "overwrite": True}
    assert run(tmp_path, JOB | {"form": "jsonl"}, **both)[0] == 0
    (tmp_path / "out.txt").write_text("somebody's own")
    assert run(tmp_path, **both)[0] == 0
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


def test_the_same_command_may_be_given_again_and_again(tmp_path):
    """HD06: who runs a job by the clock doesn't look whether it is done already."""
    assert run(tmp_path, resume=True)[0] == 0
    written = os.stat(tmp_path / "out.txt")
    began_at, found = run(tmp_path, resume=True)
    assert (began_at, found.is_complete, found.totals) == (4, True, {"line": 4})
    assert list(found.refused()) == [[1, "no, „never“"]]
    assert list(found.notes()) == [0, 1, 2, 3]
    assert os.stat(tmp_path / "out.txt") == written
    assert names(tmp_path) == [".out.txt.foretell-done", "out.txt", "out.txt.refused.csv"]


def test_what_somebody_else_wrote_is_not_taken_for_complete(tmp_path):
    (tmp_path / "out.txt").write_text("old")
    with pytest.raises(ForetellError, match="nothing tells that a job with --resume has written"):
        run(tmp_path, resume=True)
    run(tmp_path, overwrite=True, resume=True)
    (tmp_path / "out.txt").write_text("edited")
    with pytest.raises(ForetellError, match="was changed since a job has written it"):
        run(tmp_path, resume=True)
    assert (tmp_path / "out.txt").read_text() == "edited"


@pytest.mark.parametrize("at", range(0, 350, 31))
def test_a_record_with_one_wrong_bit_tells_nothing(tmp_path, at):
    run(tmp_path, resume=True)
    path = tmp_path / ".out.txt.foretell-done"
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(ForetellError, match="nothing tells which job has written it"):
        run(tmp_path, resume=True)
    assert run(tmp_path, resume=True, overwrite=True)[0] == 0


def test_what_came_to_the_output_meanwhile_is_not_replaced(tmp_path):
    leave(tmp_path)
    (tmp_path / "out.txt").write_text("somebody's own")
    with pytest.raises(ForetellError, match="written by something else since this job began"):
        run(tmp_path, resume=True)
    assert (tmp_path / "out.txt").read_text() == "somebody's own"
    assert run(tmp_path, resume=True, overwrite=True)[0] == 2


def test_leave_to_replace_outlives_a_kill(tmp_path):
    (tmp_path / "out.txt").write_text("old")
    leave(tmp_path, overwrite=True)
    assert (tmp_path / "out.txt").read_text() == "old"
    assert run(tmp_path, resume=True)[0] == 2
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("parts/0", b"one", b"on"),
        ("parts/0", b"one", b"ore"),
        ("journal.jsonl", b'{"part": 0', b"\0" * 10),
        ("journal.jsonl", b'"refused"', b'"refuse$"'),
        ("journal.jsonl", b'"line": 1', b'"line": 3'),
        ("journal.jsonl", b'"overwrite"', b'"overwritd"'),
        ("journal.jsonl", b'{"part": 0', b"[" * 100_000),
        ("journal.jsonl", b'{"part": 0', b"7\n"),
    ],
)
def test_a_damaged_journal_is_told_and_can_be_given_up(tmp_path, name, old, new):
    """One bit is enough to lose a refusal, or to put a wrong answer among the others."""
    leave(tmp_path)
    path = tmp_path / ".out.txt.foretell-job" / name
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(ForetellError, match=r"damaged.*; start anew \(overwrite\)"):
        run(tmp_path, resume=True)
    run(tmp_path, overwrite=True)
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


def test_a_look_tells_what_would_be_and_changes_nothing(tmp_path):
    look = journal(tmp_path, resume=True)
    look.look(JOB)
    assert (look.parts, look.is_complete, names(tmp_path)) == (0, False, [])
    leave(tmp_path)
    look.look(JOB)
    assert (look.parts, look.totals, look.is_complete) == (2, {"line": 1}, False)
    run(tmp_path, resume=True)
    look.look(JOB)
    assert look.is_complete


def test_work_is_a_folder_of_the_job_and_empty_at_every_start(tmp_path):

    def run_spooled():
        with journal(tmp_path) as found:
            (found.work / "spooled").write_text("x")
            found.begin(JOB)
            (found.work / "part").write_bytes(PARTS[0])
            found.add(found.work / "part", counts={"line": 1})
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        run_spooled()
    with journal(tmp_path, resume=True) as found:
        assert list(found.work.iterdir()) == []
        found.begin(JOB)
        assert found.parts == 1
        found.finish(join)
    assert (tmp_path / "out.txt").read_bytes() == PARTS[0]
    assert names(tmp_path) == [".out.txt.foretell-done", "out.txt"]


def test_links_lead_to_one_file_and_one_journal(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out.txt").symlink_to(tmp_path / "real" / "out.txt")
    leave(tmp_path)
    assert names(tmp_path / "real") == [".out.txt.foretell-job"]
    run(tmp_path / "real", resume=True)
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


def test_a_full_disk_keeps_the_parts_before_it(tmp_path, monkeypatch):
    append = JournalFile.append

    def full(self, entry):
        if entry.get("part") == 3:
            raise OSError(28, "No space left on device")
        append(self, entry)

    monkeypatch.setattr(JournalFile, "append", full)
    with pytest.raises(OSError, match="No space") as error:
        run(tmp_path)
    monkeypatch.undo()
    assert error.value.filename == str(tmp_path / "out.txt")
    assert run(tmp_path, resume=True)[0] == 3
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


@pytest.mark.parametrize("kept", [False, True])
def test_nothing_follows_a_part_that_was_interrupted(tmp_path, monkeypatch, kept):
    """It may be on disk or not; the same lines once more would be there twice."""
    append = JournalFile.append

    def interrupted(self, entry):
        if kept:
            append(self, entry)
        raise KeyboardInterrupt

    def run_interrupted():
        with journal(tmp_path) as found:
            found.begin(JOB)
            work(found, PARTS[:1])
            monkeypatch.setattr(JournalFile, "append", interrupted)
            with pytest.raises(KeyboardInterrupt):
                work(found, PARTS[:2])
            monkeypatch.undo()
            work(found, PARTS[:2])

    with pytest.raises(RuntimeError, match="nothing can follow it"):
        run_interrupted()
    assert run(tmp_path, resume=True)[0] == 1 + kept
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


def test_the_journal_is_plain_json_with_sums(tmp_path):
    leave(tmp_path)
    folder = tmp_path / ".out.txt.foretell-job"
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    sums = [line.pop("crc32") for line in lines]
    assert sums == [zlib.crc32(json.dumps(line).encode()) for line in lines]
    assert lines[0] == {"format": 2, "job": JOB, "overwrite": False}
    assert lines[1].pop("sha256") == f"sha256:{hashlib.sha256(PARTS[0]).hexdigest()}"
    assert lines[1] == {"part": 0, "bytes": 4, "counts": {"line": 1}, "refused": [], "notes": [0]}
    assert lines[2]["refused"] == [[1, "no, „never“"]]
    shutil.rmtree(folder)
    assert run(tmp_path, resume=True)[0] == 0
