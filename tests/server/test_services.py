"""The services as any client sees them: a real server, a real port, raw messages."""

import logging
import time

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from foretell.data.errors import OptionError
from foretell.protos.arrays import pack_doubles, unpack_doubles, unpack_integers
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import DescribeModelRequest, ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.server.application import SERVICES
from foretell.server.options import ServerOptions
from foretell.server.services.model_health import LIVENESS

DAY_NS = 86_400_000_000_000


def doubles(message):
    return unpack_doubles(message, "", []).tolist()


def integers(message):
    return unpack_integers(message, "", []).tolist()


@pytest.mark.parametrize("raw", [False, True])
def test_answers_stand_series_by_series_step_by_step(serving, make_forecaster, make_request, raw):
    request = make_request({"a": [1, 2, 3], "b": [7, 8]}, raw=raw, horizon=2)
    with serving(demand=make_forecaster()) as channel:
        response = ForecasterStub(channel).Forecast(request)
    assert (response.model, response.version) == ("demand", 1)
    assert response.provider == "FakeExecutionProvider"
    assert response.horizon == 2
    assert integers(response.positions) == [0, 1]
    assert list(response.frequencies) == ["D", "D"]
    assert integers(response.stamps) == [3 * DAY_NS, 4 * DAY_NS, 2 * DAY_NS, 3 * DAY_NS]
    assert doubles(response.forecast) == [3, 3, 8, 8]
    np.testing.assert_allclose(
        doubles(response.quantiles), [2.6, 3, 3.4, 2.6, 3, 3.4, 7.6, 8, 8.4, 7.6, 8, 8.4]
    )
    assert bool(response.forecast.raw) is raw
    assert bool(response.forecast.values) is not raw


def test_bad_series_never_hurt_the_good_ones(serving, make_forecaster, make_request):
    """One bad item must not fail a batch; the others get what they get alone."""
    good = {"good0": [5.0] * 30, "good1": [9.0] * 30, "good2": [0.0] * 30}
    series = {
        "good0": good["good0"],
        "empty": [],
        "good1": good["good1"],
        "has_inf": [1, 2, float("inf"), 4],
        "blank": [float("nan")] * 4,
        "good2": good["good2"],
    }
    with serving(demand=make_forecaster()) as channel:
        stub = ForecasterStub(channel)
        response = stub.Forecast(make_request(series))
        alone = [stub.Forecast(make_request({name: y})) for name, y in good.items()]
    assert integers(response.positions) == [0, 2, 5]
    for at, answer in enumerate(alone):
        assert doubles(response.forecast)[3 * at : 3 * at + 3] == doubles(answer.forecast)
    errors = {error.position: (error.unique_id, error.reason) for error in response.errors}
    assert errors[1] == ("empty", "it has no rows; give it at least one.")
    assert errors[3][0] == "has_inf"
    assert "target is inf in row 3" in errors[3][1]
    assert errors[4][0] == "blank"
    assert "all its values are blank" in errors[4][1]
    assert set(errors) == {1, 3, 4}


def test_all_series_refused_is_still_an_answer(serving, make_forecaster, make_request):
    with serving(demand=make_forecaster()) as channel:
        response = ForecasterStub(channel).Forecast(make_request({"a": []}))
    assert integers(response.positions) == []
    assert [error.unique_id for error in response.errors] == ["a"]


def test_levels_may_be_left_out_or_none(serving, make_forecaster, make_request):
    with serving(demand=make_forecaster()) as channel:
        stub = ForecasterStub(channel)
        default = stub.Forecast(make_request({"a": [1, 2]}))
        none = stub.Forecast(
            make_request({"a": [1, 2]}, quantile_levels=pack_doubles(np.empty(0), raw=False))
        )
    assert doubles(default.quantile_levels) == [0.1, 0.5, 0.9]
    assert doubles(none.quantile_levels) == []
    assert doubles(none.quantiles) == []
    assert doubles(none.forecast) == [2, 2, 2]


def test_covariates_find_their_place_by_name(serving, make_forecaster, make_request):
    """Clients send columns in any order; a swapped pair would be a silent wrong answer."""
    forecaster = make_forecaster(
        future_covariates=("price",), past_covariates=("footfall",), static=("area",)
    )
    request = make_request(
        {"a": [1, 2]},
        covariates={"footfall": [30, 40], "price": [10, 20]},
        static={"area": [100]},
        future={"price": [5, 6, 7]},
    )
    with serving(demand=forecaster) as channel:
        response = ForecasterStub(channel).Forecast(request)
    rows, future, _ = forecaster.calls[0]
    assert rows.covariates.tolist() == [[10, 30], [20, 40]]
    assert future.covariates.tolist() == [[5], [6], [7]]
    assert doubles(response.forecast) == [107, 108, 109]


