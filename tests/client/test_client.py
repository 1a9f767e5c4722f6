"""What the clients do around the numbers: splitting, order, errors, descriptions."""

import asyncio
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from foretell.client import AsyncClient, Client, RemoteError
from foretell.data.errors import ModelNotFoundError, OptionError, RefusedSeriesError

TABLE = pd.DataFrame({"unique_id": "a", "ds": [0, 1, 2], "y": [1.0, 2.0, 3.0]})


def many(num_series, steps=3):
    """Series s0, s1, ... whose last value is their number."""
    return pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i}" for i in range(num_series)], steps),
            "ds": np.tile(np.arange(steps), num_series),
            "y": np.repeat(np.arange(num_series, dtype=float), steps),
        }
    )


def test_a_large_table_passes_a_server_with_grpcs_own_limit(ask, serving, make_forecaster):
    """4 MiB is what servers and proxies have that nobody configured."""
    table = many(num_series=900, steps=1500)  # 20 MiB
    forecaster = make_forecaster()
    with serving(demand=forecaster, max_message_bytes=4 * 2**20) as address:
        answer = ask(address, table, 300)  # 10 MiB
    assert len(forecaster.calls) > 6
    assert answer["unique_id"].unique().tolist() == [f"s{i}" for i in range(900)]
    assert answer["forecast"].tolist() == np.repeat(np.arange(900.0), 300).tolist()


@pytest.mark.parametrize("is_bad", [False, True], ids=["answered", "refused"])
@pytest.mark.parametrize("steps", [3, 40])
def test_a_table_is_cut_to_the_limit_that_the_server_tells(
    ask, serving, make_forecaster, steps, is_bad
):
    """It passes whatever a server was started with; refused series bring texts, not numbers."""
    table = many(num_series=3000, steps=steps)
    if is_bad:
        table["ds"] = 0  # each stamp several times
    with serving(demand=make_forecaster(), max_message_bytes=2**20) as address:
        if not is_bad:
            assert len(ask(address, table, 10)) == 30_000
            return
        with pytest.raises(RefusedSeriesError) as caught:
            ask(address, table, 1)
    assert len(caught.value.refusals) == 3000


def test_several_requests_are_on_their_way_at_a_time(ask, serving, make_forecaster):
    """Each request waits for the other at the server: one at a time would never end."""
    forecaster = make_forecaster()
    barrier = threading.Barrier(2, timeout=20)
    answer_rows = forecaster.forecast_rows

    def wait_and_answer(rows, future, options):
        barrier.wait()
        return answer_rows(rows, future, options)

    forecaster.forecast_rows = wait_and_answer
    with serving(demand=forecaster) as address:
        answer = ask(address, many(2), 1, options={"chunk_bytes": 10})
    assert answer["forecast"].tolist() == [0, 1]


def test_answers_keep_the_order_of_the_table_whichever_comes_first(ask, serving, make_forecaster):
    forecaster = make_forecaster()
    second_is_done = threading.Event()
    answer_rows = forecaster.forecast_rows

    def second_first(rows, future, options):
        answer = answer_rows(rows, future, options)
        if rows.ids[0] == "s0":
            second_is_done.wait(20)
        if rows.ids[0] == "s1":
            second_is_done.set()
        return answer

    forecaster.forecast_rows = second_first
    with serving(demand=forecaster) as address:
        answer = ask(address, many(6), 1, options={"chunk_bytes": 10})
    assert answer["unique_id"].tolist() == [f"s{i}" for i in range(6)]


def test_one_failing_request_fails_the_call_and_the_client_goes_on(ask, serving, make_forecaster):
    """A table with a hole would look complete."""
    forecaster = make_forecaster()
    answer_rows = forecaster.forecast_rows

    def fail_at_the_third(rows, future, options):
        if rows.ids[0] == "s2":
            raise RuntimeError("secret")
        return answer_rows(rows, future, options)

    forecaster.forecast_rows = fail_at_the_third
    with serving(demand=forecaster) as address:
        with pytest.raises(RemoteError, match="INTERNAL: internal error, request id"):
            ask(address, many(6), 1, options={"chunk_bytes": 10})
        assert len(ask(address, many(2), 1)) == 2


def test_a_server_that_is_not_there(ask):
    with pytest.raises(RemoteError, match=r"server 127\.0\.0\.1:1 answered UNAVAILABLE") as caught:
        ask("127.0.0.1:1", TABLE, 1)
    assert caught.value.code == "UNAVAILABLE"
    assert "check that the server is started" in str(caught.value)


