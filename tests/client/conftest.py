"""Real servers to ask, over forecasters without a graph or real bundles; both clients alike."""

import asyncio
import runpy
from contextlib import contextmanager
from pathlib import Path

import pytest

from foretell.client import AsyncClient, Client
from foretell.runtime import load
from foretell.server.background import serve_in_background
from foretell.server.options import ServerOptions
from foretell.server.repository import Repository
from foretell.server.served import Model

FAKE = Path(__file__).parents[1] / "server" / "fake_forecaster.py"
FakeForecaster = runpy.run_path(str(FAKE))["FakeForecaster"]


@pytest.fixture
def make_forecaster():
    return FakeForecaster


@contextmanager
def serve(max_message_bytes=64 * 2**20, workers=2, **forecasters):
    options = ServerOptions(
        listen="127.0.0.1:0", max_message_bytes=max_message_bytes, workers=workers
    )
    models = [Model(name, 1, forecaster) for name, forecaster in forecasters.items()]
    with serve_in_background(Repository(models), options) as address:
        yield address


@pytest.fixture(scope="session")
def serving():
    """A context manager that serves forecasters, by name, and yields the server's address."""
    return serve


def ask_sync(address, *arguments, options=None, **keywords):
    with Client(address, **options or {}) as client:
        return client.forecast(*arguments, **keywords)


def ask_async(address, *arguments, options=None, **keywords):
    async def ask():
        async with AsyncClient(address, **options or {}) as client:
            return await client.forecast(*arguments, **keywords)

    return asyncio.run(ask())


@pytest.fixture(params=[ask_sync, ask_async], ids=["sync", "asyncio"])
def ask(request):
    """Asks a server for forecasts of a table, through either client."""
    return request.param


@pytest.fixture(scope="session")
def tiny(bundle_path):
    return load(bundle_path, device="cpu", threads=1)


@pytest.fixture(scope="session")
def tiny_covariates(covariate_bundle_path):
    return load(covariate_bundle_path, device="cpu", threads=1)