def test_stream_answers_one_response_a_request_in_order(serving, make_forecaster, make_request):
    requests = [make_request({f"s{i}": [i, i + 1]}, horizon=i + 1) for i in range(20)]
    with serving(demand=make_forecaster()) as channel:
        responses = list(ForecasterStub(channel).ForecastStream(iter(requests)))
    assert [response.horizon for response in responses] == list(range(1, 21))
    assert [doubles(response.forecast)[0] for response in responses] == list(range(1, 21))


def test_stream_stops_at_a_malformed_request_and_says_which(serving, make_forecaster, make_request):
    requests = [make_request({"a": [1, 2]}), make_request({"a": [1, 2]}, horizon=0)]
    with serving(demand=make_forecaster()) as channel:
        stream = ForecasterStub(channel).ForecastStream(iter(requests))
        assert doubles(next(stream).forecast) == [2, 2, 2]
        with pytest.raises(
            grpc.RpcError, match=r"request 2 of the stream:\nhorizon is 0"
        ) as caught:
            next(stream)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_unknown_models_are_answered_with_those_there_are(serving, make_forecaster, make_request):
    with serving(demand=make_forecaster(), energy=make_forecaster()) as channel:
        stub = ForecasterStub(channel)
        for fields, text in (
            ({"model": "sales"}, "there is no model 'sales'"),
            ({}, "no model is named, and there are several"),
            ({"model": "demand", "version": 7}, "version 7 of demand is not served"),
        ):
            with pytest.raises(grpc.RpcError, match=text) as caught:
                stub.Forecast(make_request({"a": [1, 2]}, **fields))
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            assert "'demand' (version 1), 'energy' (version 1)" in caught.value.details()


def test_a_lone_model_need_not_be_named(serving, make_forecaster, make_request):
    with serving(demand=make_forecaster()) as channel:
        stub = ForecasterStub(channel)
        assert stub.Forecast(make_request({"a": [1, 2]})).model == "demand"
        assert stub.Forecast(make_request({"a": [1, 2]}, model="demand", version=1)).version == 1


