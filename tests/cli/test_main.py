"""What every command has in common: help, exit codes, and no traceback for a user's mistake."""

import os
import shlex
import subprocess
import sys
from importlib.metadata import version

import pytest

from foretell.cli import main
from foretell.data.errors import ForetellError, OptionError, TableError

COMMANDS = [
    ["demo"],
    ["train", "forecaster"],
    ["train", "translator"],
    ["export"],
    ["verify"],
    ["inspect"],
    ["inspect-gradients"],
    ["serve"],
    ["token"],
    ["forecast"],
    ["translate"],
    ["score"],
    ["evaluate", "forecaster"],
    ["evaluate", "translator"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_shows_an_example(foretell, command):
    ended = foretell(*command, "--help")
    assert ended.code == 0
    assert f"Example: foretell {' '.join(command)}" in " ".join(ended.out.split())


def test_version(foretell):
    ended = foretell("--version")
    assert (ended.code, ended.out) == (0, f"foretell {version('foretell')}\n")


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["forecast", "--nonsense"]])
def test_wrong_usage_is_2_and_says_what(foretell, arguments):
    ended = foretell(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert "nonsense" in ended.err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (TableError(["one.", "two."]), 1, "error: one.\ntwo.\n"),
        (OptionError("a wish."), 2, "error: a wish.\n"),
        (ForetellError("gone."), 1, "error: gone.\n"),
        (KeyboardInterrupt(), 130, ""),
        (FileNotFoundError(2, "No such file", "a.csv"), 1, "error: a.csv: No such file.\n"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (ModuleNotFoundError("no", name="torch"), 1, "pip install 'foretell[train]'"),
        (ModuleNotFoundError("no", name="sacrebleu"), 1, "pip install 'foretell[evaluate]'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_become_codes_and_words(foretell, monkeypatch, error, code, message):
    def fail(**_):
        raise error

    monkeypatch.setattr(main, "app", fail)
    ended = foretell("forecast")
    assert ended.code == code
    assert message in ended.err
    assert ended.out == ""


def test_a_fault_of_our_own_is_not_hidden(monkeypatch):
    def fail(**_):
        raise AssertionError("a bug")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(AssertionError, match="a bug"):
        main.run(["forecast"])


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_is_told_in_a_line(bundle_path, tmp_path, unbuffered):
    """`foretell forecast ... | head -1`: no traceback, and no word of success."""
    rows = "".join(f"s{i},2024-01-{day:02d},{day}\n" for i in range(500) for day in range(1, 10))
    (tmp_path / "in.csv").write_text("unique_id,ds,y\n" + rows)
    command = [sys.executable, "-m", "foretell.cli.main", "forecast", str(tmp_path / "in.csv")]
    process = subprocess.Popen(
        [*command, "--model", str(bundle_path), "--horizon", "30"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    assert told == "error: whoever read standard output has closed it; the rest is not written.\n"
    process.stderr.close()
    assert process.wait() == 1


def test_a_closed_stderr_costs_words_only(bundle_path, tmp_path):
    """`2>&-`, or a service manager; no file may get its number, and a library's words with it."""
    (tmp_path / "in.csv").write_text("unique_id,ds,y\na,2024-01-01,1\na,2024-01-02,1\n")
    command = f"{sys.executable} -m foretell.cli.main forecast in.csv --horizon 3 --freq D"
    line = f"{command} --model {shlex.quote(str(bundle_path))} --output out.csv 2>&-"
    assert subprocess.run(line, shell=True, cwd=tmp_path, check=False).returncode == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    "command",
    [
        ["inspect", "BUNDLE"],
        ["verify", "BUNDLE"],
        ["forecast", "in.csv", "--model", "BUNDLE", "--horizon", "3"],
        ["evaluate", "forecaster", "in.csv", "--model", "BUNDLE", "--horizon", "3"],
        ["evaluate", "translator", "--src", "a", "--ref", "b", "--model", "BUNDLE"],
        ["translate", "-", "--model", "BUNDLE"],
        ["score", "--src", "-", "--tgt", "/dev/null", "--model", "BUNDLE"],
        ["demo"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_closed_stdout_is_told_before_any_work(bundle_path, tmp_path, command):
    """`>&-`, or a service manager: the answer would vanish, and the exit code say all is well."""
    names = [str(bundle_path) if name == "BUNDLE" else name for name in command]
    line = [sys.executable, "-m", "foretell.cli.main", *names]
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *line],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "error: standard output is closed; leave it open, or give an output file.\n"
    )
    assert not list(tmp_path.iterdir())
