"""A job over lines that is killed, interrupted, or finds no room: the same bytes in the end."""

import gzip
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from foretell.data.errors import ForetellError, OptionError, TextError
from foretell.data.text.translation import TranslateOptions
from foretell.jobs.lines import output as line_output
from foretell.jobs.lines.translate import TranslateJob, plan_translate_job, run_translate_job

SLOW = [sys.executable, str(Path(__file__).with_name("slow_translate.py"))]
LONG = "word " * 11  # the model reads ten words
# Refused, cut and blank lines among the others, before and behind every stop.
TEXT = "".join(
    f"{LONG}{i}\n" if i % 10 == 3 else "\n" if i % 10 == 7 else f"line {i}\n" for i in range(100)
)
NEVER = 1_000_000
HIDDEN = ".out.txt.foretell-job"


@pytest.fixture
def job(tmp_path, backwards):
    """Runs a job in this process."""
    (tmp_path / "in.txt").write_text(TEXT)

    def run(*, model=None, plan=False, **options):
        values = {"source": str(tmp_path / "in.txt"), "output": tmp_path / "out.txt"}
        call = plan_translate_job if plan else run_translate_job
        return call(TranslateJob(**(values | options)), (model or backwards()).door)

    return run


@pytest.fixture
def whole(tmp_path, backwards):
    """What an unbroken run writes: the answers, and the refused lines."""
    folder = tmp_path / "whole"
    folder.mkdir()
    (folder / "in.txt").write_text(TEXT)
    job = TranslateJob(source=str(folder / "in.txt"), output=folder / "out.txt")
    run_translate_job(job, backwards().door)
    written = (folder / "out.txt").read_bytes(), refused(folder)
    shutil.rmtree(folder)
    return written


@pytest.fixture
def half(job, backwards):
    """Leaves a job of which 20 lines are done."""

    class GoneError(ForetellError):
        pass

    class Going(backwards):
        def translate(self, sentences, options, *, first_place=0):
            if first_place >= 20:
                raise GoneError("gone")
            return super().translate(sentences, options, first_place=first_place)

    def leave(**options):
        with pytest.raises(GoneError) as error:
            job(model=Going(), chunk_lines=10, **options)
        assert error.value.__notes__ == ["20 lines done and kept; go on with --resume."]

    return leave


@contextmanager
def stuck(folder, line, *options):
    """A process that has kept the lines before one, and stands still."""
    call = [*SLOW, str(line), "translate", "in.txt", "--model", "m", "--output", "out.txt"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        [*call, "--chunk-lines", "10", *options], cwd=folder, text=True, **pipes
    ) as process:
        try:
            for told in process.stdout:
                if int(told) == line:
                    break
            yield process
        finally:
            process.kill()


