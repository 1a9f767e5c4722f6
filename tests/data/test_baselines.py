"""The baselines decide what counts as good, so they must be the field's own, to the last digit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.data.measures.baselines import naive2, seasonal_naive
from foretell.data.measures.theta import theta

NAN = float("nan")


def one(baseline, values, season_length, horizon):
    """The forecast of a single series."""
    return baseline(np.asarray(values), np.array([0, len(values)]), season_length, horizon)


@given(
    arrays(np.float64, st.integers(1, 30), elements=st.floats(-9, 9) | st.just(NAN)),
    st.integers(1, 5),
    st.integers(1, 12),
)
def test_seasonal_naive_equals_a_search_backwards(context, season_length, horizon):
    if np.isnan(context).all():
        with pytest.raises(ValueError, match="no observed value"):
            one(seasonal_naive, context, season_length, horizon)
        return
    got = one(seasonal_naive, context, season_length, horizon).mean[0]
    for step in range(horizon):
        position = len(context) + step
        while position >= len(context) or (position >= 0 and math.isnan(context[position])):
            position -= season_length
        want = context[position] if position >= 0 else context[~np.isnan(context)][-1]
        assert got[step] == want


def test_quantiles_widen_with_each_season_and_stand_around_the_point():
    context = [1.0, 10, 3, 14, 2, 13, 4, 15]  # seasonal differences: 2 4 -1 -1 2 2
    quantiles = one(seasonal_naive, context, 2, 4).quantiles((0.1, 0.5, 0.9))[0]
    np.testing.assert_array_equal(quantiles[:, 1], [4, 15, 4, 15])
    width = quantiles[:, 2] - quantiles[:, 0]
    sigma = math.sqrt((4 + 16 + 1 + 1 + 4 + 4) / 5)
    np.testing.assert_allclose(width[:2], 2 * 1.2815515655446004 * sigma, rtol=1e-12)
    np.testing.assert_allclose(width[2:], width[:2] * math.sqrt(2), rtol=1e-12)


def test_a_repeating_series_has_no_width():
    quantiles = one(seasonal_naive, [1.0, 2, 1, 2], 2, 3).quantiles((0.1, 0.9))[0]
    np.testing.assert_array_equal(quantiles, [[1, 1], [2, 2], [1, 1]])


def seasonal(length, season_length=4):
    level = 100 + np.arange(length, dtype=np.float64)
    return level * np.resize([0.5, 1.5, 1.2, 0.8], length)


def season_by_loops(values, season_length):
    """Index of each phase by the steps of the competition's paper; None without a season."""
    size, mean = len(values), sum(values) / len(values)
    spread = sum((v - mean) ** 2 for v in values)
    acf = [
        sum((values[t] - mean) * (values[t - lag] - mean) for t in range(lag, size)) / spread
        for lag in range(1, season_length + 1)
    ]
    limit = 1.645 * math.sqrt((1 + 2 * sum(r * r for r in acf[:-1])) / size)
    if abs(acf[-1]) <= limit:
        return [1.0] * season_length
    half, ratios = season_length // 2, [[] for _ in range(season_length)]
    for t in range(half, size - half):
        if season_length % 2:
            trend = sum(values[t - half : t + half + 1]) / season_length
        else:
            ends = (values[t - half] + values[t + half]) / 2
            trend = (ends + sum(values[t - half + 1 : t + half])) / season_length
        ratios[t % season_length].append(values[t] / trend)
    indices = [sum(of_phase) / len(of_phase) for of_phase in ratios]
    return [index * season_length / sum(indices) for index in indices]


def naive2_by_loops(values, season_length, horizon):
    indices, size = season_by_loops(values, season_length), len(values)
    last = values[-1] / indices[(size - 1) % season_length]
    return [last * indices[(size + step) % season_length] for step in range(horizon)]


def theta_by_loops(values, season_length, horizon):
    """The benchmark as its description says it, smoothing at each of 2,000 factors."""
    indices, size = season_by_loops(values, season_length), len(values)
    adjusted = np.array([v / indices[t % season_length] for t, v in enumerate(values)])
    slope, intercept = np.polyfit(np.arange(size), adjusted, 1)
    doubled = 2 * adjusted - (intercept + slope * np.arange(size))
    best = (math.inf, 0.0)
    for alpha in np.linspace(1e-4, 1 - 1e-4, 2000):
        # Errors are linear in the first level: two runs tell the best one.
        zero, one_ = (smoothing_errors(doubled, alpha, level) for level in (0.0, 1.0))
        moved = zero[0] - one_[0]
        first = (zero[0] @ moved) / (moved @ moved)
        errors, level = smoothing_errors(doubled, alpha, first)
        best = min(best, (errors @ errors, level))
    ahead = intercept + slope * (size + np.arange(horizon))
    return [
        (line + best[1]) / 2 * indices[(size + step) % season_length]
        for step, line in enumerate(ahead)
    ]


def smoothing_errors(values, alpha, level):
    errors = []
    for value in values:
        errors.append(value - level)
        level += alpha * (value - level)
    return np.array(errors), level


def noisy(length, seed):
    return seasonal(length) * np.random.default_rng(seed).normal(1, 0.05, length)


