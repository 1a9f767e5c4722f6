"""Servers to be asked by other people's clients, and the programs that ask."""

import importlib.util
import os
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

FOLDER = Path(__file__).parent
LINKS = FOLDER.parents[1] / "build" / "typing"
FAKES = FOLDER.parent / "server"


@pytest.fixture(scope="session")
def environment():
    """The module that makes the environments."""
    spec = importlib.util.spec_from_file_location("environment", FOLDER / "environment.py")
    environment = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(environment)
    return environment


@pytest.fixture(scope="session")
def programs(environment):
    """The folder of programs where the clients are installed."""
    try:
        return environment.make()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"pip can't install the clients: {environment.reason_of(error)}")


@pytest.fixture(scope="session")
def node_modules(environment):
    """The folder where the clients in Node are installed."""
    if shutil.which("node") is None:
        pytest.skip("there is no Node")
    try:
        return environment.make_node()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"npm can't install the clients: {environment.reason_of(error)}")


@pytest.fixture
def address():
    """Of a server with a forecaster, `demand`, and a translator, `ende`, both without a graph."""
    make_forecaster = runpy.run_path(str(FAKES / "fake_forecaster.py"))["FakeForecaster"]
    make_translator = runpy.run_path(str(FAKES / "fake_translator.py"))["FakeTranslator"]
    models = [Model("demand", 1, make_forecaster()), Model("ende", 1, make_translator())]
    with serve_in_background(Repository(models), ServerOptions(listen="127.0.0.1:0")) as address:
        yield address


@pytest.fixture
def run(programs):
    """Run a program of that environment, or a script of this folder with its Python."""

    def run(program, *arguments):
        command = (
            [programs / "python", FOLDER / program]
            if program.endswith(".py")
            else [programs / program]
        )
        # The link farm of the type checker has foretell.protos without the rest of foretell.
        return finish([*command, *arguments], PYTHONPATH=str(LINKS))

    return run


@pytest.fixture
def run_node(node_modules):
    """Run a script of this folder with Node."""

    def run(script, *arguments):
        return finish(["node", FOLDER / script, *arguments], NODE_PATH=str(node_modules))

    return run


def finish(command, **environment):
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
