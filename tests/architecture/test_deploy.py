"""The manifest and the Dockerfile: as far as they can be checked without an engine or a cluster."""

import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import urllib.request
from fnmatch import fnmatch
from pathlib import Path

import grpc
import pytest
import typer
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.cli.main import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "server" / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SERVING = health_pb2.HealthCheckResponse.SERVING
END_S = 10  # what a server may take beside delay and grace; a supervisor kills its workers then


def options(arguments):
    """Read a command line as the product does; it isn't run."""
    command, *rest = arguments
    assert command == "serve"
    return typer.main.get_command(app).commands["serve"].make_context("serve", list(rest)).params


@pytest.fixture(scope="module")
def manifest():
    parts = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    assert len(parts) == 3
    return {part["kind"]: part for part in parts}


@pytest.fixture(scope="module")
def pod(manifest):
    return manifest["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod):
    (container,) = pod["containers"]
    return container


@pytest.fixture(scope="module")
def dockerfile():
    """Instructions with their arguments, stage by stage."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages = []
    for line in lines:
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, rest.strip()))
    return stages


def test_everything_selects_the_pods(manifest):
    labels = manifest["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifest["Service"]["spec"]["selector"] == labels
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert manifest[kind]["spec"]["selector"]["matchLabels"] == labels


def test_ports_are_where_the_server_listens(manifest, container):
    found = options(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for name, flag in (("grpc", "listen"), ("http", "metrics")):
        host, port = found[flag].rsplit(":", 1)
        assert (host, int(port)) == ("0.0.0.0", ports[name]), (
            "kubelet and clients come from outside"
        )
    assert {port["targetPort"] for port in manifest["Service"]["spec"]["ports"]} == set(ports)
    assert {port["port"] for port in manifest["Service"]["spec"]["ports"]} == set(ports.values())
    metadata = manifest["Deployment"]["spec"]["template"]["metadata"]
    assert int(metadata["annotations"]["prometheus.io/port"]) == ports["http"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["grpc"]["port"] == ports["grpc"]


def test_nobody_kills_a_server_that_still_works(pod, container):
    found = options(container["args"])
    most_s = pod["terminationGracePeriodSeconds"]
    assert most_s > found["drain_delay_s"] + found["grace_s"] + END_S
    readiness = container["readinessProbe"]
    hears_s = readiness["periodSeconds"] * readiness["failureThreshold"]
    assert found["drain_delay_s"] > hears_s, "or calls come that nobody answers any more"
    assert "lifecycle" not in container


def test_no_probe_that_kills_asks_for_a_model(container):
    """A folder without models isn't cured by a restart; what isn't ready gets no calls."""
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["grpc"]["service"] == "grpc.health.v1.Health"
    assert not container["readinessProbe"]["grpc"].get("service")


def test_a_stranger_in_the_container_can_do_little(pod, container):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    own = container["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert mounts["models"]["mountPath"] == str(options(container["args"])["models"])
    assert mounts["models"]["readOnly"] is True


def test_cores_are_whole_so_none_is_lost(container):
    for kind in ("requests", "limits"):
        assert int(container["resources"][kind]["cpu"]) >= 1


def test_the_probes_of_the_manifest_are_answered(container, bundle_path):
    """By the command of the manifest, but for the places; and liveness also while it stops."""
    changes = {"--listen": "127.0.0.1:0", "--metrics": "127.0.0.1:0", "--drain-delay-s": "600"}
    arguments = ["serve", str(bundle_path.parents[1])]
    for argument in container["args"][2:]:
        flag, _, value = argument.partition("=")
        arguments.append(f"{flag}={changes.get(flag, value)}")
    command = [sys.executable, "-m", "foretell.cli.main", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = (json.loads(line)["message"] for line in process.stderr)
            address, http = (
                next(line for line in said if words in line).split(words)[1]
                for words in ("listening on ", "metrics at ")
            )
            with grpc.insecure_channel(address) as channel:
                stub = health_pb2_grpc.HealthStub(channel)

                def ask(probe):
                    service = container[probe]["grpc"].get("service", "")
                    return stub.Check(health_pb2.HealthCheckRequest(service=service)).status

                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    assert ask(probe) == SERVING
                urllib.request.urlopen(f"{http}/metrics").close()
                process.send_signal(signal.SIGTERM)
                assert next(line for line in said if line.startswith("stopping"))
                for status in stub.Watch(health_pb2.HealthCheckRequest(service="")):
                    if status.status != SERVING:
                        break
                assert ask("readinessProbe") != SERVING
                assert ask("livenessProbe") == SERVING
            process.send_signal(signal.SIGTERM)  # a second one ends the delay
            process.stderr.read()
            assert process.wait() == 0
        finally:
            process.kill()


def test_every_instruction_is_one(dockerfile):
    known = {"FROM", "COPY", "RUN", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {name for stage in dockerfile for name, _ in stage} <= known
    assert len(dockerfile) == 2, "what builds stays behind"
    for stage in dockerfile:
        assert re.fullmatch(r"python:3\.\d+-slim( AS build)?", stage[0][1])
        minor = int(re.search(r"3\.(\d+)", stage[0][1])[1])
        assert minor >= int(PROJECT["project"]["requires-python"].removeprefix(">=3."))


def test_what_is_copied_is_there_and_enough_for_a_base_install(dockerfile):
    """`.ci/run` installs the same without torch, and serves with it."""
    build = dockerfile[0]
    copied = {}
    for name, rest in build:
        if name == "COPY":
            *sources, target = shlex.split(rest)
            for source in sources:
                assert (ROOT / source).exists()
                copied[source] = target.rstrip("/").removeprefix("/source").strip("/")
    folders = set(PROJECT["tool"]["setuptools"]["package-dir"].values())
    assert folders <= copied.keys()
    assert all(copied[folder] == folder for folder in folders)
    asked = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert asked == copied.keys() - folders
    install = next(rest for name, rest in build if name == "RUN" and "pip install" in rest)
    assert install.split()[-1] == "/source", "no extra: torch has no business here"
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert ignore[0] == "*"
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    assert copied.keys() == allowed
    assert any(fnmatch("data/__pycache__", line) for line in ignore)


def test_the_image_runs_the_server_as_nobody_of_importance(dockerfile, pod, container):
    run = {name: rest for name, rest in dockerfile[1] if name not in {"ENV", "COPY", "RUN"}}
    entry = json.loads(run["ENTRYPOINT"])
    assert entry == [next(iter(PROJECT["project"]["scripts"]))]
    found = options(json.loads(run["CMD"]))
    ports = {int(found[flag].rsplit(":", 1)[1]) for flag in ("listen", "metrics")}
    assert set(map(int, run["EXPOSE"].split())) == ports
    assert {port["containerPort"] for port in container["ports"]} == ports
    assert found["models"] == options(container["args"])["models"]
    user = pod["securityContext"]
    assert run["USER"] == f"{user['runAsUser']}:{user['runAsGroup']}"
    created = next(rest for name, rest in dockerfile[1] if name == "RUN" and "useradd" in rest)
    assert f"--uid {user['runAsUser']} " in created
    assert run["STOPSIGNAL"] == "SIGTERM"
    copied = next(rest for name, rest in dockerfile[1] if name == "COPY")
    assert copied.startswith("--from=build /opt/foretell ")
