"""The command line as a shell would see it."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from foretell.cli.main import run


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def foretell(capsys, monkeypatch, tmp_path):
    """Run a command line here, in an empty folder; a traceback fails the test."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ended(code, captured.out, captured.err)

    return call


@pytest.fixture
def foretell_process(tmp_path):
    """The same in a process of its own: torch can't export while the tests check its shapes."""

    def call(*arguments: object) -> Ended:
        command = [sys.executable, "-m", "foretell.cli.main", *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    return call