def finish(folder, *options):
    call = [*SLOW, str(NEVER), "translate", "in.txt", "--model", "m", "--output", "out.txt"]
    done = subprocess.run(
        [*call, "--resume", *options], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def refused(folder):
    return (folder / "out.txt.refused.csv").read_bytes()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_killed_three_times_it_goes_on_to_the_same_bytes(tmp_path, job, whole):
    """HD06 for lines; whatever chunks the last run takes."""
    (tmp_path / "in.txt").write_text(TEXT)
    for line in (10, 40, 70):
        with stuck(tmp_path, line, "--resume") as process:
            assert names(tmp_path) == [HIDDEN, "in.txt"]
            process.send_signal(signal.SIGKILL)
            process.wait()
    done = finish(tmp_path, "--chunk-lines", "7")
    assert done.returncode == 3
    assert ((tmp_path / "out.txt").read_bytes(), refused(tmp_path)) == whole
    assert "90 lines translated by Backwards" in done.stderr
    assert ", 70 of them in earlier runs -> out.txt" in done.stderr
    assert "10 of 100 lines refused:\n  line 4: it has 12 words" in done.stderr
    again = job(resume=True)
    assert again.was_complete
    assert (again.done.num_lines, again.done.num_refused) == (100, 10)
    assert str(again.done.refused[0]) == "line 4: it has 12 words; the model reads 10."
    assert (tmp_path / "out.txt").read_bytes() == whole[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_tells_how_to_go_on(tmp_path, job, whole, number):
    """Without --resume, too: who stops a job by Ctrl-C hasn't thought of it before."""
    (tmp_path / "in.txt").write_text(TEXT)
    with stuck(tmp_path, 20) as process:
        process.send_signal(number)
        assert process.wait() == 130
        told = process.stderr.read()
    assert told == "interrupted\n20 lines done and kept; go on with --resume.\n"
    assert names(tmp_path) == [HIDDEN, "in.txt"]
    assert job(resume=True).done.summary.num_items == 80
    assert (tmp_path / "out.txt").read_bytes() == whole[0]


def test_an_interruption_before_the_first_part_leaves_nothing(tmp_path):
    (tmp_path / "in.txt").write_text(TEXT)
    with stuck(tmp_path, 0) as process:
        assert names(tmp_path) == [HIDDEN, "in.txt"]
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 130
        assert process.stderr.read() == "interrupted\n"
    assert names(tmp_path) == ["in.txt"]


def test_a_second_job_on_the_same_output_is_refused(tmp_path):
    (tmp_path / "in.txt").write_text(TEXT)
    with stuck(tmp_path, 20):
        done = finish(tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith("error: out.txt is being written by another job; wait")
        assert names(tmp_path) == [HIDDEN, "in.txt"]


def test_an_input_that_is_gone_costs_nothing_that_is_done(tmp_path, job, half, whole):
    half()
    (tmp_path / "in.txt").rename(tmp_path / "moved.txt")
    with pytest.raises(TextError, match=r"in\.txt can't be read \(No such file or directory\)"):
        job(resume=True)
    (tmp_path / "moved.txt").rename(tmp_path / "in.txt")
    assert job(resume=True).done.summary.num_items == 80
    assert (tmp_path / "out.txt").read_bytes() == whole[0]


class Changing:
    """A translator before which something happens to the input."""

    def __init__(self, backwards, change):
        self.model, self.change, self.calls = backwards(), change, 0

    def door(self):
        translate = self.model.translate

        def change_and_translate(sentences, options, *, first_place=0):
            self.calls += 1
            if self.calls == 3:
                self.change()
            return translate(sentences, options, first_place=first_place)

        self.model.translate = change_and_translate
        return self.model.door()


def long_text(lines=8_000):
    """More than a reader takes at a time."""
    return "".join(f"line {i}\n" for i in range(lines))


def test_an_input_that_changes_meanwhile_gives_no_output(tmp_path, job, backwards):
    """Half of the lines of one text, and half of another's: nobody would notice."""
    source = tmp_path / "in.txt"
    source.write_text(long_text())

    def append():
        with source.open("a") as file:
            file.write("one more\n")

    with pytest.raises(TextError, match=r"in\.txt was changed while it was read") as error:
        job(model=Changing(backwards, append), chunk_lines=100)
    assert "kept; go on with --resume." in error.value.__notes__[0]
    assert names(tmp_path) == [HIDDEN, "in.txt"]
    with pytest.raises(ForetellError, match="the input was another"):
        job(resume=True)
    source.write_text(long_text())
    job(resume=True)
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 8_000


@pytest.mark.parametrize("change", ["touch", "remove", "replace"])
def test_what_was_opened_is_read_whatever_becomes_of_its_name(tmp_path, job, backwards, change):
    source = tmp_path / "in.txt"
    source.write_text(long_text())

    def change_it():
        if change == "touch":
            os.utime(source, ns=(1, 1))
        elif change == "remove":
            source.unlink()
        else:
            (tmp_path / "other.txt").write_text("other\n")
            (tmp_path / "other.txt").rename(source)

    job(model=Changing(backwards, change_it), chunk_lines=100)
    written = (tmp_path / "out.txt").read_text().splitlines()
    assert written == [f"{i} line" for i in range(8_000)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"form": "jsonl"}, "format: text then, jsonl now"),
        ({"scores": True}, "scores: False then, True now"),
        ({"options": TranslateOptions(beam_size=4)}, "beam_size: 5 then, 4 now"),
    ],
    ids=["format", "scores", "beam"],
)
def test_another_job_is_refused_naming_what_differs(tmp_path, job, half, options, told):
    half()
    with pytest.raises(ForetellError, match=told):
        job(resume=True, **options)
    with pytest.raises(ForetellError, match=r"half done, with 20 lines done; go on with it"):
        job(**options)
    job(overwrite=True, **options)
    assert names(tmp_path) == ["in.txt", "out.txt", "out.txt.refused.csv"]


