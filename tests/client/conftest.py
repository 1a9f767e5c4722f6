"""Real servers to ask, over models without a graph or real bundles; both clients alike."""

import asyncio
import runpy
from contextlib import contextmanager
from pathlib import Path

import pytest

from foretell.client import AsyncClient, Client
from foretell.runtime import load
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

FAKES = Path(__file__).parents[1] / "server"
FakeForecaster = runpy.run_path(str(FAKES / "fake_forecaster.py"))["FakeForecaster"]
FakeTranslator = runpy.run_path(str(FAKES / "fake_translator.py"))["FakeTranslator"]


@pytest.fixture
def make_forecaster():
    return FakeForecaster


@pytest.fixture
def make_translator():
    return FakeTranslator


@contextmanager
def serve(max_message_bytes=64 * 2**20, instances=2, max_sentences=1024, max_queue=256, **models):
    options = ServerOptions(
        listen="127.0.0.1:0",
        max_message_bytes=max_message_bytes,
        instances=instances,
        max_sentences=max_sentences,
        max_queue=max_queue,
    )
    models = [Model(name, 1, model) for name, model in models.items()]
    with serve_in_background(Repository(models), options) as address:
        yield address


@pytest.fixture(scope="session")
def serving():
    """A context manager that serves models, by name, and yields the server's address."""
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


def answers_sync(address, method, *arguments, options=None, **keywords):
    with Client(address, **options or {}) as client:
        answer = getattr(client, method)(*arguments, **keywords)
        return list(answer) if method == "translate_stream" else answer


def answers_async(address, method, *arguments, options=None, **keywords):
    async def ask():
        async with AsyncClient(address, **options or {}) as client:
            answer = getattr(client, method)(*arguments, **keywords)
            if method == "translate_stream":
                return [event async for event in answer]
            return await answer

    return asyncio.run(ask())


@pytest.fixture(params=[answers_sync, answers_async], ids=["sync", "asyncio"])
def call(request):
    """Calls a method of either client: server, method, arguments; a stream's events as a list."""
    return request.param


@pytest.fixture(scope="session")
def tiny(bundle_path):
    return load(bundle_path, device="cpu", threads=1)


@pytest.fixture(scope="session")
def tiny_covariates(covariate_bundle_path):
    return load(covariate_bundle_path, device="cpu", threads=1)
