"""A job of which every item is refused has no output, and is done all the same."""

import pytest

from foretell.data.errors import ForetellError
from foretell.jobs.journals.journal import Journal, refused_file

JOB, OTHER = {"input": "one"}, {"input": "other"}


def run(folder, job=JOB, *, is_refused=True, **options):
    """A job of one line."""
    journal = Journal(
        folder / "out.txt", unit="line", columns=("line", "reason"), resume=True, **options
    )
    with journal as found:
        found.begin(job)
        if found.is_complete:
            return found
        refused = [(1, "no")] if is_refused else []
        found.add(b"one\n", counts={"line": 1, "refused": len(refused)}, refused=refused)
        found.finish(None if is_refused else join)
    found.is_complete = False  # it was not, before
    return found


def join(parts, target):
    target.write_bytes(b"".join(part.read_bytes() for part in parts))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_it_is_complete_the_second_time(tmp_path):
    """Its list of reasons was in its own way, and nothing but --overwrite helped."""
    run(tmp_path)
    assert names(tmp_path) == [".out.txt.foretell-done", "out.txt.refused.csv"]
    found = run(tmp_path)
    assert (found.is_complete, found.totals) == (True, {"line": 1, "refused": 1})
    assert list(found.refused()) == [[1, "no"]]


def test_another_job_does_not_take_it_for_its_own(tmp_path):
    run(tmp_path)
    with pytest.raises(ForetellError, match=r"refused\.csv exists; give --overwrite"):
        run(tmp_path, OTHER)
    assert not run(tmp_path, OTHER, is_refused=False, overwrite=True).is_complete
    assert (tmp_path / "out.txt").read_bytes() == b"one\n"


def test_what_came_to_the_place_of_the_output_is_not_replaced(tmp_path):
    run(tmp_path)
    (tmp_path / "out.txt").write_text("somebody's own")
    with pytest.raises(ForetellError, match="nothing tells which job has written it"):
        run(tmp_path)
    assert (tmp_path / "out.txt").read_text() == "somebody's own"


def test_who_removes_the_list_gets_it_made_again(tmp_path):
    run(tmp_path)
    refused_file(tmp_path / "out.txt").unlink()
    assert not run(tmp_path).is_complete
    assert refused_file(tmp_path / "out.txt").exists()


def test_the_output_that_stays_keeps_its_record(tmp_path):
    run(tmp_path, is_refused=False)
    run(tmp_path, OTHER, overwrite=True)
    assert run(tmp_path, is_refused=False).is_complete