@pytest.mark.parametrize("length", [12, 13, 30, 31])
@pytest.mark.parametrize("season_length", [3, 4])
def test_naive2_equals_the_steps_of_the_paper(length, season_length):
    values = noisy(length, length)
    want = naive2_by_loops(list(values), season_length, 7)
    got = one(naive2, values, season_length, 7).mean[0]
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(("length", "season_length"), [(13, 4), (30, 3), (31, 4)])
def test_theta_equals_the_steps_of_its_description(length, season_length):
    """Smoothing is searched, so the two searches agree as far as they are fine."""
    values = noisy(length, length)
    want = theta_by_loops(list(values), season_length, 7)
    np.testing.assert_allclose(one(theta, values, season_length, 7).mean[0], want, rtol=1e-4)


def test_theta_of_a_line_goes_on_half_as_steep():
    """The line 0 goes on, the smoothed line 2, which lies on it, stays at its end."""
    got = one(theta, 5 + 2 * np.arange(50.0), 1, 4).mean[0]
    np.testing.assert_allclose(got, [103 + step for step in range(1, 5)], atol=0.1)


def test_theta_is_as_unsure_as_smoothing_with_a_drift():
    """A random walk with a drift is smoothed with a factor of 1, and its errors add up."""
    steps = np.random.default_rng(3).normal(1, 2, 4000)
    deviation = one(theta, 50 + steps.cumsum(), 1, 9).deviation[0]
    np.testing.assert_allclose(deviation, 2 * np.sqrt(np.arange(1, 10)), rtol=0.05)


def test_naive2_of_a_seasonal_series_keeps_its_season():
    got = one(naive2, seasonal(40), 4, 4).mean[0]
    assert got.argmax() == 1
    assert got.argmin() == 0


@pytest.mark.parametrize("baseline", [naive2, theta])
def test_a_season_around_zero_is_added_not_multiplied(baseline):
    """Ratios to an average near 0 would blow up: a temperature must get a temperature."""
    season = np.resize([-9.0, 3, 8, -2], 60)
    got = one(baseline, season + np.random.default_rng(5).normal(0, 0.1, 60), 4, 8).mean[0]
    np.testing.assert_allclose(got, season[:8], atol=0.5)


@pytest.mark.parametrize(
    "context",
    [np.full(40, 7.0), np.arange(11.0), np.random.default_rng(0).normal(50, 1, 40)],
    ids=["constant", "under three seasons", "noise"],
)
def test_naive2_without_a_season_is_the_last_value(context):
    np.testing.assert_array_equal(one(naive2, context, 4, 3).mean[0], context[-1])


@pytest.mark.parametrize("baseline", [naive2, theta])
def test_gaps_are_taken_as_the_value_before(baseline):
    gappy, filled = seasonal(40), seasonal(40)
    gappy[[17, 18]] = NAN
    filled[[17, 18]] = filled[16]
    got = one(baseline, np.concatenate([[NAN], gappy]), 4, 5).quantiles((0.1, 0.9))
    np.testing.assert_array_equal(got, one(baseline, filled, 4, 5).quantiles((0.1, 0.9)))


@pytest.mark.parametrize("baseline", [seasonal_naive, naive2, theta])
def test_many_series_get_what_each_gets_alone(baseline):
    """Series stand behind each other in one array; none may look into its neighbour."""
    rng = np.random.default_rng(1)
    lengths = [1, 2, 3, 13, 40, 12, 41, 5, 100]
    series = [seasonal(size) * rng.normal(1, 0.1, size) * 10.0**k for k, size in enumerate(lengths)]
    series[4][[0, 7, 39]] = NAN
    series[6] -= series[6].mean()
    levels = (0.05, 0.5, 0.95)
    together = baseline(np.concatenate(series), np.cumsum([0, *lengths]), 4, 6).quantiles(levels)
    for own, got in zip(series, together, strict=True):
        alone = one(baseline, own, 4, 6).quantiles(levels)[0]
        np.testing.assert_allclose(got, alone, rtol=1e-9, atol=1e-9 * np.abs(alone).max())


@pytest.mark.parametrize("baseline", [seasonal_naive, naive2, theta])
def test_answers_move_with_the_unit(baseline):
    values = noisy(50, 2)
    small, large = (one(baseline, values * u, 4, 6).quantiles((0.1, 0.9)) for u in (1.0, 1e12))
    np.testing.assert_allclose(large, small * 1e12, rtol=1e-9)


@pytest.mark.parametrize("baseline", [seasonal_naive, naive2, theta])
@pytest.mark.parametrize("value", [7.25, 0.0, -3e-05, 123456789.0])
def test_a_constant_goes_on_without_width(baseline, value):
    got = one(baseline, np.full(48, value), 12, 12).quantiles((0.05, 0.95))
    np.testing.assert_allclose(got, value, rtol=1e-9)


@pytest.mark.parametrize("baseline", [seasonal_naive, naive2, theta])
def test_refusals(baseline):
    with pytest.raises(ValueError, match="at least 1"):
        one(baseline, np.ones(3), 0, 2)
    with pytest.raises(ValueError, match="no observed value"):
        baseline(np.array([1.0, NAN]), np.array([0, 1, 2]), 1, 2)
