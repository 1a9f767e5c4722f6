"""HD01: messages around and above gRPC's own 4 MiB, up to the server's limit and beyond it."""

import shutil

import grpc
import numpy as np
import pytest

from foretell.cli.main import run
from foretell.client import Client
from foretell.protos.arrays import pack_doubles, pack_integers, unpack_doubles
from foretell.protos.v1 import forecaster_pb2, translator_pb2
from foretell.protos.v1.arrays_pb2 import StampKind
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.runtime import load
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.options import MIB, ServerOptions

OPEN = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
DAY_NS = 86_400_000_000_000


@pytest.fixture(scope="module")
def house(bundle_path, translator_bundle_path, tmp_path_factory):
    """A folder with a forecaster and a translator."""
    root = tmp_path_factory.mktemp("house")
    shutil.copytree(bundle_path, root / "demand" / "1")
    shutil.copytree(translator_bundle_path, root / "ende" / "1")
    return root


def serving(house, **options):
    repository = Repository.load(house, lambda path: load(path, device="cpu", threads=2))
    return serve_in_background(repository, ServerOptions(listen="127.0.0.1:0", **options))


@pytest.fixture(scope="module")
def roomy(house):
    """A channel to a server with the limits that it has by itself."""
    with serving(house) as address, grpc.insecure_channel(address, options=OPEN) as channel:
        yield channel


def signs(size_bytes: int) -> list[str]:
    """Lines that need no model: they have no words, and come back as they are."""
    return ["-" * (size_bytes // 1000 + at % 10) for at in range(1000)]


@pytest.mark.parametrize("mib", [3.9, 4.1, 20])
def test_hd01_a_large_request_is_answered_and_its_large_answer_comes_back(roomy, mib):
    lines = signs(int(mib * MIB))
    request = translator_pb2.TranslateRequest(model="ende", sentences=lines)
    assert request.ByteSize() > mib * 0.99 * MIB
    answer = TranslatorStub(roomy).Translate(request, timeout=120)
    found = [one.hypotheses[0].text for one in answer.translations]
    assert found == lines
    assert answer.ByteSize() > request.ByteSize() * 0.99


def test_hd01_a_small_request_may_have_an_answer_of_55_mib(roomy):
    series, rows, horizon, levels = 400, 30, 1700, np.linspace(0.1, 0.9, 9)
    days = np.tile(np.arange(rows, dtype=np.int64) * DAY_NS, series)
    request = forecaster_pb2.ForecastRequest(
        model="demand",
        horizon=horizon,
        raw_answer=True,
        frequency="D",
        quantile_levels=pack_doubles(levels, raw=True),
        history=forecaster_pb2.History(
            ids=[f"s{at}" for at in range(series)],
            lengths=pack_integers(np.full(series, rows, np.int64), raw=True),
            stamps=pack_integers(days, raw=True),
            stamp_kind=StampKind.STAMP_KIND_NAIVE,
            target=pack_doubles(np.sin(np.arange(float(series * rows))), raw=True),
        ),
    )
    assert request.ByteSize() < MIB
    answer = ForecasterStub(roomy).Forecast(request, timeout=300)
    assert not answer.errors
    assert answer.ByteSize() > 55 * MIB
    found = unpack_doubles(answer.quantiles, "quantiles", [])
    assert found.shape == (series * horizon * len(levels),)
    assert np.isfinite(found).all()


def test_hd01_above_the_limit_both_sizes_are_told_and_nobody_else_is_hurt(house):
    with (
        serving(house, max_message_bytes=MIB) as address,
        grpc.insecure_channel(address, options=OPEN) as channel,
    ):
        stub = TranslatorStub(channel)
        small = translator_pb2.TranslateRequest(model="ende", sentences=signs(MIB)[:100])
        neighbour = stub.Translate.future(small, timeout=120)
        large = translator_pb2.TranslateRequest(model="ende", sentences=signs(2 * MIB))
        with pytest.raises(grpc.RpcError) as caught:
            stub.Translate(large, timeout=120)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert str(MIB) in caught.value.details()
        assert f"{large.ByteSize()}" in caught.value.details()
        assert len(neighbour.result().translations) == 100
        assert len(stub.Translate(small, timeout=120).translations) == 100


def test_hd01_client_and_command_cut_a_large_job_and_keep_its_order(house, tmp_path):
    """Of a server with little room; they ask it for its limit, and nobody has to set anything."""
    lines = signs(3 * MIB)
    lines[::100] = ["twenty one", "seven"] * 5
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    right = [one.text for one in load(house / "ende", device="cpu").translate(lines)]
    with serving(house, max_message_bytes=MIB) as address:
        with Client(address) as client:
            assert [one.text for one in client.translate(lines, model="ende")] == right
        call = ["translate", tmp_path / "in.txt", "--server", address, "--model", "ende"]
        assert run([*map(str, call), "--output", str(tmp_path / "out.txt")]) == 0
    assert (tmp_path / "out.txt").read_text().splitlines() == right
