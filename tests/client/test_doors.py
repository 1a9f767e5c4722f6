"""The same question through the client and in process: the same table, to the last bit."""

import warnings

import numpy as np
import pandas as pd
import pytest

from foretell.data.errors import (
    FrequencyError,
    OptionError,
    RefusedSeriesError,
    TableError,
    TableWarning,
)

SMALL_CHUNKS = {"chunk_bytes": 4_000}


def hourly(num_series=7, steps=60):
    rng = np.random.default_rng(3)
    frames = [
        pd.DataFrame(
            {
                "unique_id": f"s{i}",
                "ds": pd.date_range("2024-03-30", periods=steps - i, freq="h"),
                "y": np.cumsum(rng.normal(size=steps - i)) * 10.0**i,
            }
        )
        for i in range(num_series)
    ]
    return pd.concat(frames, ignore_index=True)


def with_covariates(num_series=5, steps=30, horizon=9):
    rng = np.random.default_rng(4)
    days = pd.date_range("2024-01-01", periods=steps + horizon)
    frames = [
        pd.DataFrame(
            {
                "unique_id": f"s{i}",
                "ds": days,
                "y": rng.normal(size=len(days)),
                "promo": rng.random(len(days)),
                "visits": rng.normal(size=len(days)),
                "size": float(i),
            }
        )
        for i in range(num_series)
    ]
    table = pd.concat(frames, ignore_index=True)
    ahead = table.groupby("unique_id").cumcount() >= steps
    future = table[ahead][["unique_id", "ds", "promo"]]
    return table[~ahead].reset_index(drop=True), future.reset_index(drop=True)


def assert_same_answers(ask, forecaster, address, table, horizon, **keywords):
    expected = forecaster.forecast(table, horizon, **keywords)
    for options in (None, SMALL_CHUNKS):
        answer = ask(address, table, horizon, options=options, **keywords)
        pd.testing.assert_frame_equal(answer, expected, check_exact=True)


def test_the_clients_answer_to_the_last_bit_as_in_process(ask, serving, tiny):
    with serving(tiny=tiny) as address:
        assert_same_answers(ask, tiny, address, hourly(), 30)
        assert_same_answers(ask, tiny, address, hourly(), 1, quantiles=[0.5, 0.33, 0.06])
        assert_same_answers(ask, tiny, address, hourly(), 3, level=[80.0, 50.0], freq="h")
        assert_same_answers(ask, tiny, address, hourly(), 3, quantiles=[])


@pytest.mark.parametrize(
    "ids",
    [
        [f"s{i}" for i in range(7)],
        list(range(7)),
        [1, "1", 2.5, "ü", ("a", 1), 1.5, "\ud800"],
        pd.Categorical([f"c{i}" for i in range(7)], categories=[f"c{i}" for i in range(9)]),
    ],
    ids=["text", "integers", "mixed", "categories"],
)
def test_ids_keep_their_type_and_order(ask, serving, tiny, ids):
    table = hourly()
    table["unique_id"] = pd.Series(ids).take(pd.factorize(table["unique_id"])[0]).to_numpy()
    if isinstance(ids, pd.Categorical):
        table["unique_id"] = table["unique_id"].astype(ids.dtype)
    shuffled = table.sample(frac=1, random_state=1)
    with serving(tiny=tiny) as address:
        assert_same_answers(ask, tiny, address, shuffled, 2)


@pytest.mark.parametrize(
    "ids",
    [["b", "a", "c"], [True, 1.5, 2], ["\ud800", "b", "c"]],
    ids=["text", "mixed", "surrogate"],
)
@pytest.mark.parametrize("bad", [(), (0,)], ids=["all", "without the first"])
def test_the_type_of_ids_is_never_inferred_anew(ask, serving, tiny, ids, bad):
    """A column that changes its type no longer joins with the caller's other tables."""
    table = hourly(num_series=3)
    places = pd.factorize(table["unique_id"])[0]
    table["unique_id"] = pd.Series([ids[place] for place in places], dtype=object)
    table.loc[np.isin(places, bad), "y"] = np.inf

    def answer(call, *arguments):
        try:
            return call(*arguments, table, 2)
        except RefusedSeriesError as error:
            return error.forecast

    expected = answer(tiny.forecast)
    assert expected["unique_id"].dtype == object
    with serving(tiny=tiny) as address:
        pd.testing.assert_frame_equal(answer(ask, address), expected, check_exact=True)


@pytest.mark.parametrize("kind", ["zoned", "offsets", "integer"])
def test_every_kind_of_stamp_comes_back_as_in_process(ask, serving, tiny, kind):
    """The clocks go forward in this table, so a lost zone would show."""
    table = hourly()
    if kind == "integer":
        table["ds"] = table.groupby("unique_id").cumcount() * 5
    else:
        table["ds"] = table["ds"].dt.tz_localize("Europe/Berlin", nonexistent="NaT")
        table = table.dropna(subset=["ds"])
    if kind == "offsets":
        table["ds"] = table["ds"].map(lambda stamp: stamp.isoformat())
    with serving(tiny=tiny) as address:
        assert_same_answers(ask, tiny, address, table, 30)
        if kind != "integer":
            assert_same_answers(ask, tiny, address, table, 30, time_zone="Europe/Berlin")


