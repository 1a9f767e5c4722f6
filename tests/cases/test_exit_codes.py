"""HD07: what a command says by its exit code, and what becomes of the file that was there."""

import csv
import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from foretell.jobs.journals.journal import Journal

CASES = Path(__file__).parent
RUNS = [row["run"] for row in csv.DictReader((CASES / "HD07.csv").read_text().splitlines())]
DAYS = pd.date_range("2024-01-01", periods=20).strftime("%Y-%m-%d")
OLD = "yesterday's\n"


def table(*names: str) -> str:
    """The series of HD03 that are named; one without values has a row with a blank."""
    lines = ["unique_id,ds,y"]
    for series in json.loads((CASES / "HD03.json").read_text()):
        if series["unique_id"] in names:
            values = series["y"] or [""]
            lines += [f"{series['unique_id']},{d},{y}" for d, y in zip(DAYS, values, strict=False)]
    return "\n".join(lines) + "\n"


class Forecasts:
    """`foretell forecast`, over the series of HD03."""

    name, places = "forecast", ("in.csv", "out.csv")
    good = table("good0", "good1", "good2")
    bad = table("empty", "has_inf", "word")
    mixed = table("good0", "empty", "good1", "has_inf", "word", "good2")
    said = ("  empty: ", "  has_inf: ", "  word: ")
    broken = "a,table,that\nis,none\n"
    wrong = (
        *((["--horizon", wrong], "--horizon", "1 to 100,000") for wrong in ("0", "-1", "2.5")),
    )
    needs = ("--horizon", "3")

    def __init__(self, request):
        self.bundle = request.getfixturevalue("bundle_path")

    def check(self, output, *, whole):
        found = pd.read_csv(output)
        assert found["unique_id"].tolist() == ["good0"] * 3 + ["good1"] * 3 + ["good2"] * 3
        assert found["forecast"].tolist() == pytest.approx([5] * 3 + [9] * 3 + [0] * 3, abs=1e-4)


class Translations:
    """`foretell translate`: lines too long for the model are the bad ones."""

    name, places = "translate", ("in.txt", "out.txt")
    long = "twenty one " * 60
    good = "seven\n\nnine\n"
    bad = f"{long}\n" * 3
    mixed = f"seven\n{long}\n\n{long}\n{long}\nnine\n"
    said = ("line 2: ", "line 4: ", "line 5: ")
    broken = None
    wrong = (
        (["--beam-size", "0"], "--beam-size", "1 to 64"),
        (["--n-best", "2", "--beam-size", "1"], "--n-best", "beam"),
    )
    needs = ()

    def __init__(self, request):
        self.bundle = request.getfixturevalue("translator_bundle_path")

    def check(self, output, *, whole):
        found = output.read_text().splitlines()
        assert len(found) == (3 if whole else 6)
        filled = [at for at, line in enumerate(found) if line]
        assert filled == ([0, 2] if whole else [0, 5])


@pytest.fixture(params=[Forecasts, Translations], ids=["forecast", "translate"])
def command(request):
    return request.param(request)


@pytest.fixture
def call(foretell, command, tmp_path):
    """Run the command in a folder: its end, and the output's place."""

    def run(content, *options, needs=None):
        source, output = (tmp_path / name for name in command.places)
        if content is not None:
            source.write_text(content)
        arguments = [command.name, source, "--model", command.bundle, "--output", output]
        ended = foretell(*arguments, *(command.needs if needs is None else needs), *options)
        assert ended.out == "", "standard output is for data"
        return ended, output

    return run


def all_items_good(command, call):
    ended, output = call(command.good)
    assert ended.code == 0
    assert "error" not in ended.err
    command.check(output, whole=True)
    assert {file.name for file in output.parent.iterdir()} == set(command.places)


def some_items_bad(command, call):
    ended, output = call(command.mixed)
    assert ended.code == 3
    assert "3 of 6 " in ended.err
    for said in command.said:
        assert said in ended.err
    command.check(output, whole=False)
    assert len(pd.read_csv(f"{output}.refused.csv")) == 3


def all_items_bad(command, call):
    ended, output = call(command.bad)
    assert ended.code == 1
    assert "3 of 3 " in ended.err
    assert not output.exists()


def input_missing(command, call):
    ended, output = call(None)
    assert ended.code == 1
    assert command.places[0] in ended.err
    assert list(output.parent.iterdir()) == []


def wrong_usage(command, call):
    for options, name, allowed in command.wrong:
        ended, output = call(command.good, *options, needs=())
        assert ended.code == 2
        assert name in ended.err
        assert allowed in ended.err
        assert not output.exists()
    ended, output = call(command.good, "--no-such-option", "1")
    assert ended.code == 2
    assert "--no-such-option" in ended.err
    assert not output.exists()


def output_exists(command, call):
    _, output = call(None)
    output.write_text(OLD)
    ended, output = call(command.good)
    assert ended.code == 1
    assert str(output) in ended.err
    assert "--overwrite" in ended.err
    assert output.read_text() == OLD


def output_is_overwritten(command, call):
    _, output = call(None)
    output.write_text(OLD)
    ended, output = call(command.good, "--overwrite")
    assert ended.code == 0
    command.check(output, whole=True)


def overwriting_fails(command, call):
    _, output = call(None)
    output.write_text(OLD)
    contents = [command.bad] if command.broken is None else [command.bad, command.broken]
    for content in contents:
        ended, output = call(content, "--overwrite")
        assert ended.code == 1
        assert ended.err
        assert output.read_text() == OLD


RIGHT = dict(
    zip(
        RUNS,
        (
            all_items_good,
            some_items_bad,
            all_items_bad,
            input_missing,
            wrong_usage,
            output_exists,
            output_is_overwritten,
            overwriting_fails,
        ),
        strict=True,
    )
)


@pytest.mark.parametrize("run", RUNS)
def test_hd07_every_run_ends_as_the_table_says(command, call, run):
    RIGHT[run](command, call)


@pytest.mark.parametrize(("kind", "code"), [("good", 0), ("mixed", 3), ("bad", 1)])
def test_a_job_that_is_complete_says_so_and_ends_as_its_first_run_did(command, call, kind, code):
    """Whoever has a clock give one command reads the exit code of the last run."""
    ended, output = call(getattr(command, kind), "--resume")
    assert ended.code == code
    before = {path: path.read_bytes() for path in output.parent.iterdir()}
    again, _ = call(getattr(command, kind), "--resume")
    told = "an earlier run has refused every " if kind == "bad" else "is complete already"
    assert (again.code, told in again.err) == (code, True), again.err
    assert {path: path.read_bytes() for path in output.parent.iterdir()} == before


def test_a_job_whose_folder_is_removed_says_so_and_leaves_nothing(command, call, monkeypatch):
    """By somebody who tidies up; what is half done must not look complete."""
    keep = Journal.add

    def keep_and_remove(journal, *arguments, **options):
        keep(journal, *arguments, **options)
        shutil.rmtree(journal.work.parent)

    monkeypatch.setattr(Journal, "add", keep_and_remove)
    ended, output = call(command.mixed, "--resume")
    assert ended.code == 1
    assert re.fullmatch(r"error: .* was removed while the job worked there.*\n", ended.err)
    assert [path.name for path in output.parent.iterdir()] == [command.places[0]]
