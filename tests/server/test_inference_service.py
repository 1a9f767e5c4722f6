"""The Open Inference Protocol as a whole: real gRPC, models without a graph."""

import asyncio
import runpy
from pathlib import Path

import grpc
import numpy as np
import pytest

from foretell.protos.inference import inference_pb2 as wire
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub
from foretell.server.calls.answering import Answering
from foretell.server.calls.request_sizes import RequestSizes
from foretell.server.inference.service import InferenceService
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

REQUESTS = runpy.run_path(str(Path(__file__).with_name("inference_requests.py")))
ask, read, refused = (REQUESTS[name] for name in ("ask", "read", "refused"))


@pytest.fixture
def stub(serving, make_forecaster, make_translator):
    with serving(demand=make_forecaster(), ende=make_translator()) as channel:
        yield GRPCInferenceServiceStub(channel)


def test_the_server_is_there_and_says_what_it_is(stub):
    assert stub.ServerLive(wire.ServerLiveRequest()).live
    assert stub.ServerReady(wire.ServerReadyRequest()).ready
    about = stub.ServerMetadata(wire.ServerMetadataRequest())
    assert about.name == "foretell"
    assert about.version
    assert "statistics" in about.extensions


@pytest.mark.parametrize(
    ("name", "version", "ready"),
    [
        ("ende", "", True),
        ("ende", "1", True),
        ("ende", "2", False),
        ("ende", "0", False),
        ("ende:encoder", "", False),  # this one has no graphs
        ("nope", "", False),
        ("", "", False),
        ("../ende", "", False),
    ],
)
def test_a_model_is_ready_or_not_and_that_is_no_error(stub, name, version, ready):
    request = wire.ModelReadyRequest(name=name, version=version)
    assert stub.ModelReady(request).ready is ready


def test_readiness_and_answers_agree(stub):
    """Or a load balancer sends requests to where nobody answers them."""
    for name, version in (("nope", ""), ("", ""), ("ende", "2"), ("ende", "0")):
        refused(
            lambda n=name, v=version: stub.ModelInfer(ask(n, version=v, sentences=["a"])),
            grpc.StatusCode.NOT_FOUND,
            "Request for unknown model",
            "'ende' (version 1)" if name and version != "0" else "",
        )


@pytest.mark.parametrize("version", ["x", "-1", "1.0", "9" * 40, "１"])
def test_a_version_is_a_number(stub, version):
    for call, request in (
        (stub.ModelInfer, ask("ende", version=version, sentences=["a"])),
        (stub.ModelReady, wire.ModelReadyRequest(name="ende", version=version)),
        (stub.ModelMetadata, wire.ModelMetadataRequest(name="ende", version=version)),
    ):
        refused(lambda c=call, r=request: c(r), grpc.StatusCode.INVALID_ARGUMENT, "version")


def test_metadata_tell_how_to_ask(stub):
    about = stub.ModelMetadata(wire.ModelMetadataRequest(name="demand"))
    assert (about.name, list(about.versions), about.platform) == (
        "demand",
        ["1"],
        "foretell_forecaster",
    )
    assert [(one.name, one.datatype, list(one.shape)) for one in about.inputs] == [
        ("context", "FP64", [-1, -1])
    ]
    assert {one.name for one in about.outputs} == {
        "forecast",
        "quantiles",
        "quantile_levels",
        "errors",
    }
    config = stub.ModelConfig(wire.ModelConfigRequest(name="ende")).config
    assert (config.name, config.max_batch_size) == ("ende", 0)
    assert [(one.name, list(one.dims)) for one in config.input] == [("sentences", [-1])]
    assert config.parameters["kind"].string_value == "translator"
    assert "beam_size" in config.parameters["request_parameters"].string_value.split(",")
    assert "attention" not in config.parameters["request_parameters"].string_value


