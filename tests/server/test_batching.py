"""Requests of many callers in one batch: each gets its own answer, and the one it gets alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.text.number_words import english_words
from foretell.protos.arrays import unpack_doubles
from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.runtime import load
from foretell.server.options import ServerOptions

WAIT_S = 120.0
ONE = ServerOptions(listen="127.0.0.1:0", instances=1)
OPTIONS = [
    None,
    wire.TranslateOptions(beam_size=1),
    wire.TranslateOptions(beam_size=4, n_best=3, attention=True),
    wire.TranslateOptions(beam_size=1, sample=True, seed=5),
    wire.TranslateOptions(beam_size=4, banned=["zwei"], max_length=6),
]


def test_what_queued_while_busy_is_one_batch_and_a_bad_sentence_hurts_nobody(
    serving, make_translator
):
    begun, go_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        assert go_on.wait(WAIT_S)

    translator = make_translator(before_step=hold, max_source_length=4)
    with serving(ende=translator, options=ONE) as channel:
        stub = TranslatorStub(channel)
        first = stub.Translate.future(wire.TranslateRequest(sentences=["first"]))
        assert begun.wait(WAIT_S)
        requests = [[f"a{at}", "b c d e" if at == 2 else f"f{at}"] for at in range(5)]
        answers = [stub.Translate.future(wire.TranslateRequest(sentences=r)) for r in requests]
        while len(translator.calls) < 6:
            assert not first.done()
        # All have been read; the last one's rows may still be on their way to the queue.
        go_on.set()
        responses = [answer.result(WAIT_S) for answer in answers]
    assert translator.batches[0] == 1
    assert max(translator.batches) >= 8
    for at, response in enumerate(responses):
        found = {one.position: one.hypotheses[0].text for one in response.translations}
        if at == 2:
            assert found == {0: "2a"}
            assert [error.position for error in response.errors] == [1]
        else:
            assert found == {0: f"{at}a", 1: f"{at}f"}
            assert not response.errors


@settings(max_examples=5)
@given(st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=5), min_size=1, max_size=30))
def test_every_row_returns_to_its_own_caller(serving_module, callers):
    stub = serving_module

    def ask(numbers):
        sentences = [f"a{number}" for number in numbers]
        response = stub.Translate(wire.TranslateRequest(sentences=sentences), timeout=WAIT_S)
        return [one.hypotheses[0].text[::-1] for one in response.translations]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, callers))
    assert found == [[f"a{number}" for number in numbers] for numbers in callers]


@pytest.fixture(scope="module")
def serving_module():
    import runpy
    from pathlib import Path

    import grpc

    from foretell.server.background import serve_in_background
    from foretell.server.models.repository import Repository
    from foretell.server.models.served import Model

    fake = runpy.run_path(str(Path(__file__).with_name("fake_translator.py")))["FakeTranslator"]
    with (
        serve_in_background(Repository([Model("ende", 1, fake())])) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield TranslatorStub(channel)


def test_translations_of_many_callers_equal_those_alone(serving, translator_bundle_path):
    requests = [
        wire.TranslateRequest(
            sentences=[english_words(at * 3 + k) for k in range(1 + at % 3)],
            options=[options] if (options := OPTIONS[at % len(OPTIONS)]) else [],
            first_place=at,
            raw_answer=True,
        )
        for at in range(20)
    ]
    with serving(ende=load(translator_bundle_path, device="cpu"), options=ONE) as channel:
        stub = TranslatorStub(channel)
        alone = [stub.Translate(request, timeout=WAIT_S) for request in requests]
        for _ in range(2):
            asked = [stub.Translate.future(request, timeout=WAIT_S) for request in requests]
            assert [answer.result() for answer in asked] == alone


def test_forecasts_of_many_callers_equal_those_alone(serving, bundle_path, make_request):
    rng = np.random.default_rng(0)
    requests = [
        make_request(
            {str(k): rng.normal(size=2 + (at * 5 + k) % 60).cumsum() for k in range(1 + at % 4)},
            horizon=3 + at % 2,
            raw=True,
        )
        for at in range(20)
    ]
    with serving(demand=load(bundle_path, device="cpu"), options=ONE) as channel:
        stub = ForecasterStub(channel)
        alone = [stub.Forecast(request, timeout=WAIT_S) for request in requests]
        asked = [stub.Forecast.future(request, timeout=WAIT_S) for request in requests]
        together = [answer.result() for answer in asked]
    assert together == alone
    assert np.isfinite(unpack_doubles(alone[0].forecast, "", [])).all()
