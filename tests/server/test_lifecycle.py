"""Models come and go while a server answers: what callers and health see of it."""

import threading
from contextlib import contextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.data.errors import BundleError
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import LoadModelRequest, UnloadModelRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.server.background import serve_in_background
from foretell.server.models.repository import ModelControl, Repository
from foretell.server.services.model_health import LIVENESS

Status = health_pb2.HealthCheckResponse


class Blocking:
    """Makes forecasters whose calls wait until they are let go."""

    def __init__(self, make_forecaster):
        self.make = make_forecaster
        self.entered, self.go = threading.Semaphore(0), threading.Event()

    def __call__(self, path):
        if (path / "bad").exists():
            raise BundleError(f"bundle {path}: forecaster.onnx is damaged.")
        forecaster = self.make()
        answer = forecaster.forecast_rows

        def wait(*arguments):
            self.entered.release()
            assert self.go.wait(60)
            return answer(*arguments)

        forecaster.forecast_rows = wait
        return forecaster


@pytest.fixture
def load(make_forecaster):
    return Blocking(make_forecaster)


@pytest.fixture
def serving_folder(tmp_path, load):
    @contextmanager
    def serve(mode="explicit", names=("demand",), **control):
        for name in names:
            (tmp_path / name / "1").mkdir(parents=True)
        control = ModelControl(mode=mode, **control)
        repository = Repository.load(tmp_path, load, control=control, keep_s=0.0)
        with (
            serve_in_background(repository) as address,
            grpc.insecure_channel(address) as channel,
        ):
            yield channel

    return serve


def watch(channel, service):
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=service)
    return (answer.status for answer in stub.Watch(request, timeout=60))


def test_calls_in_work_are_answered_by_the_version_they_began_with(
    serving_folder, tmp_path, load, make_request
):
    """And those that come after by the new one: nobody is refused in between."""
    request = make_request({"a": [1, 2]})
    with serving_folder() as channel:
        stub = ForecasterStub(channel)
        old = stub.Forecast.future(request, timeout=60)
        load.entered.acquire()
        (tmp_path / "demand/2").mkdir()
        ModelsStub(channel).Load(LoadModelRequest(model="demand"), timeout=60)
        new = stub.Forecast.future(request, timeout=60)
        load.entered.acquire()
        load.go.set()
        assert (old.result().version, new.result().version) == (1, 2)


def test_an_unloaded_model_finishes_its_calls(serving_folder, load, make_request):
    request = make_request({"a": [1, 2]}, model="demand")
    with serving_folder(names=("demand", "sales")) as channel:
        stub = ForecasterStub(channel)
        old = stub.Forecast.future(request, timeout=60)
        load.entered.acquire()
        ModelsStub(channel).Unload(UnloadModelRequest(model="demand"), timeout=60)
        with pytest.raises(grpc.RpcError, match=r"there is no model 'demand'; there are: 'sales'"):
            stub.Forecast(request, timeout=60)
        load.go.set()
        assert old.result().version == 1


def test_health_follows_each_model_and_a_watcher_hears_of_it(serving_folder):
    with serving_folder(names=("demand", "sales")) as channel:
        demand, sales, server = (watch(channel, name) for name in ("demand", "sales", ""))
        assert [next(one) for one in (demand, sales, server)] == [Status.SERVING] * 3
        models = ModelsStub(channel)
        models.Unload(UnloadModelRequest(model="demand"), timeout=60)
        assert next(demand) == Status.NOT_SERVING
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("sales", ""):
            request = health_pb2.HealthCheckRequest(service=name)
            assert health.Check(request, timeout=60).status == Status.SERVING
        models.Load(LoadModelRequest(model="demand"), timeout=60)
        assert next(demand) == Status.SERVING
        for name in ("demand", "sales"):
            models.Unload(UnloadModelRequest(model=name), timeout=60)
        assert next(server) == Status.NOT_SERVING


def test_a_server_is_ready_when_its_first_model_is(tmp_path, load, make_request):
    """It may begin with a model that is half copied: not ready, and not gone either."""
    bad = tmp_path / "demand/1/bad"
    bad.parent.mkdir(parents=True)
    bad.touch()
    control = ModelControl(mode="poll", poll_s=0.05)
    repository = Repository.load(tmp_path, load, control=control)
    with serve_in_background(repository) as address, grpc.insecure_channel(address) as channel:
        server, demand = watch(channel, ""), watch(channel, "demand")
        assert (next(server), next(demand)) == (Status.NOT_SERVING, Status.NOT_SERVING)
        assert next(watch(channel, LIVENESS)) == Status.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}), timeout=60)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        bad.unlink()
        assert (next(server), next(demand)) == (Status.SERVING, Status.SERVING)


def test_a_damaged_version_changes_no_health(serving_folder, tmp_path):
    with serving_folder() as channel:
        (tmp_path / "demand/2").mkdir()
        (tmp_path / "demand/2/bad").touch()
        with pytest.raises(grpc.RpcError) as caught:
            ModelsStub(channel).Load(LoadModelRequest(model="demand"), timeout=60)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        request = health_pb2.HealthCheckRequest(service="demand")
        status = health_pb2_grpc.HealthStub(channel).Check(request, timeout=60).status
        assert status == Status.SERVING
