"""Real bundles behind the server: whole ones are served, damaged ones never."""

import hashlib
import json
import shutil
from dataclasses import replace
from functools import partial

import grpc
import numpy as np
import pytest

from foretell.data.bundles.bundle import Manifest, read_bundle
from foretell.data.errors import BundleError
from foretell.protos.arrays import unpack_doubles
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import DescribeModelRequest, ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2 import TranslateRequest
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.runtime import load
from foretell.server.background import serve_in_background
from foretell.server.models.loading import load_warm
from foretell.server.models.repository import Repository

load_on_cpu = partial(load, device="cpu", threads=1)


@pytest.fixture
def models(tmp_path, bundle_path):
    """A repository of its own, to be damaged."""
    shutil.copytree(bundle_path, tmp_path / "models/tiny/1")
    return tmp_path / "models"


def empty(graph):
    graph.write_bytes(b"")


def keep_one_byte(graph):
    graph.write_bytes(graph.read_bytes()[:1])


def cut_in_half(graph):
    graph.write_bytes(graph.read_bytes()[: graph.stat().st_size // 2])


def lose_the_last_byte(graph):
    graph.write_bytes(graph.read_bytes()[:-1])


def flip_a_byte(graph):
    content = bytearray(graph.read_bytes())
    content[len(content) // 2] ^= 1
    graph.write_bytes(content)


def remove(graph):
    graph.unlink()


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (empty, "incomplete"),
        (keep_one_byte, "incomplete"),
        (cut_in_half, "incomplete"),
        (lose_the_last_byte, "incomplete"),
        (flip_a_byte, "damaged"),
        (remove, "missing"),
    ],
)
def test_a_damaged_bundle_is_never_served(models, damage, word):
    damage(models / "tiny/1/forecaster.onnx")
    with pytest.raises(BundleError, match=rf"forecaster\.onnx is {word}"):
        Repository.load(models, load_on_cpu)


def test_a_good_older_version_serves_and_the_list_tells_why(models, make_request):
    shutil.copytree(models / "tiny/1", models / "tiny/2")
    cut_in_half(models / "tiny/2/forecaster.onnx")
    with (
        serve_in_background(Repository.load(models, load_on_cpu)) as address,
        grpc.insecure_channel(address) as channel,
    ):
        good, bad = ModelsStub(channel).List(ListModelsRequest()).models
        response = ForecasterStub(channel).Forecast(make_request({"a": [5.0] * 30}))
    assert (good.version, good.state) == (1, good.STATE_READY)
    assert (bad.version, bad.state) == (2, bad.STATE_FAILED)
    assert "forecaster.onnx is incomplete" in bad.reason
    assert str(models) not in bad.reason
    assert response.version == 1


@pytest.mark.parametrize("bundle", ["bundle_path", "translator_bundle_path"])
def test_a_version_that_answers_its_own_sample_otherwise_never_serves(bundle, request, tmp_path):
    """So what serves has answered before anybody asks: warm, and rightly, on this very machine."""
    for version in ("1", "2"):
        shutil.copytree(request.getfixturevalue(bundle), tmp_path / "tiny" / version)
    path = tmp_path / "tiny" / "2"
    sample = path / "sample.json"
    told = json.loads(sample.read_text())
    answers = told if "quantiles" in told else told["searches"][0]["answers"][0]
    name = "quantiles" if "quantiles" in told else "log_probs"
    answers[name] = [number * 1.1 - 0.1 for number in answers[name]]
    sample.write_text(json.dumps(told))
    manifest = Manifest.from_json((path / "manifest.json").read_text())
    entry = replace(
        manifest.files["sample.json"],
        sha256=hashlib.sha256(sample.read_bytes()).hexdigest(),
        size_bytes=sample.stat().st_size,
    )
    files = {**manifest.files, "sample.json": entry}
    (path / "manifest.json").write_text(replace(manifest, files=files).to_json())
    read_bundle(path)  # every byte is as the manifest says; only the answer is wrong
    repository = Repository.load(tmp_path, partial(load_warm, device="cpu", threads=1))
    assert repository.models["tiny"].version == 1
    (failure,) = repository.failures
    assert "the answer to its own sample differs" in failure.reason


def test_one_hostile_manifest_leaves_the_other_models_served(models):
    """Its nesting ended the whole server by a RecursionError."""
    shutil.copytree(models / "tiny", models / "hostile")
    (models / "hostile/1/manifest.json").write_text("[" * 100_000)
    repository = Repository.load(models, load_on_cpu)
    assert list(repository.models) == ["tiny"]
    assert "manifest.json" in repository.failures[0].reason


def test_half_of_a_batch_is_bad(models, make_request):
    """With a real graph: constants stay themselves, and each bad series has its reason."""
    series = {
        "good0": [5.0] * 30,
        "empty": [],
        "good1": [9.0] * 30,
        "has_inf": [1, 2, float("inf"), 4],
        "good2": [0.0] * 30,
    }
    repository = Repository.load(models, load_on_cpu)
    with (
        serve_in_background(repository) as address,
        grpc.insecure_channel(address) as channel,
    ):
        response = ForecasterStub(channel).Forecast(make_request(series, raw=True))
    forecast = unpack_doubles(response.forecast, "forecast", [])
    np.testing.assert_array_equal(forecast, [5, 5, 5, 9, 9, 9, 0, 0, 0])
    assert [(error.position, error.unique_id) for error in response.errors] == [
        (1, "empty"),
        (3, "has_inf"),
    ]
    assert response.provider == "CPUExecutionProvider"


def test_both_kinds_are_served_side_by_side(
    models, translator_bundle_path, recurrent_bundle_path, make_request
):
    shutil.copytree(translator_bundle_path, models / "ende/3")
    shutil.copytree(recurrent_bundle_path, models / "old_ende/1")
    request = TranslateRequest(model="ende", sentences=["one", "", "one " * 999])
    with (
        serve_in_background(Repository.load(models, load_on_cpu)) as address,
        grpc.insecure_channel(address) as channel,
    ):
        described = [
            ModelsStub(channel).Describe(DescribeModelRequest(model=model.name))
            for model in ModelsStub(channel).List(ListModelsRequest()).models
        ]
        response = TranslatorStub(channel).Translate(request)
        ForecasterStub(channel).Forecast(make_request({"a": [5.0] * 30}, model="tiny"))
    assert [(one.name, one.kind, one.translator.arch) for one in described] == [
        ("ende", "translator", "transformer"),
        ("old_ende", "translator", "recurrent"),
        ("tiny", "forecaster", ""),
    ]
    assert response.version == 3
    assert [one.position for one in response.translations] == [0, 1]
    assert [one.position for one in response.errors] == [2]


@pytest.mark.parametrize("file", ["encoder.onnx", "decoder.onnx", "tokenizer.model"])
@pytest.mark.parametrize(("damage", "word"), [(cut_in_half, "incomplete"), (remove, "missing")])
def test_a_damaged_translator_is_passed_over_for_an_older_one(
    tmp_path, recurrent_bundle_path, file, damage, word
):
    for version in (1, 2):
        shutil.copytree(recurrent_bundle_path, tmp_path / f"ende/{version}")
    damage(tmp_path / "ende/2" / file)
    repository = Repository.load(tmp_path, load_on_cpu)
    assert repository.models["ende"].version == 1
    assert f"{file} is {word}" in repository.failures[0].reason