def test_an_unknown_model_is_answered_with_those_there_are(ask, serving, make_forecaster):
    with (
        serving(demand=make_forecaster(), energy=make_forecaster()) as address,
        pytest.raises(RemoteError, match=r"'sales'; there are: 'demand' \(version 1\)") as caught,
    ):
        ask(address, TABLE, 1, model="sales")
    assert caught.value.code == "NOT_FOUND"


def test_models_and_versions_are_chosen_by_name(ask, serving, make_forecaster):
    forecasters = {"demand": make_forecaster(), "energy": make_forecaster()}
    with serving(**forecasters) as address:
        ask(address, TABLE, 1, model="energy", version=1)
        with pytest.raises(RemoteError, match="version 2 of energy is not served"):
            ask(address, TABLE, 1, model="energy", version=2)
    assert [len(forecaster.calls) for forecaster in forecasters.values()] == [0, 1]


def test_a_described_model_is_asked_in_its_version_or_not_at_all(ask, serving, make_forecaster):
    """A job of hours must not go over to another model when the server does."""
    forecaster = make_forecaster()
    with serving(demand=forecaster) as address:
        with Client(address) as client:
            info = client.describe()
        other = replace(info, version=2)
        assert ask(address, TABLE, 1, model=info).equals(ask(address, TABLE, 1))
        with pytest.raises(RemoteError, match="version 2 of demand is not served"):
            ask(address, TABLE, 1, model=other)
        with pytest.raises(OptionError, match="the version is 1, and the model tells 2 itself"):
            ask(address, TABLE, 1, model=other, version=1)
    assert len(forecaster.calls) == 2


def test_a_deadline_ends_the_waiting(ask, serving, make_forecaster):
    with (
        serving(demand=make_forecaster(delay_s=3)) as address,
        pytest.raises(RemoteError, match="DEADLINE_EXCEEDED") as caught,
    ):
        ask(address, TABLE, 1, options={"timeout_s": 0.5})
    assert "larger timeout_s" in str(caught.value)


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_series_that_no_message_holds_tells_both_settings(ask, serving, make_forecaster, side):
    limit = 100_000
    options = {"max_message_bytes": limit, "chunk_bytes": 1000} if side == "client" else None
    server_limit = limit if side == "server" else 64 * 2**20
    with (
        serving(demand=make_forecaster(), max_message_bytes=server_limit) as address,
        pytest.raises(RemoteError, match=r"larger than max \(\d+ vs\. 100000\)") as caught,
    ):
        ask(address, many(1, steps=20_000), 1, options=options)
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    assert "max_message_bytes of the client and --max-message-mib of the server" in str(
        caught.value
    )


def test_models_are_listed_and_described(serving, make_forecaster):
    forecaster = make_forecaster(static=("area",), frequency="h", training={"mase": 0.8})

    async def ask_async(address):
        async with AsyncClient(address) as client:
            return await client.models(), await client.describe("demand")

    with serving(demand=forecaster) as address:
        with Client(address) as client:
            models, info = client.models(), client.describe()
        assert asyncio.run(ask_async(address)) == (models, info)
    assert [(model.name, model.version, model.is_ready, model.reason) for model in models] == [
        ("demand", 1, True, "")
    ]
    assert (info.name, info.version, info.kind, info.precision) == (
        "demand",
        1,
        "forecaster",
        "fp32",
    )
    assert info.provider == "FakeExecutionProvider"
    assert info.forecaster == forecaster.manifest.forecaster
    assert info.manifest["training"] == {"mase": 0.8}
    assert info.max_message_bytes == 64 * 2**20
    assert "demand" in repr(info)
    assert "mase" not in repr(info)  # a manifest would fill the screen of a notebook


def test_threads_share_a_client(serving, make_forecaster):
    with (
        serving(demand=make_forecaster()) as address,
        Client(address) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        tables = list(threads.map(lambda n: client.forecast(many(n), 2), range(1, 17)))
    assert [len(table) for table in tables] == [2 * n for n in range(1, 17)]


def test_tasks_share_a_client(serving, make_forecaster):
    async def ask(address):
        async with AsyncClient(address) as client:
            return await asyncio.gather(*(client.forecast(many(n), 2) for n in range(1, 17)))

    with serving(demand=make_forecaster()) as address:
        tables = asyncio.run(ask(address))
    assert [len(table) for table in tables] == [2 * n for n in range(1, 17)]


def test_a_remote_error_survives_pickling():
    """Jobs on many machines send their errors home."""
    error = pickle.loads(pickle.dumps(RemoteError("NOT_FOUND", "host:1", "there is no model.")))
    assert (error.code, error.target) == ("NOT_FOUND", "host:1")
    assert str(error) == "server host:1 answered NOT_FOUND: there is no model."
    assert not isinstance(error, ModelNotFoundError)