def test_what_metadata_tell_is_what_comes(stub):
    for name, request in (
        ("demand", ask("demand", context=np.ones((2, 9)))),
        ("ende", ask("ende", sentences=["a b", "c"], parameters={"n_best": 2})),
    ):
        about = stub.ModelMetadata(wire.ModelMetadataRequest(name=name))
        response = stub.ModelInfer(request)
        assert [(one.name, one.datatype) for one in response.outputs] == [
            (one.name, one.datatype) for one in about.outputs
        ]
        for told, came in zip(about.outputs, response.outputs, strict=True):
            assert len(told.shape) == len(came.shape)
            assert all(t in (-1, c) for t, c in zip(told.shape, came.shape, strict=True))


def test_an_error_says_which_request_it_is_of(stub):
    text = refused(
        lambda: stub.ModelInfer(ask("ende", request_id="a-7", parameters={"x": 1})),
        grpc.StatusCode.INVALID_ARGUMENT,
    )
    assert text.startswith("[request id: a-7]")


def test_a_fault_of_ours_tells_nothing(serving, make_translator):
    with serving(ende=make_translator(error=RuntimeError("secret"))) as channel:
        text = refused(
            lambda: GRPCInferenceServiceStub(channel).ModelInfer(ask("ende", sentences=["one"])),
            grpc.StatusCode.INTERNAL,
        )
    assert "secret" not in text


def test_the_index_lists_every_version(stub):
    index = stub.RepositoryIndex(wire.RepositoryIndexRequest()).models
    assert [(one.name, one.version, one.state) for one in index] == [
        ("demand", "1", "READY"),
        ("ende", "1", "READY"),
    ]
    assert index == stub.RepositoryIndex(wire.RepositoryIndexRequest(ready=True)).models
    refused(
        lambda: stub.RepositoryIndex(wire.RepositoryIndexRequest(repository_name="other")),
        grpc.StatusCode.INVALID_ARGUMENT,
        "repository_name",
    )


def test_statistics_count_what_was_answered(stub):
    for _ in range(3):
        stub.ModelInfer(ask("ende", sentences=["one"]))
    everything = stub.ModelStatistics(wire.ModelStatisticsRequest()).model_stats
    assert [one.name for one in everything] == ["demand", "ende"]
    (one,) = stub.ModelStatistics(wire.ModelStatisticsRequest(name="ende")).model_stats
    assert one == everything[1]
    assert (one.name, one.version) == ("ende", "1")
    assert one.inference_stats.success.count == 3
    assert one.inference_stats.success.ns > 0
    assert one.inference_stats.fail.count == 0
    assert everything[0].inference_stats.success.count == 0


def test_statistics_of_what_there_is_not_are_refused(stub):
    for request, code in (
        (wire.ModelStatisticsRequest(name="nope"), grpc.StatusCode.NOT_FOUND),
        (wire.ModelStatisticsRequest(version="1"), grpc.StatusCode.INVALID_ARGUMENT),
    ):
        refused(lambda r=request: stub.ModelStatistics(r), code)


def test_models_are_not_changed_from_outside_unless_the_server_was_started_for_it(stub):
    """Whoever may load what he likes can run what he likes."""
    for call, request in (
        (stub.RepositoryModelLoad, wire.RepositoryModelLoadRequest(model_name="ende")),
        (stub.RepositoryModelLoad, wire.RepositoryModelLoadRequest(repository_name="ende")),
        (stub.RepositoryModelUnload, wire.RepositoryModelUnloadRequest(model_name="ende")),
    ):
        refused(
            lambda c=call, r=request: c(r),
            grpc.StatusCode.FAILED_PRECONDITION,
            "explicit model load / unload is not allowed",
        )
    assert stub.ModelReady(wire.ModelReadyRequest(name="ende")).ready


def test_a_server_that_is_going_is_live_but_not_ready(make_translator):
    """In its drain delay it still answers, so that whoever asks may learn to ask another."""
    repository = Repository([Model("ende", 1, make_translator())])
    options = ServerOptions()
    answering = Answering(options, repository.observer)
    service = InferenceService(repository, answering, options, RequestSizes(options))
    service.is_stopping = True

    async def look():
        live = await service.ServerLive(wire.ServerLiveRequest(), None)
        ready = await service.ServerReady(wire.ServerReadyRequest(), None)
        model = await service.ModelReady(wire.ModelReadyRequest(name="ende"), None)
        return live.live, ready.ready, model.ready

    assert asyncio.run(look()) == (True, False, False)
