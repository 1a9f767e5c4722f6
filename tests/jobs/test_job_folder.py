"""Two processes never write one output: one of them would have the other's parts."""

import os
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from foretell.data.errors import ForetellError
from foretell.jobs.journals.job_folder import JobFolder
from foretell.jobs.journals.journal import Journal

HIDDEN = ".out.txt.foretell-job"


def journal(folder, **options):
    return Journal(folder / "out.txt", unit="line", columns=(), **options)


HOLDER = """
import sys
from pathlib import Path
from foretell.jobs.journals.journal import Journal
with Journal(Path(sys.argv[1]), unit="line", columns=()) as journal:
    journal.begin({})
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_jobs_never_write_one_output(tmp_path):
    """Also where the other one was killed: its lock ends with it."""
    call = [sys.executable, "-c", HOLDER, str(tmp_path / "out.txt")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(call, **pipes) as process:
        process.stdout.readline()
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with (
                pytest.raises(ForetellError, match="is being written by another job"),
                journal(tmp_path, **options),
            ):
                pass
            with pytest.raises(ForetellError, match="is being written by another job"):
                journal(tmp_path, **options).look({})
        process.kill()
    with journal(tmp_path) as found:
        found.begin({})
        found.finish(lambda _, target: target.touch())
    assert os.listdir(tmp_path) == ["out.txt"]


def test_of_many_that_begin_at_once_one_works_at_a_time(tmp_path):
    """Whoever finds the folder of one that has just ended makes a new one."""
    inside, errors = threading.Lock(), []

    def try_often():
        for _ in range(20):
            try:
                with journal(tmp_path, overwrite=True) as found:
                    assert inside.acquire(blocking=False)
                    found.begin({})
                    inside.release()
            except ForetellError:
                pass
            except BaseException as error:
                errors.append(error)
                raise

    threads = [threading.Thread(target=try_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_what_stands_in_the_folders_place_is_told(tmp_path):
    (tmp_path / ".out.csv.foretell-job").write_text("mine")
    folder = JobFolder(tmp_path / "out.csv")
    with pytest.raises(ForetellError, match=r"foretell-job is in the way.*move it away"):
        folder.lock()
    assert (tmp_path / ".out.csv.foretell-job").read_text() == "mine"


def test_a_folder_that_is_removed_just_then_is_made_again(tmp_path, monkeypatch):
    """Its name is there when it is to be made, and gone a moment later."""
    folder = JobFolder(tmp_path / "out.csv")
    mkdir, tries = Path.mkdir, []

    def late(path, *arguments, **options):
        tries.append(path)
        if len(tries) == 1:
            raise FileExistsError
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", late)
    folder.lock()
    assert len(tries) == 2
    folder.remove()


LOST = "was removed while the job worked there"
PART = {"part": b"one\n", "counts": {"line": 1}}


def join(parts, target):
    target.write_bytes(b"".join(part.read_bytes() for part in parts))


def fail(_):
    raise ForetellError("something else")


def lose_the_folder(folder, then, *, is_begun=True, meanwhile=lambda: None):
    """A job whose folder is removed, before it does something more."""
    with journal(folder) as found:
        if is_begun:
            found.begin({})
            found.add(**PART)
        shutil.rmtree(folder / HIDDEN)
        meanwhile()
        then(found)


def test_what_is_removed_in_mid_run_is_told_and_the_next_one_begins(tmp_path):
    """By somebody who tidies up; nothing is kept then, and nothing says so."""
    with pytest.raises(ForetellError, match=LOST) as told:
        lose_the_folder(tmp_path, lambda found: found.add(**PART))
    assert getattr(told.value, "__notes__", []) == []
    assert os.listdir(tmp_path) == []
    with journal(tmp_path) as found:
        found.begin({})


STEPS = {
    "begin": lambda found: found.begin({}),
    "add": lambda found: found.add(**PART),
    "finish": lambda found: found.finish(join),
    "leave": fail,
}


@pytest.mark.parametrize("step", STEPS)
def test_another_job_that_works_in_its_place_loses_nothing(tmp_path, step):
    """Else parts of two jobs would be joined to one output, or those of one removed."""
    other = journal(tmp_path)

    def begin():
        stack.enter_context(other)
        other.begin({})
        other.add(b"right", counts={"line": 1})

    with ExitStack() as stack:
        with pytest.raises(ForetellError, match=LOST):
            lose_the_folder(tmp_path, STEPS[step], is_begun=step != "begin", meanwhile=begin)
        other.finish(join)
    assert (tmp_path / "out.txt").read_bytes() == b"right"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_nothing_appears_where_the_folder_is_removed_while_the_parts_are_joined(tmp_path):
    def join_and_remove(parts, target):
        join(parts, target)
        shutil.rmtree(tmp_path / HIDDEN)

    def finish():
        with journal(tmp_path) as found:
            found.begin({})
            found.add(**PART)
            found.finish(join_and_remove)

    with pytest.raises(ForetellError, match=LOST):
        finish()
    assert os.listdir(tmp_path) == []