def test_other_column_names(ask, serving, tiny):
    table = hourly().rename(columns={"unique_id": "item", "ds": "when", "y": "units"})
    names = {"id_col": "item", "time_col": "when", "target_col": "units"}
    with serving(tiny=tiny) as address:
        assert_same_answers(ask, tiny, address, table, 2, **names)


def test_covariates_travel_with_their_series(ask, serving, tiny_covariates):
    table, future = with_covariates()
    shuffled = future.sample(frac=1, random_state=2)
    with serving(tiny=tiny_covariates) as address:
        assert_same_answers(ask, tiny_covariates, address, table, 9, future=shuffled)


def spoiled():
    """Five series; three of them are bad, each in its own way, and so are some future rows."""
    table, future = with_covariates(num_series=8)
    table["y"] = table["y"].astype(object)
    at = table.groupby("unique_id").cumcount()
    table.loc[(table["unique_id"] == "s1") & (at == 3), "y"] = float("inf")
    table.loc[(table["unique_id"] == "s2") & (at == 3), "y"] = "three"
    table.loc[table["unique_id"] == "s3", "y"] = None
    table = pd.concat([table, table[table["unique_id"] == "s4"].tail(1)])
    future["promo"] = future["promo"].astype(object)
    future.loc[future["unique_id"] == "s5", "promo"] = None
    future.loc[(future["unique_id"] == "s6"), "promo"] = "many"
    return table, future


def test_bad_series_are_refused_with_the_same_words(ask, serving, tiny_covariates):
    """Half of a table may be bad: the others get their answers, and each bad one its reason."""
    table, future = spoiled()
    with pytest.raises(RefusedSeriesError) as expected:
        tiny_covariates.forecast(table, 9, future=future)
    for options in (None, SMALL_CHUNKS):
        with serving(tiny=tiny_covariates) as address, pytest.raises(RefusedSeriesError) as caught:
            ask(address, table, 9, future=future, options=options)
        assert caught.value.refusals == expected.value.refusals
        pd.testing.assert_frame_equal(caught.value.forecast, expected.value.forecast)
    assert [refusal.position for refusal in caught.value.refusals] == [1, 2, 3, 4, 5, 6]
    assert caught.value.forecast["unique_id"].unique().tolist() == ["s0", "s7"]


def test_all_series_bad_at_the_door_is_no_call_at_all(ask, serving, tiny):
    table = hourly(num_series=1)
    table["y"] = float("inf")
    with serving(tiny=tiny) as address, pytest.raises(RefusedSeriesError) as caught:
        ask(address, table, 2)
    assert len(caught.value.forecast) == 0
    assert list(caught.value.forecast) == ["unique_id", "ds", "forecast", "q0.1", "q0.5", "q0.9"]


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught if warning.category is TableWarning]


def test_what_is_not_used_is_warned_of(ask, serving, tiny, tiny_covariates):
    table, future = with_covariates()
    stray = future.tail(1).assign(unique_id="stray")
    late = future.tail(1).assign(ds=pd.Timestamp("2025-01-01"))
    future = pd.concat([future, stray, late])
    expected = warned(lambda: tiny_covariates.forecast(table, 9, future=future))
    with serving(tiny=tiny_covariates) as address:
        assert warned(lambda: ask(address, table, 9, future=future)) == expected
    assert "stray" in expected[0]
    assert len(expected) == 2
    with serving(tiny=tiny) as address:
        (text,) = warned(lambda: ask(address, table, 9, future=future))
    assert text == "the model uses no known-future covariates; the future table is not used."


def test_callers_mistakes_are_the_same_errors_as_in_process(ask, serving, tiny, tiny_covariates):
    """`except OptionError` must work whichever door a program uses."""
    table, future = with_covariates()
    strangers = future.assign(unique_id="stranger")
    cases = [
        (tiny, OptionError, {"quantiles": [0.999]}),
        (tiny, OptionError, {"quantiles": [1.5]}),
        (tiny, OptionError, {"quantiles": [0.5], "level": [80.0]}),
        (tiny, FrequencyError, {"freq": ""}),  # on the wire it means that none is given
        (tiny, FrequencyError, {"freq": "\ud800"}),
        (tiny, TableError, {"target_col": "sales"}),
        (tiny_covariates, TableError, {}),
        (tiny_covariates, TableError, {"future": strangers}),
        (tiny_covariates, TableError, {"future": future.assign(ds=1)}),
    ]
    for forecaster, kind, keywords in cases:
        with pytest.raises(kind) as expected:
            forecaster.forecast(table, 9, **keywords)
        with serving(tiny=forecaster) as address, pytest.raises(kind) as caught:
            ask(address, table, 9, **keywords)
        assert type(caught.value) is type(expected.value)
        if "future" in keywords or forecaster is tiny:
            assert caught.value.problems == expected.value.problems
