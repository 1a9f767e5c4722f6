"""Two processes never write one output: one of them would have the other's parts."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from foretell.data.errors import ForetellError
from foretell.jobs.journals.job_folder import JobFolder
from foretell.jobs.journals.journal import Journal


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
