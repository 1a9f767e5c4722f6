"""grpc.health.v1 as its .proto file has it: short names, and a slow watcher hears the newest."""

import asyncio
from types import SimpleNamespace

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from foretell.server.access.authorisation import groups_of
from foretell.server.services.health import LONGEST_NAME, HealthService

Status = health_pb2.HealthCheckResponse


def ask(name=""):
    return health_pb2.HealthCheckRequest(service=name)


@pytest.fixture
def stub(serving, make_forecaster):
    with serving(demand=make_forecaster()) as channel:
        yield health_pb2_grpc.HealthStub(channel)


def refused(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def test_a_name_that_nobody_knows_is_not_found_and_can_be_watched(stub):
    error = refused(lambda: stub.Check(ask("sales")))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "no service of this name" in error.details()
    watch = stub.Watch(ask("sales"))
    assert next(watch).status == Status.SERVICE_UNKNOWN
    watch.cancel()


@pytest.mark.parametrize("name", ["x" * (LONGEST_NAME + 1), "é" * (LONGEST_NAME // 2 + 1)])
def test_a_long_name_is_refused(stub, name):
    """A watcher's name is kept for as long as it watches, and health asks strangers for nothing."""
    for call in (lambda: stub.Check(ask(name)), lambda: next(stub.Watch(ask(name)))):
        error = refused(call)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"no service's name is longer than {LONGEST_NAME:,}" in error.details()
    longest = name[: LONGEST_NAME // len(name[0].encode())]
    assert refused(lambda: stub.Check(ask(longest))).code() is grpc.StatusCode.NOT_FOUND


def test_all_names_are_listed(stub):
    statuses = stub.List(health_pb2.HealthListRequest()).statuses
    assert {"", "demand", "grpc.health.v1.Health"} <= set(statuses)
    assert {one.status for one in statuses.values()} == {Status.SERVING}


def test_more_names_than_the_protocol_allows_are_not_listed():
    service = HealthService()
    for number in range(101):
        service.set(f"model{number}", Status.SERVING)
    with pytest.raises(ValueError, match=r"101 names and lists 100 at most"):
        asyncio.run(service.List(health_pb2.HealthListRequest(), SimpleNamespace()))


def test_a_slow_watcher_hears_the_newest_and_nothing_is_kept_of_it():
    async def watch():
        service = HealthService()
        service.set("demand", Status.SERVING)
        answers = service.Watch(ask("demand"), SimpleNamespace())
        heard = [(await anext(answers)).status]
        for status in [Status.NOT_SERVING, Status.SERVING] * 100 + [Status.NOT_SERVING]:
            service.set("demand", status)  # while the watcher's answer is on its way
        heard.append((await anext(answers)).status)
        waiting = asyncio.ensure_future(anext(answers))
        await asyncio.sleep(0)
        service.set("demand", Status.NOT_SERVING)  # no news
        await asyncio.sleep(0)
        service.set("demand", Status.SERVING)
        heard.append((await waiting).status)
        await answers.aclose()
        return heard, service._watchers

    heard, kept = asyncio.run(watch())
    assert heard == [Status.SERVING, Status.NOT_SERVING, Status.SERVING]
    assert kept == {}


def test_strangers_ask_for_what_they_know_and_get_no_list():
    """Where tokens are asked for, names of models are for those who may see them."""
    assert groups_of("/grpc.health.v1.Health/Check") == {"health"}
    assert groups_of("/grpc.health.v1.Health/Watch") == {"health"}
    assert groups_of("/grpc.health.v1.Health/List") == {"metadata", "repository"}
