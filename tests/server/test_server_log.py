"""What a whole server writes: who reads it at night has nothing else."""

import runpy
from pathlib import Path

import pytest

PROCESSES = runpy.run_path(str(Path(__file__).with_name("server_process.py")))
ServerProcess, CommandProcess = PROCESSES["ServerProcess"], PROCESSES["CommandProcess"]


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models/demand/1").mkdir(parents=True)
    return tmp_path / "models"


def test_what_is_passed_over_and_who_takes_over_is_told(models):
    """A badly named folder stopped the whole server; a new version came without a word."""
    (models / "bad name/1").mkdir(parents=True)
    (models / "demand/v3").mkdir()
    control = {"mode": "poll", "poll_s": 0.05}
    with ServerProcess(models, control=control) as server:
        server.wait_until_it_listens()
        assert "'bad name' can't be served; rename the folder" in server.log
        assert "'demand/v3' is not a version number, passed over" in server.log
        (models / "demand/2").mkdir()
        server.wait_for(r"model=demand version=2 serves now \(was 1\)$")
        server.signal()
        assert server.end() == 0
    assert server.log.count("passed over") == 1
