"""Requests for forecasts: stamps, lengths, columns, levels, zones."""

import runpy
from contextlib import suppress
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from foretell.protos.arrays import pack_doubles, pack_integers
from foretell.protos.v1 import forecaster_pb2 as wire
from foretell.protos.v1.arrays_pb2 import StampKind
from foretell.server.errors import RequestError
from foretell.server.options import ServerOptions
from foretell.server.services.forecaster_codec import answer_bytes, read_request

FAKES = Path(__file__).resolve().parents[2] / "server"
SPEC = runpy.run_path(str(FAKES / "fake_forecaster.py"))["make_manifest"](
    future_covariates=("promo",), past_covariates=("visits",), static=("size",)
).forecaster
LIMITS = ServerOptions(max_series=50, max_steps=500)


def request(stamp_kind, zone="", frequency="", *, raw):
    """Two series of three steps, with all that a request can hold."""
    stamps = np.array([0, 1, 2, 5, 6, 7]) * (86_400_000_000_000 if stamp_kind < 3 else 1)
    column = pack_doubles(np.arange(6.0), raw=raw)
    known = pack_doubles(np.arange(4.0), raw=raw)
    return wire.ForecastRequest(
        model="demand",
        horizon=2,
        quantile_levels=pack_doubles(np.array([0.1, 0.5])),
        frequency=frequency,
        history=wire.History(
            ids=["a", "b"],
            lengths=pack_integers(np.array([3, 3]), raw=raw),
            stamps=pack_integers(stamps, raw=raw),
            stamp_kind=stamp_kind,
            time_zone=zone,
            target=pack_doubles(np.array([1.0, np.nan, 2, 3, 4, 5]), raw=raw),
            covariates=[
                wire.NamedDoubles(name=name, values=column) for name in ("promo", "visits")
            ],
            static=[wire.NamedDoubles(name="size", values=pack_doubles(np.ones(2), raw=raw))],
        ),
        future=wire.Future(
            ids=["a", "b"],
            lengths=pack_integers(np.array([2, 2]), raw=raw),
            stamps=pack_integers(np.array([3, 4, 8, 9]), raw=raw),
            covariates=[wire.NamedDoubles(name="promo", values=known)],
            unread=[wire.SeriesError(position=2, unique_id="c", reason="it is bad")],
        ),
    )


def seeds():
    """Requests of every kind of stamp."""
    yield b""
    for raw in (True, False):
        for kind, zone, frequency in (
            (StampKind.STAMP_KIND_NAIVE, "", "D"),
            (StampKind.STAMP_KIND_ZONED, "Europe/Berlin", ""),
            (StampKind.STAMP_KIND_INTEGER, "", "1"),
        ):
            yield request(kind, zone, frequency, raw=raw).SerializeToString()


def parts(data):
    """What stands before the message, and the message."""
    return b"", wire.ForecastRequest.FromString(data)


def read(data):
    """Read it or refuse it."""
    with suppress(DecodeError, RequestError):
        task = read_request(wire.ForecastRequest.FromString(data), SPEC, LIMITS)
        rows = task.rows
        assert len(rows.indptr) == len(rows.ids) + 1
        assert rows.indptr[-1] == len(rows.target) == len(rows.stamps) <= len(data)
        assert answer_bytes(len(rows.ids), task.options) >= 0