def test_faults_of_ours_tell_a_request_id_and_nothing_else(
    serving, make_forecaster, make_request, caplog
):
    """An exception's text may hold paths, other people's data, secrets; it belongs in the log."""
    forecaster = make_forecaster(error=RuntimeError("secret: /srv/models/key"))
    with (
        caplog.at_level(logging.ERROR, "foretell"),
        serving(demand=forecaster) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    text, _, request_id = caught.value.details().rpartition(" ")
    assert text == "internal error, request id"
    assert "secret" in caplog.text
    assert f"request_id={request_id}" in caplog.text


def test_errors_of_the_data_code_keep_their_kind(serving, make_forecaster, make_request):
    forecaster = make_forecaster(
        error=OptionError(["quantile 0.99 is out of range.", "and so on."])
    )
    with serving(demand=forecaster) as channel, pytest.raises(grpc.RpcError) as caught:
        ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "quantile 0.99 is out of range.\nand so on."
    assert ("foretell-error-kind", "OptionError") in caught.value.trailing_metadata()


def test_an_answer_over_the_limit_is_refused_before_it_is_computed(
    serving, make_forecaster, make_request
):
    forecaster = make_forecaster()
    options = ServerOptions(listen="127.0.0.1:0", max_message_bytes=100_000)
    with serving(demand=forecaster, options=options) as channel:
        stub = ForecasterStub(channel)
        with pytest.raises(grpc.RpcError, match=r"has 4,000,000 bytes.*at most 100,000") as caught:
            stub.Forecast(make_request({"a": [1, 2]}, horizon=100_000))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "--max-message-mib" in caught.value.details()
        assert not forecaster.calls
        # the connection and other calls are unhurt
        assert stub.Forecast(make_request({"a": [1, 2]}, horizon=1)).horizon == 1


def test_a_request_over_the_limit_is_refused_with_both_sizes(
    serving, make_forecaster, make_request
):
    options = ServerOptions(listen="127.0.0.1:0", max_message_bytes=100_000)
    with serving(demand=make_forecaster(), options=options) as channel:
        stub = ForecasterStub(channel)
        with pytest.raises(grpc.RpcError, match=r"larger than max \(\d+ vs\. 100000\)") as caught:
            stub.Forecast(make_request({"a": [1.0] * 20_000}, raw=True))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert stub.Forecast(make_request({"a": [1, 2]})).horizon == 3


@pytest.mark.parametrize("size_mib", [3.9, 4.1, 20])
def test_messages_beyond_grpcs_own_limit_pass(serving, make_forecaster, make_request, size_mib):
    """gRPC stops at 4 MiB by default, on either side; the answers here go up to 55 MiB."""
    num_rows = int(size_mib * 2**20 / 16 / 50)
    series = {f"s{i}": np.ones(num_rows) for i in range(50)}
    request = make_request(series, raw=True, horizon=1)
    assert request.ByteSize() > (size_mib - 0.01) * 2**20
    with serving(demand=make_forecaster()) as channel:
        assert doubles(ForecasterStub(channel).Forecast(request).forecast) == [1] * 50


def test_a_small_request_may_have_a_large_answer(serving, make_forecaster, make_request):
    levels = pack_doubles(np.linspace(0.1, 0.9, 7))
    request = make_request(
        {f"s{i}": [1.0] * 30 for i in range(400)}, raw=True, horizon=2000, quantile_levels=levels
    )
    with serving(demand=make_forecaster()) as channel:
        response = ForecasterStub(channel).Forecast(request)
    assert response.ByteSize() > 55e6
    assert len(doubles(response.quantiles)) == 400 * 2000 * 7


def test_a_call_that_nobody_waits_for_any_more_is_never_computed(
    serving, make_forecaster, make_request
):
    """Clients give up and ask again; who works through the dead queue never catches up."""
    forecaster = make_forecaster(delay_s=1.0)
    options = ServerOptions(listen="127.0.0.1:0", instances=1)
    with serving(demand=forecaster, options=options) as channel:
        stub = ForecasterStub(channel)
        first = stub.Forecast.future(make_request({"first": [1, 2]}))
        while not forecaster.calls:
            time.sleep(0.01)
        given_up = [
            stub.Forecast.future(make_request({"late": [1, 2]}), timeout=0.3) for _ in range(3)
        ]
        cancelled = stub.Forecast.future(make_request({"cancelled": [1, 2]}))
        for call in given_up:
            assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        cancelled.cancel()
        assert first.result().model == "demand"
        assert stub.Forecast(make_request({"last": [1, 2]})).model == "demand"
    assert [rows.ids[0] for rows, _, _ in forecaster.calls] == ["first", "last"]


def test_models_are_listed_and_described(serving, make_forecaster):
    forecaster = make_forecaster(frequency="h", static=("area",), training={"mase": 0.8})
    with serving(energy=make_forecaster(), demand=forecaster) as channel:
        stub = ModelsStub(channel)
        listed = stub.List(ListModelsRequest()).models
        description = stub.Describe(DescribeModelRequest(model="demand"))
        with pytest.raises(grpc.RpcError, match="there is no model 'x'; there are: 'demand'"):
            stub.Describe(DescribeModelRequest(model="x"))
    assert [(model.name, model.version, model.state) for model in listed] == [
        ("demand", 1, 1),
        ("energy", 1, 1),
    ]
    assert description.provider == "FakeExecutionProvider"
    assert description.forecaster.frequency == "h"
    assert list(description.forecaster.static) == ["area"]
    assert '"mase": 0.8' in description.manifest_json
    assert description.max_message_bytes == 64 * 2**20


@pytest.mark.parametrize("service", ["", "demand", LIVENESS, *SERVICES])
def test_health_is_told_for_the_server_each_service_and_each_model(
    serving, make_forecaster, service
):
    with serving(demand=make_forecaster()) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        response = stub.Check(health_pb2.HealthCheckRequest(service=service))
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(service="sales"))
    assert response.status == health_pb2.HealthCheckResponse.SERVING
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_reflection_lists_the_services(serving, make_forecaster):
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with serving(demand=make_forecaster()) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        answer = next(stub.ServerReflectionInfo(iter([request])))
    names = {service.name for service in answer.list_services_response.service}
    assert {*SERVICES, "grpc.health.v1.Health"} <= names
    own = {f"foretell.v1.{name}" for name in ("Forecaster", "Translator", "Models")}
    assert {*own, "inference.GRPCInferenceService"} == set(SERVICES)
