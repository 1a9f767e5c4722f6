"""The command line in this process: what a shell would see of it."""

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
    """Run a command line in an empty folder; a traceback fails the test."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ended(code, captured.out, captured.err)

    return call
