"""What a forecaster promises holds over gRPC: a real graph, a real server, the client."""

import numpy as np
import pandas as pd
import pytest

from foretell.client import Client

HORIZON = 14
PATCH = 4  # of the tiny models


@pytest.fixture(scope="module")
def client(tiny, serving):
    with serving(tiny=tiny) as address, Client(address) as client:
        yield client


@pytest.fixture(scope="module")
def covariate_client(tiny_covariates, serving):
    with serving(tiny=tiny_covariates) as address, Client(address) as client:
        yield client


def table(**series):
    return pd.concat(
        [
            pd.DataFrame(
                {"unique_id": name, "ds": np.arange(len(values)), "y": np.asarray(values, float)}
            )
            for name, values in series.items()
        ]
    )


def walk(seed, steps=40):
    return np.cumsum(np.random.default_rng(seed).normal(size=steps))


def numbers(answer, unique_id=None):
    if unique_id is not None:
        answer = answer[answer["unique_id"] == unique_id]
    return answer.drop(columns=["unique_id", "ds"]).to_numpy()


def assert_close(got, expected, scale):
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4 * scale)


def test_neighbours_change_nothing_to_the_last_bit(client):
    series = {f"s{i}": walk(i, steps=5 + 9 * i) * 10.0**i for i in range(9)}
    together = client.forecast(table(**series), HORIZON)
    for name, values in series.items():
        alone = client.forecast(table(**{name: values}), HORIZON)
        np.testing.assert_array_equal(numbers(together, name), numbers(alone))


def test_unobserved_steps_before_a_series_change_nothing(client):
    values = walk(1, steps=20)
    expected = numbers(client.forecast(table(a=values), HORIZON))
    for blanks in (1, PATCH, 13):
        padded = np.concatenate([np.full(blanks, np.nan), values])
        assert_close(numbers(client.forecast(table(a=padded), HORIZON)), expected, values.std())


@pytest.mark.parametrize(("scale", "shift"), [(3.0, 0.0), (1.0, -50.0), (1e-9, 0.0), (1e6, 1e8)])
def test_other_units_give_the_same_forecast_in_them(client, scale, shift):
    values = walk(2)
    expected = scale * numbers(client.forecast(table(a=values), HORIZON)) + shift
    got = numbers(client.forecast(table(a=scale * values + shift), HORIZON))
    assert_close(got, expected, scale * values.std())


def test_a_shorter_horizon_is_the_start_of_a_longer_one(client):
    values = walk(3)
    longest = numbers(client.forecast(table(a=values), 3 * HORIZON))
    for horizon in (1, PATCH, HORIZON):
        got = numbers(client.forecast(table(a=values), horizon))
        assert_close(got, longest[:horizon], values.std())


def test_a_later_covariate_changes_no_earlier_step(covariate_client):
    """Within a patch steps see each other; before it nothing may change."""
    days = pd.date_range("2024-01-01", periods=40 + 3 * PATCH)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "unique_id": "a",
            "ds": days,
            "y": rng.normal(size=len(days)),
            "promo": rng.random(len(days)),
            "visits": rng.normal(size=len(days)),
            "size": 1.0,
        }
    )
    past, future = frame[:40], frame[40:][["unique_id", "ds", "promo"]]
    later = future.assign(promo=[*future["promo"][: 2 * PATCH], *[5.0] * PATCH])
    first, second = (
        numbers(covariate_client.forecast(past, 3 * PATCH, future=one)) for one in (future, later)
    )
    assert_close(second[: 2 * PATCH], first[: 2 * PATCH], past["y"].std())
    assert np.abs(second[2 * PATCH :] - first[2 * PATCH :]).max() > 1e-3


@pytest.mark.parametrize("constant", [0.0, 5.0, -1e12, 1e-12, 0.1])
def test_a_constant_stays_itself(client, constant):
    answer = numbers(client.forecast(table(a=[constant] * 30), HORIZON))
    np.testing.assert_array_equal(answer, constant)


@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [1.0, np.nan, np.nan],
        [np.nan, 7.0, np.nan, 7.0, 8.0],
        [1e37, -1e37, 1e37],
        [0, 0, 0, 1e-300],
        [*[0.0] * 39, 1e9],
    ],
    ids=str,
)
def test_forecasts_are_finite_and_quantiles_never_cross(client, values):
    levels = [0.95, 0.06, 0.5, 0.31, 0.9]
    answer = client.forecast(table(a=values), HORIZON, quantiles=levels, freq=1)
    got = numbers(answer)
    assert np.isfinite(got).all()
    ordered = answer[[f"q{level:g}" for level in sorted(levels)]].to_numpy()
    assert (np.diff(ordered, axis=1) >= 0).all()
    np.testing.assert_array_equal(answer["forecast"], answer["q0.5"])
