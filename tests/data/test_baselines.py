"""The baselines decide what counts as good, so they must be the field's own, to the last digit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.data.baselines import naive2, seasonal_naive, seasonal_naive_quantiles

NAN = float("nan")


@given(
    arrays(np.float64, st.integers(1, 30), elements=st.floats(-9, 9) | st.just(NAN)),
    st.integers(1, 5),
    st.integers(1, 12),
)
def test_seasonal_naive_equals_a_search_backwards(context, season_length, horizon):
    if np.isnan(context).all():
        with pytest.raises(ValueError, match="no observed value"):
            seasonal_naive(context, season_length, horizon)
        return
    got = seasonal_naive(context, season_length, horizon)
    for step in range(horizon):
        position = len(context) + step
        while position >= len(context) or (position >= 0 and math.isnan(context[position])):
            position -= season_length
        want = context[position] if position >= 0 else context[~np.isnan(context)][-1]
        assert got[step] == want


def test_quantiles_widen_with_each_season_and_stand_around_the_point():
    context = np.array([1.0, 10, 3, 14, 2, 13, 4, 15])  # seasonal differences: 2 4 -1 -1 2 2
    quantiles = seasonal_naive_quantiles(context, 2, 4, (0.1, 0.5, 0.9))
    np.testing.assert_array_equal(quantiles[:, 1], [4, 15, 4, 15])
    width = quantiles[:, 2] - quantiles[:, 0]
    sigma = math.sqrt((4 + 16 + 1 + 1 + 4 + 4) / 5)
    np.testing.assert_allclose(width[:2], 2 * 1.2815515655446004 * sigma, rtol=1e-12)
    np.testing.assert_allclose(width[2:], width[:2] * math.sqrt(2), rtol=1e-12)


def test_a_repeating_series_has_no_width():
    quantiles = seasonal_naive_quantiles(np.array([1.0, 2, 1, 2]), 2, 3, (0.1, 0.9))
    np.testing.assert_array_equal(quantiles, [[1, 1], [2, 2], [1, 1]])


def seasonal(length, season_length=4):
    level = 100 + np.arange(length, dtype=np.float64)
    return level * np.resize([0.5, 1.5, 1.2, 0.8], length)


def naive2_by_loops(values, season_length, horizon):
    """The steps of the competition's paper, one by one."""
    size, mean = len(values), sum(values) / len(values)
    spread = sum((v - mean) ** 2 for v in values)
    acf = [
        sum((values[t] - mean) * (values[t - lag] - mean) for t in range(lag, size)) / spread
        for lag in range(1, season_length + 1)
    ]
    limit = 1.645 * math.sqrt((1 + 2 * sum(r * r for r in acf[:-1])) / size)
    if abs(acf[-1]) <= limit:
        return [values[-1]] * horizon
    half, ratios = season_length // 2, [[] for _ in range(season_length)]
    for t in range(half, size - half):
        if season_length % 2:
            trend = sum(values[t - half : t + half + 1]) / season_length
        else:
            ends = (values[t - half] + values[t + half]) / 2
            trend = (ends + sum(values[t - half + 1 : t + half])) / season_length
        ratios[t % season_length].append(values[t] / trend)
    indices = [sum(of_phase) / len(of_phase) for of_phase in ratios]
    indices = [index * season_length / sum(indices) for index in indices]
    last = values[-1] / indices[(size - 1) % season_length]
    return [last * indices[(size + step) % season_length] for step in range(horizon)]


@pytest.mark.parametrize("length", [12, 13, 30, 31])
@pytest.mark.parametrize("season_length", [3, 4])
def test_naive2_equals_the_steps_of_the_paper(length, season_length):
    noise = np.random.default_rng(length).normal(1, 0.05, length)
    values = seasonal(length) * noise
    want = naive2_by_loops(list(values), season_length, 7)
    np.testing.assert_allclose(naive2(values, season_length, 7), want, rtol=1e-12)


def test_naive2_of_a_seasonal_series_keeps_its_season():
    got = naive2(seasonal(40), 4, 4)
    assert got.argmax() == 1
    assert got.argmin() == 0


@pytest.mark.parametrize(
    "context",
    [np.full(40, 7.0), np.arange(11.0), np.random.default_rng(0).normal(50, 1, 40)],
    ids=["constant", "under three seasons", "noise"],
)
def test_naive2_without_a_season_is_the_last_value(context):
    np.testing.assert_array_equal(naive2(context, 4, 3), context[-1])


def test_naive2_takes_gaps_as_the_value_before():
    gappy, filled = seasonal(40), seasonal(40)
    gappy[[17, 18]] = NAN
    filled[[17, 18]] = filled[16]
    np.testing.assert_array_equal(
        naive2(np.concatenate([[NAN], gappy]), 4, 5), naive2(filled, 4, 5)
    )


def test_a_moving_average_of_zero_is_left_unadjusted():
    """Classical multiplicative decomposition divides by it; the answer must stay finite."""
    context = np.resize([1.0, -1.0, 1.0, -1.0], 40)
    np.testing.assert_array_equal(naive2(context, 4, 3), context[-1])


@pytest.mark.parametrize("baseline", [seasonal_naive, naive2])
def test_refusals(baseline):
    with pytest.raises(ValueError, match="at least 1"):
        baseline(np.ones(3), 0, 2)
    with pytest.raises(ValueError, match="no observed value"):
        baseline(np.array([NAN]), 1, 2)
