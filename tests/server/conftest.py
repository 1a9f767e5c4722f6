"""A real gRPC server over models without a graph, and the raw stubs to ask it with."""

import runpy
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest

from foretell.protos.arrays import pack_doubles, pack_integers
from foretell.protos.v1.arrays_pb2 import StampKind
from foretell.protos.v1.forecaster_pb2 import ForecastRequest, Future, History, NamedDoubles
from foretell.server import application
from foretell.server.access.certificates import read_certificates
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

# Test folders are no packages; the fakes are also used outside this folder.
FAKES = Path(__file__).parent
FakeForecaster = runpy.run_path(str(FAKES / "fake_forecaster.py"))["FakeForecaster"]
FakeTranslator = runpy.run_path(str(FAKES / "fake_translator.py"))["FakeTranslator"]
DAY_NS = 86_400_000_000_000


@pytest.fixture
def make_forecaster():
    return FakeForecaster


@pytest.fixture
def make_translator():
    return FakeTranslator


@pytest.fixture
def impatient(monkeypatch):
    """Servers look at their files at every connection, not at most once a second."""
    monkeypatch.setattr(
        application,
        "read_certificates",
        lambda security: read_certificates(security, check_every_s=0),
    )


@pytest.fixture
def serving():
    """A context manager that serves models, by name, and yields a channel to them."""

    @contextmanager
    def serve(**models):
        options = models.pop("options", ServerOptions(listen="127.0.0.1:0"))
        models = [Model(name, 1, model) for name, model in models.items()]
        with (
            serve_in_background(Repository(models), options) as address,
            grpc.insecure_channel(
                address, options=[("grpc.max_receive_message_length", -1)]
            ) as channel,
        ):
            yield channel

    return serve


@pytest.fixture
def watching():
    """A context manager that serves models, and yields a channel and the address of HTTP."""

    @contextmanager
    def serve(failures=(), **models):
        addresses = []
        more = models.pop("options", {})
        repository = Repository([Model(name, 1, one) for name, one in models.items()], failures)
        options = ServerOptions(listen="127.0.0.1:0", metrics="127.0.0.1:0", **more)
        with (
            serve_in_background(repository, options, on_status=addresses.append) as address,
            grpc.insecure_channel(address) as channel,
        ):
            yield channel, addresses[0]

    return serve


@pytest.fixture
def make_request():
    """Makes requests of daily series from lists of values, readable by default."""

    def make(series, *, raw=False, horizon=3, covariates=None, static=None, future=None, **fields):
        lengths = np.array([len(values) for values in series.values()], np.int64)
        days = np.concatenate([np.arange(length) for length in lengths] or [[]]).astype(np.int64)
        request = ForecastRequest(
            horizon=horizon,
            raw_answer=raw,
            frequency="D",  # two rows may also be business days
            history=History(
                ids=list(series),
                lengths=pack_integers(lengths, raw=raw),
                stamps=pack_integers(days * DAY_NS, raw=raw),
                stamp_kind=StampKind.STAMP_KIND_NAIVE,
                target=pack_doubles(
                    np.concatenate([np.array(v, float) for v in series.values()] or [[]]), raw=raw
                ),
                covariates=_columns(covariates, raw),
                static=_columns(static, raw),
            ),
            **fields,
        )
        if future is not None:
            steps = np.concatenate([n + np.arange(horizon) for n in lengths])
            request.future.CopyFrom(
                Future(
                    ids=list(series),
                    lengths=pack_integers(np.full(len(series), horizon), raw=raw),
                    stamps=pack_integers(steps * DAY_NS, raw=raw),
                    covariates=_columns(future, raw),
                )
            )
        return request

    return make


def _columns(columns, raw):
    return [
        NamedDoubles(name=name, values=pack_doubles(np.array(values, float), raw=raw))
        for name, values in (columns or {}).items()
    ]
