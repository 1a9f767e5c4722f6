"""A file that looks complete must be complete: others read it without asking."""

import io
import os
import sys
from itertools import pairwise

import pandas as pd
import pytest

from foretell.data.errors import ForetellError, OptionError
from foretell.jobs.output import (
    check_outputs,
    replacing,
    table_format,
    write_stdout,
    write_table,
)

TABLE = pd.DataFrame({"unique_id": ["007", "a"], "forecast": [0.1 + 0.2, 1e-12]})


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_every_number_comes_back_to_the_last_bit(tmp_path, name):
    target = tmp_path / name
    write_table(TABLE, target)
    if name.endswith(".parquet"):
        back = pd.read_parquet(target)
    else:
        back = pd.read_csv(target, dtype=str)
        back["forecast"] = [float(text) for text in back["forecast"]]
    assert back["unique_id"].tolist() == ["007", "a"]
    assert back["forecast"].tolist() == TABLE["forecast"].tolist()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_failing_writer_leaves_the_old_bytes_and_no_crumbs(tmp_path):
    target = tmp_path / "out.csv"
    target.write_text("old")

    def write():
        with replacing(target, ".csv") as partial:
            partial.write_text("half")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_the_target_appears_only_at_the_end(tmp_path):
    target = tmp_path / "out.csv"
    with replacing(target, ".csv") as partial:
        partial.write_text("whole")
        assert not target.exists()
        assert partial.parent == tmp_path
    assert target.read_text() == "whole"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.csv"
    link.symlink_to(tmp_path / "real" / "out.csv")
    write_table(TABLE, link)
    assert link.is_symlink()
    assert (tmp_path / "real" / "out.csv").is_file()


def test_new_files_get_the_rights_that_others_expect(tmp_path):
    """A temporary file of mode 0600 renamed into place could not be read by the next job."""
    write_table(TABLE, tmp_path / "out.csv")
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o666 & ~umask


def test_all_unusable_outputs_are_named_at_once(tmp_path):
    exists, lost, folder = tmp_path / "old.csv", tmp_path / "no" / "out.csv", tmp_path / "dir"
    exists.write_text("old")
    folder.mkdir()
    with pytest.raises(ForetellError) as caught:
        check_outputs([exists, lost, folder], overwrite=False)
    second, first, third = caught.value.problems
    assert str(exists) in first
    assert "--overwrite" in first
    assert "doesn't exist" in second
    assert "no regular file" in third
    check_outputs([exists], overwrite=True)


def test_a_device_is_never_replaced():
    """Renaming over /dev/null, as root, would break the machine."""
    from pathlib import Path

    with pytest.raises(ForetellError, match="no regular file"):
        check_outputs([Path(os.devnull)], overwrite=True)


def test_an_unknown_ending_is_refused_naming_the_known_ones(tmp_path):
    with pytest.raises(OptionError, match=r"\.csv, \.csv\.gz, \.parquet"):
        table_format(tmp_path / "out.xlsx")


def test_what_is_read_is_never_replaced(tmp_path):
    """`--output in.csv --overwrite` would leave forecasts where the history was."""
    data = tmp_path / "in.csv"
    data.write_text("x")
    (tmp_path / "link.csv").symlink_to(data)
    for target in (data, tmp_path / "link.csv", tmp_path / "." / "in.csv"):
        with pytest.raises(ForetellError, match="is also read; give the output another path"):
            check_outputs([target], overwrite=True, inputs=[str(data)])


@pytest.mark.parametrize("circle", [("out.csv", "out.csv"), ("out.csv", "other", "out.csv")])
def test_a_link_to_itself_is_named(tmp_path, circle):
    """Following it never ends; Python says so by an error that looks like a bug."""
    for link, goal in pairwise(circle):
        (tmp_path / link).symlink_to(goal)
    with pytest.raises(ForetellError, match=r"out\.csv is a link that leads to itself"):
        check_outputs([tmp_path / "out.csv"], overwrite=True)
    check_outputs([tmp_path / "new.csv"], overwrite=False, inputs=[str(tmp_path / "out.csv")])


def test_a_link_into_a_missing_folder_is_told_before_the_work(tmp_path):
    (tmp_path / "out.csv").symlink_to(tmp_path / "gone" / "out.csv")
    with pytest.raises(ForetellError, match=r"gone doesn't exist; make it first"):
        check_outputs([tmp_path / "out.csv"], overwrite=True)


def test_a_missing_folder_is_told_once(tmp_path):
    targets = [tmp_path / "no" / "a.csv", tmp_path / "no" / "a.csv.refused.csv"]
    with pytest.raises(ForetellError) as error:
        check_outputs(targets, overwrite=False)
    assert len(error.value.problems) == 1


def test_one_file_can_not_be_two_outputs(tmp_path):
    """The later would replace the earlier, and the job say that both were written."""
    (tmp_path / "there").mkdir()
    again = tmp_path / "there" / ".." / "out.png"
    with pytest.raises(ForetellError, match=r"out\.png and .*out\.png are the same file"):
        check_outputs([tmp_path / "out.png", again], overwrite=True)


def test_an_unbuffered_standard_output_gets_every_byte(monkeypatch):
    """PYTHONUNBUFFERED: a write may take the first bytes only, as of a disk that is nearly full."""

    class Slow(io.RawIOBase):
        taken = b""

        def writable(self):
            return True

        def write(self, content):
            self.taken += bytes(content[:3])
            return min(3, len(content))

    slow = Slow()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(slow, write_through=True))
    write_stdout(b"all of this")
    assert slow.taken == b"all of this"
