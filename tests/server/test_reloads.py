"""A model that is replaced is gone: nothing of it stays, neither memory nor threads."""

import gc
import shutil
import threading
import time
import weakref
from functools import partial

import pandas as pd
import pytest

from foretell.client import Client
from foretell.server.background import serve_in_background
from foretell.server.models.loading import load_warm
from foretell.server.models.repository import ModelControl, Repository

DAYS = pd.date_range("2024-01-01", periods=60)
TABLE = pd.DataFrame({"unique_id": "a", "ds": DAYS, "y": range(60)})


def ask_forecaster(client):
    client.forecast(TABLE, horizon=3)


def ask_translator(client):
    client.translate(["one"])
    assert list(client.translate_stream("two"))


@pytest.mark.parametrize(
    ("bundle", "ask"),
    [("bundle_path", ask_forecaster), ("translator_bundle_path", ask_translator)],
)
def test_nothing_of_a_replaced_model_stays(bundle, ask, tmp_path, request):
    models = tmp_path / "model"
    bundle = request.getfixturevalue(bundle)
    shutil.copytree(bundle, models / "1")
    shutil.copytree(bundle, models / "2")
    load = partial(load_warm, device="cpu", threads=1)
    control = ModelControl(mode="explicit")
    repository = Repository.load(models, load, control=control, keep_s=0.0)
    is_one_left = threading.Event()
    repository.subscribe(lambda: len(repository.statuses()) == 1 and is_one_left.set())
    seen, threads = [], []
    with serve_in_background(repository) as address, Client(address) as client:
        for turn in range(6):
            ask(client)
            seen.append(weakref.ref(repository.get("model", 0).served))
            is_one_left.clear()
            client.load_model("model", 1 + turn % 2)
            assert is_one_left.wait(120)
            threads.append(threading.active_count())
        gc.collect()
        assert [model() for model in seen[:-1]] == [None] * 5
        # The first turns start threads that stay: those that read requests, for instance. Those of
        # a replaced model end when it goes, which takes them a moment.
        end = time.monotonic() + 60
        while threading.active_count() > max(threads[:3]) and time.monotonic() < end:
            time.sleep(0.05)
        assert threading.active_count() <= max(threads[:3])


def test_a_version_that_can_not_be_loaded_leaves_nothing(tmp_path, bundle_path):
    models = tmp_path / "model"
    shutil.copytree(bundle_path, models / "1")
    shutil.copytree(bundle_path, models / "2")
    graph = models / "2/forecaster.onnx"
    graph.write_bytes(graph.read_bytes()[:-1])
    threads = threading.active_count()
    repository = Repository.load(models, partial(load_warm, device="cpu", threads=1))
    assert repository.get("model", 0).version == 1
    assert threading.active_count() <= threads + 1  # of the session that serves