def test_another_model_is_refused(tmp_path, job, backwards):
    class Other(backwards):
        def door(self):
            return super().door(fingerprint="sha256:other")

    job(resume=True)
    with pytest.raises(
        ForetellError, match=r"of another job:\nthe model was another\.\nGive --over"
    ):
        job(resume=True, model=Other())


def test_a_plan_tells_what_is_left_and_writes_nothing(tmp_path, job, half):
    plan = job(plan=True, resume=True)
    assert (plan.num_lines, plan.num_done, plan.was_complete, plan.where) == (
        100,
        0,
        False,
        "Backwards",
    )
    assert names(tmp_path) == ["in.txt"]
    half()
    assert job(plan=True, resume=True).num_done == 20
    with pytest.raises(ForetellError, match="half done, with 20 lines done"):
        job(plan=True)
    assert names(tmp_path) == [HIDDEN, "in.txt"]
    job(resume=True)
    assert job(plan=True, resume=True).was_complete


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_the_bytes_do_not_depend_on_chunks(tmp_path, job, name):
    digests = set()
    (tmp_path / "in.txt").write_text(TEXT * 10)
    for chunk_lines in (1, 13, 1000, 10_000):
        job(output=tmp_path / name, chunk_lines=chunk_lines, overwrite=True)
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


def test_packed_texts_are_read_written_and_resumed(tmp_path, job, half, whole):
    source = tmp_path / "in.txt.gz"
    source.write_bytes(gzip.compress(TEXT.encode()))
    half(source=str(source), output=tmp_path / "out.txt.gz")
    result = job(source=str(source), output=tmp_path / "out.txt.gz", resume=True)
    assert result.done.summary.num_items == 80
    assert gzip.decompress((tmp_path / "out.txt.gz").read_bytes()) == whole[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"source": "-"}, r"standard input can be read only once, so nothing can be resumed"),
        ({"output": None}, "nothing can be resumed on standard output"),
    ],
    ids=["stdin", "stdout"],
)
def test_what_can_not_be_resumed_is_refused_at_once(job, options, told):
    with pytest.raises(OptionError, match=told):
        job(resume=True, **options)


def test_the_picture_is_the_same_after_a_kill(tmp_path, job, half):
    """Its sentences are the first ones of the text, not those of the last run."""
    half()
    result = job(resume=True, plot=tmp_path / "out.png")
    assert result.num_drawn == 4
    job(overwrite=True, plot=tmp_path / "whole.png")
    assert (tmp_path / "out.png").read_bytes() == (tmp_path / "whole.png").read_bytes()


@pytest.mark.parametrize("name", ["out.png", "out.txt.refused.csv"])
def test_what_stood_there_before_a_job_began_is_not_replaced(tmp_path, job, name):
    (tmp_path / name).write_text("somebody's own")
    with pytest.raises(ForetellError, match=rf"{name} exists; give --overwrite"):
        job(resume=True, plot=tmp_path / "out.png")
    assert names(tmp_path) == sorted(["in.txt", name])
    job(resume=True, overwrite=True, plot=tmp_path / "out.png")
    assert job(resume=True, plot=tmp_path / "out.png").was_complete


@pytest.fixture
def small_disk(tmp_path):
    """A file system with room for 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("no right to mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_and_what_is_done_is_kept(tmp_path, small_disk, job, monkeypatch):
    (tmp_path / "in.txt").write_text(long_text(5_000))
    monkeypatch.setattr(line_output, "_SECONDS_OF_A_PART", 0.0)
    with pytest.raises(OSError, match="No space left on device") as error:
        job(output=small_disk / "out.txt", chunk_lines=100)
    assert error.value.filename == str(small_disk / "out.txt")
    assert error.value.__notes__[0].endswith("lines done and kept; go on with --resume.")
    assert names(small_disk) == [HIDDEN]
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    job(output=small_disk / "out.txt", resume=True)
    lines = (small_disk / "out.txt").read_text().splitlines()
    assert lines == [f"{i} line" for i in range(5_000)]


def test_a_disk_that_is_read_only_is_told_before_a_model_is_asked(small_disk, job, backwards):
    model = backwards()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(ForetellError, match=r"there is no right to write into"):
        job(output=small_disk / "out.txt", model=model)
    assert model.asked == []
