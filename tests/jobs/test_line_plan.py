"""Chunks of lines that are read alone are the lines of the whole file, whatever is in it."""

import gzip
import os
import pickle
import shutil
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foretell.data.errors import TextError
from foretell.data.text.lines import arriving_lines
from foretell.jobs.lines import plan as line_plan
from foretell.jobs.lines import text_file
from foretell.jobs.lines.plan import plan_lines
from foretell.jobs.lines.text_file import look_at_text


def every_line(path):
    return list(chain.from_iterable(arriving_lines(path)))


def read_all(plan):
    return [line for number in range(len(plan.chunks)) for line in plan.read(number)]


@given(
    content=st.lists(
        st.sampled_from(
            [b"\n", b"\n", b"a", b"\r\n", b"\xef\xbb\xbf", "ß".encode(), b"\xff", b"\0"]
        )
    ).map(b"".join),
    most=st.integers(1, 4),
    after=st.integers(0, 6),
    packed=st.booleans(),
)
@example(content=b"no end", most=1, after=0, packed=False)
def test_all_chunks_are_all_lines(tmp_path_factory, content, most, after, packed):
    folder = tmp_path_factory.mktemp("lines")
    path = folder / "in.txt"
    path.write_bytes(gzip.compress(content) if packed else content)
    plan = plan_lines(look_at_text(str(path)), folder, most_lines=most, after=after)
    plan = pickle.loads(pickle.dumps(plan))
    assert read_all(plan) == every_line(path)[after:]
    assert all(1 <= len(plan.read(number)) <= most for number in range(len(plan.chunks)))


def test_long_lines_make_short_chunks(tmp_path, monkeypatch):
    """Memory goes by bytes, not by lines; a line across blocks is still one."""
    monkeypatch.setattr(line_plan, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(line_plan, "_BLOCK_BYTES", 64)
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{'x' * length}\n" for length in (400, 500, 600, 3000, 5, 6)))
    plan = plan_lines(look_at_text(str(path)), tmp_path, most_lines=100)
    assert [len(plan.read(number)) for number in range(len(plan.chunks))] == [3, 1, 2]
    assert read_all(plan) == every_line(path)


@pytest.mark.parametrize("change", ["other", "other, as old", "longer", "gone"])
def test_a_file_that_changes_is_never_mixed(tmp_path, change):
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\nthree\n")
    plan = plan_lines(look_at_text(str(path)), tmp_path, most_lines=1)
    if change == "other":
        path.write_text("eins\nzwei\n23\n"[:14])
        os.utime(path, ns=(1, 1))
    elif change == "other, as old":  # as `cp -p` and `rsync -t` do
        other, was = tmp_path / "other", path.stat()
        other.write_text("eins\nzwei\n23\n"[:14].ljust(was.st_size))
        os.utime(other, ns=(was.st_atime_ns, was.st_mtime_ns))
        other.replace(path)
    elif change == "longer":
        with path.open("a") as file:
            file.write("four\n")
    else:
        path.unlink()
    with pytest.raises(TextError, match=r"was changed while it was read|can't be read"):
        plan.read(1)


def test_a_copy_is_the_same_file_and_read_once_to_tell(tmp_path, monkeypatch):
    """Machines of a cluster may see copies."""
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\nthree\n")
    plan = plan_lines(look_at_text(str(path)), tmp_path, most_lines=1)
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    looked = []
    look = text_file.look_at_text
    monkeypatch.setattr(text_file, "look_at_text", lambda path: looked.append(path) or look(path))
    assert [line.text for line in read_all(plan)] == ["one", "two", "three"]
    assert looked == [str(path)]


def test_a_damaged_packed_file_is_told(tmp_path):
    path = tmp_path / "in.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n" * 1000))
    text = look_at_text(str(path))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TextError, match=r"incomplete or damaged.*copy it again"):
        plan_lines(text, tmp_path, most_lines=1)
