"""While one model has all it can bear, or is only being loaded, everything else is answered."""

import threading
from contextlib import contextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.data.errors import BundleError
from foretell.protos.inference import inference_pb2 as inference
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub
from foretell.protos.v1 import models_pb2, translator_pb2
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.server.background import serve_in_background
from foretell.server.models.repository import ModelControl, Repository
from foretell.server.options import ServerOptions

WAIT_S = 60.0
SERVING = health_pb2.HealthCheckResponse.SERVING


class Gate:
    """Lets nobody through until it is opened."""

    def __init__(self):
        self.come, self.go = threading.Semaphore(0), threading.Event()

    def __call__(self):
        self.come.release()
        assert self.go.wait(WAIT_S)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.go.set()


def answers_of_all_else(channel, model):
    """Ask for all that computes nothing; whatever waited behind a model would time out."""
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", model):
        request = health_pb2.HealthCheckRequest(service=service)
        assert health.Check(request, timeout=WAIT_S).status == SERVING
        watch = health.Watch(request, timeout=WAIT_S)
        assert next(watch).status == SERVING
        watch.cancel()
    protocol = GRPCInferenceServiceStub(channel)
    assert protocol.ServerLive(inference.ServerLiveRequest(), timeout=WAIT_S).live
    assert protocol.ServerReady(inference.ServerReadyRequest(), timeout=WAIT_S).ready
    assert protocol.ModelReady(inference.ModelReadyRequest(name=model), timeout=WAIT_S).ready
    protocol.ModelStatistics(inference.ModelStatisticsRequest(name=model), timeout=WAIT_S)
    models = ModelsStub(channel)
    assert models.List(models_pb2.ListModelsRequest(), timeout=WAIT_S).models
    models.Describe(models_pb2.DescribeModelRequest(model=model), timeout=WAIT_S)


def test_a_model_that_has_all_it_can_bear_holds_nobody_else_up(
    serving, make_forecaster, make_translator, make_request, gate
):
    """Elsewhere a prediction blocked the loop, the probe failed, and the pod was killed."""
    options = ServerOptions(listen="127.0.0.1:0", instances=2, max_queue=4)
    models = {"ende": make_translator(before_step=gate), "demand": make_forecaster()}
    with serving(options=options, **models) as channel:
        stub = TranslatorStub(channel)
        request = translator_pb2.TranslateRequest(model="ende", sentences=["ab"])
        calls = [stub.Translate.future(request, timeout=WAIT_S) for _ in range(2)]
        for _ in range(2):
            assert gate.come.acquire(timeout=WAIT_S)  # both instances are held
        calls += [stub.Translate.future(request, timeout=WAIT_S) for _ in range(4)]
        answers_of_all_else(channel, "ende")
        other = make_request({"a": [1, 2]}, model="demand")
        assert ForecasterStub(channel).Forecast(other, timeout=WAIT_S).model == "demand"
        gate.go.set()
        assert [one.result().translations[0].hypotheses[0].text for one in calls] == ["ba"] * 6


@pytest.fixture
def reloading(tmp_path, make_forecaster, gate):
    """A server of demand/1 whose callers may load; version 2 waits at the gate, 3 is damaged."""

    def load(path):
        if path.name == "2":
            gate()
        if path.name == "3":
            raise BundleError(f"bundle {path} is damaged.")
        return make_forecaster()

    @contextmanager
    def serve():
        (tmp_path / "demand/1").mkdir(parents=True)
        repository = Repository.load(tmp_path, load, control=ModelControl(mode="explicit"))
        with (
            serve_in_background(repository) as address,
            grpc.insecure_channel(address) as channel,
        ):
            yield channel

    return serve


def test_a_load_that_hangs_holds_no_call_up(reloading, tmp_path, make_request, gate):
    """Nor does it make anything not ready: elsewhere the server was killed for it."""
    with reloading() as channel:
        (tmp_path / "demand/2").mkdir()
        loading = ModelsStub(channel).Load.future(
            models_pb2.LoadModelRequest(model="demand"), timeout=WAIT_S
        )
        assert gate.come.acquire(timeout=WAIT_S)
        answers_of_all_else(channel, "demand")
        request = make_request({"a": [1, 2]})
        assert ForecasterStub(channel).Forecast(request, timeout=WAIT_S).version == 1
        gate.go.set()
        loading.result()
        assert ForecasterStub(channel).Forecast(request, timeout=WAIT_S).version == 2


def test_a_version_that_can_not_be_loaded_is_refused_each_time(reloading, tmp_path):
    """Elsewhere the second attempt was told to be fine."""
    with reloading() as channel:
        (tmp_path / "demand/3").mkdir()
        said = []
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as caught:
                ModelsStub(channel).Load(
                    models_pb2.LoadModelRequest(model="demand"), timeout=WAIT_S
                )
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            said.append(caught.value.details())
        assert len(set(said)) == 1
        assert "damaged" in said[0]
