"""What a whole server writes: who reads it at night has nothing else."""

import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
import typer

from foretell.cli.main import app
from foretell.protos.v1.models_pb2 import ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.runtime.cpu import allowed_cores
from foretell.server.models.repository import ModelControl
from foretell.server.options import ServerOptions
from foretell.server.settings import settings_in_force, write_settings

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


def flags():
    found = typer.main.get_command(app).commands["serve"].params
    return {one.name for one in found if one.param_type_name == "option" and one.name != "help"}


def settings(threads=None, **options):
    control = ModelControl(mode="poll", pins={"demand": 1, "sales": 2})
    options = ServerOptions(**options)
    others = {"device": "auto", "log_format": "text", "log_calls": "failed"}
    models = Path("my models")
    return settings_in_force(models, options, control, threads=threads, others=others)


def test_every_flag_is_among_the_options_in_force_and_nothing_else():
    assert settings().keys() == flags() | {"models"}


def test_options_in_force_are_told_as_they_are_typed_and_as_numbers_that_count():
    path, *told = shlex.split(write_settings(settings(max_queue_bytes=3 << 20, batching=False)))
    told = dict(part.split("=", 1) for part in told)
    cores = str(allowed_cores())
    assert path == "my models"
    assert (told["--threads"], told["--instances"]) == (cores, cores)
    assert (told["--max-queue-mib"], told["--batching"], told["--tls-cert"]) == ("3", "no", "none")
    assert told["--pin"] == "demand=1,sales=2"
    assert (settings(3)["instances"], settings(3, instances=5)["instances"]) == (3, 5)


def test_a_server_begins_with_its_options_before_it_loads(models):
    """Who looks for a setting that didn't arrive looks there first, also where no start follows."""
    (models / "demand/1/bad").touch()
    control = {"mode": "none", "pins": {"demand": 1}}
    with ServerProcess(models, log_format="json", threads=3, control=control) as server:
        assert server.end() == 1
    told = json.loads(server.log.splitlines()[0])
    assert told["message"].startswith(f"options: {models} --")
    assert "--pin=demand=1" in told["message"]
    assert told["options"]["pin"] == {"demand": 1}
    assert told["options"]["threads"] == 3
    assert told["options"]["models"] == str(models)


def test_a_pin_is_told_with_the_version(models):
    """Else nobody sees why a newer version, right there, doesn't serve."""
    (models / "demand/2").mkdir()
    with ServerProcess(models, control={"pins": {"demand": 1}}) as server:
        with grpc.insecure_channel(server.wait_until_it_listens()) as channel:
            (status,) = ModelsStub(channel).List(ListModelsRequest()).models
        assert status.reason == "no other version serves: --pin demand=1."
        server.signal()
        assert server.end() == 0


def test_workers_say_which_of_them_writes_and_a_drained_one_is_no_fault(models):
    with ServerProcess(models, workers=2, metrics="127.0.0.1:0") as server:
        server.wait_until_it_listens()
        (pid,) = re.findall(r"worker=0 pid=(\d+) answers", server.log)
        os.kill(int(pid), signal.SIGTERM)
        server.wait_for(rf"WARNING worker=0 pid={pid} ended \(exit code 0\); replaced in ")
        server.wait_for(r"worker=0 pid=(\d+) answers")
        server.signal()
        assert server.end() == 0
    assert "ERROR" not in server.log
    for number in (0, 1):
        assert f"INFO [worker {number}] listening on" in server.log


def test_what_libraries_say_is_json_too_and_said_once(models, monkeypatch):
    """A collector that isn't there is told of again and again, in lines that nothing parses."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    endpoint = "http://127.0.0.1:1"
    with ServerProcess(models, log_format="json", trace_endpoint=endpoint) as server:
        address = server.wait_for('"message": "listening on (.*?)"')[1]
        with grpc.insecure_channel(address) as channel:
            ModelsStub(channel).List(ListModelsRequest())
            server.wait_for("opentelemetry")
            ModelsStub(channel).List(ListModelsRequest())
        server.signal()
        assert server.end() == 0
    told = [json.loads(line)["message"] for line in server.log.splitlines()]
    assert len(told) == len(set(told))


def test_failed_handshakes_stand_between_no_lines(bundle_path, tmp_path, make_authority):
    """gRPC writes of them by itself, in a form that is neither ours nor JSON."""
    made = make_authority(tmp_path).sign("server")
    flags = ("--log-format", "json", "--tls-cert", made.cert, "--tls-key", made.key)
    table = tmp_path / "table.csv"
    table.write_text("unique_id,ds,y\na,2024-01-01,1\na,2024-01-02,2\na,2024-01-03,3\n")
    with CommandProcess(bundle_path.parent, *flags) as server:
        address = server.wait_for('"message": "listening on (.*?)"')[1]
        command = [
            sys.executable,
            "-m",
            "foretell.cli.main",
            "forecast",
            str(table),
            "--horizon",
            "1",
        ]
        asked = subprocess.run(
            [*command, "--server", address], capture_output=True, text=True, check=False
        )
        server.signal(signal.SIGINT)
        assert server.end() == 0
    assert asked.returncode == 1
    assert asked.stderr.startswith("error: ")
    assert "Handshake" not in asked.stderr
    assert all(json.loads(line) for line in server.log.splitlines())
