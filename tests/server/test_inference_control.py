"""The Open Inference Protocol where models come and go, and where there is too much to do."""

import runpy
import threading
import time
from pathlib import Path

import grpc
import pytest

from foretell.data.errors import BundleError
from foretell.protos.inference import inference_pb2 as wire
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub
from foretell.server.background import serve_in_background
from foretell.server.models.repository import ModelControl, Repository
from foretell.server.options import ServerOptions

REQUESTS = runpy.run_path(str(Path(__file__).with_name("inference_requests.py")))
ask, read, refused = (REQUESTS[name] for name in ("ask", "read", "refused"))


@pytest.fixture
def folder(tmp_path):
    for version in ("ende/1", "ende/2", "other/1"):
        (tmp_path / version).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def stub(folder, make_translator):
    """Of a server whose callers may change its models; a version named "3" is damaged."""

    def load(path):
        if path.name == "3":
            raise BundleError(f"bundle {path} is damaged.")
        return make_translator()

    repository = Repository.load(folder, load, control=ModelControl(mode="explicit"))
    with (
        serve_in_background(repository) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield GRPCInferenceServiceStub(channel)


def states(stub):
    index = stub.RepositoryIndex(wire.RepositoryIndexRequest()).models
    return {(one.name, one.version): one.state for one in index}


def is_ready(stub, name="ende", version=""):
    return stub.ModelReady(wire.ModelReadyRequest(name=name, version=version)).ready


@pytest.mark.parametrize("field", ["model_name", "repository_name"])
def test_models_are_unloaded_and_loaded_by_both_layouts(stub, field):
    """Triton's clients name the model in one field, KServe's in another."""
    unload = wire.RepositoryModelUnloadRequest(**{field: "ende"})
    unload.parameters["unload_dependents"].bool_param = False  # as tritonclient always sends it
    told = stub.RepositoryModelUnload(unload)
    assert (told.model_name, told.isUnloaded) == ("ende", True)
    assert not is_ready(stub)
    assert stub.ServerReady(wire.ServerReadyRequest()).ready, "what happens to one is its own"
    refused(lambda: stub.ModelInfer(ask("ende", sentences=["a"])), grpc.StatusCode.NOT_FOUND)
    told = stub.RepositoryModelLoad(wire.RepositoryModelLoadRequest(**{field: "ende"}))
    assert (told.model_name, told.isLoaded) == ("ende", True)
    assert is_ready(stub, version="2")
    assert read(stub.ModelInfer(ask("ende", sentences=["ab"])))["translations"] == [["ba"]]


def test_a_damaged_version_never_takes_over(stub, folder):
    (folder / "ende" / "3").mkdir()
    text = refused(
        lambda: stub.RepositoryModelLoad(wire.RepositoryModelLoadRequest(model_name="ende")),
        grpc.StatusCode.FAILED_PRECONDITION,
    )
    assert str(folder) not in text
    assert is_ready(stub, version="2")
    assert states(stub)["ende", "2"] == "READY"
    assert states(stub)["ende", "3"] == "UNAVAILABLE"


def listed(stub, name):
    """Of a model, the versions that the index lists: state and reason."""
    index = stub.RepositoryIndex(wire.RepositoryIndexRequest()).models
    return {one.version: (one.state, one.reason) for one in index if one.name == name}


def test_what_was_unloaded_stays_listed_with_the_reason(stub):
    """Whoever looks for a model that doesn't answer must see that it is there, and why not."""
    stub.RepositoryModelUnload(wire.RepositoryModelUnloadRequest(model_name="ende"))
    end = time.monotonic() + 60
    while listed(stub, "ende")["2"][0] != "UNAVAILABLE":  # it may be unloading just now
        assert time.monotonic() < end
        time.sleep(0.01)
    assert list(listed(stub, "ende")) == ["2"]
    assert "unloaded by a caller" in listed(stub, "ende")["2"][1]
    ready = stub.RepositoryIndex(wire.RepositoryIndexRequest(ready=True)).models
    assert {one.name for one in ready if ":" not in one.name} == {"other"}
    stub.RepositoryModelLoad(wire.RepositoryModelLoadRequest(model_name="ende"))
    assert listed(stub, "ende") == {"2": ("READY", "")}


@pytest.mark.parametrize("mode", ["none", "explicit"])
def test_what_a_pin_keeps_away_is_listed_with_the_reason(folder, make_translator, mode):
    control = ModelControl(mode=mode, pins={"ende": 1})
    repository = Repository.load(folder, lambda _: make_translator(), control=control)
    with (
        serve_in_background(repository) as address,
        grpc.insecure_channel(address) as channel,
    ):
        stub = GRPCInferenceServiceStub(channel)
        assert listed(stub, "ende")["1"][0] == "READY"
        assert listed(stub, "ende")["2"] == (
            "UNAVAILABLE",
            "another version is pinned: --pin ende=1.",
        )
        assert list(listed(stub, "other")) == ["1"]
        refused(
            lambda: stub.ModelInfer(ask("ende", version="2", sentences=["a"])),
            grpc.StatusCode.NOT_FOUND,
        )


@pytest.mark.parametrize("name", ["", "nope", "../ende", "ende:encoder", "/", "ende/1"])
def test_what_is_no_name_of_a_model_is_not_found(stub, name):
    """No path leads from the wire to the disk."""
    for call, request in (
        (stub.RepositoryModelLoad, wire.RepositoryModelLoadRequest(model_name=name)),
        (stub.RepositoryModelUnload, wire.RepositoryModelUnloadRequest(model_name=name)),
    ):
        refused(lambda c=call, r=request: c(r), grpc.StatusCode.NOT_FOUND)


def test_a_load_takes_no_parameters(stub):
    """Triton's would bring a model of the caller's own."""
    request = wire.RepositoryModelLoadRequest(model_name="ende")
    request.parameters["config"].string_param = "{}"
    request.parameters["file:1/model.onnx"].bytes_param = b"x"
    refused(
        lambda: stub.RepositoryModelLoad(request),
        grpc.StatusCode.INVALID_ARGUMENT,
        "'config' is not known",
        "'file:1/model.onnx' is not known",
    )


@pytest.fixture
def busy(serving, make_translator):
    """A server with one place to compute and one to wait, and what fills the first until let go."""
    begun, go_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        assert go_on.wait(60)

    options = ServerOptions(listen="127.0.0.1:0", instances=1, max_queue=1)
    with serving(ende=make_translator(before_step=hold), options=options) as channel:
        stub = GRPCInferenceServiceStub(channel)
        first = stub.ModelInfer.future(ask("ende", sentences=["one"]))
        assert begun.wait(60)
        yield stub
        go_on.set()
        assert read(first.result())["translations"] == [["eno"]]


def test_a_requests_own_timeout_holds(busy):
    """In microseconds, as Triton's clients send it; nobody waits for what comes too late."""
    request = ask("ende", sentences=["two"], parameters={"timeout": 50_000})
    refused(
        lambda: busy.ModelInfer(request),
        grpc.StatusCode.DEADLINE_EXCEEDED,
        "Request timeout expired",
    )


def test_a_full_queue_says_so(busy):
    """And when to come again: UNAVAILABLE would send every client to the next server at once."""
    waiting = busy.ModelInfer.future(ask("ende", sentences=["two"]))
    answers = [busy.ModelInfer.future(ask("ende", sentences=["three"])) for _ in range(3)]
    full = [answer for answer in answers if answer.code() is grpc.StatusCode.RESOURCE_EXHAUSTED]
    assert len(full) >= 2
    assert "Exceeds maximum queue size" in full[0].details()
    assert any(key == "grpc-status-details-bin" for key, _ in full[0].trailing_metadata())
    del waiting


def test_a_full_queue_leaves_the_stream_open(busy):
    waiting = busy.ModelInfer.future(ask("ende", sentences=["two"]))
    requests = [ask("ende", request_id=str(n), sentences=["three"]) for n in range(2)]
    parallel = [busy.ModelStreamInfer(iter([request])) for request in requests]
    told = [next(call).infer_response.parameters for call in parallel[1:]]
    assert [one["grpc_code"].string_param for one in told] == ["RESOURCE_EXHAUSTED"]
    del waiting
