"""Ridge regression is the floor under every network: fitted well, and on the past only."""

import numpy as np
import pytest

from foretell.data.measures import ridge
from foretell.data.measures.baselines import seasonal_naive
from foretell.data.measures.ridge import fit_ridge

LEVELS = (0.1, 0.5, 0.9)


def fit(series, *, season_length=1, horizon=3, levels=LEVELS):
    values, indptr = laid(series)
    return fit_ridge(values, indptr[:-1], indptr[1:], season_length, horizon, levels)


def laid(series):
    return np.concatenate(series), np.cumsum([0, *map(len, series)])


def wave(size, phase=0.0, other=0.0):
    time = np.arange(size)
    return 50 + 10 * np.sin(time * 0.7 + phase) + 4 * np.sin(time * 0.31 + other)


def test_a_rule_that_lags_can_tell_is_learned():
    """Two waves obey a linear recursion, which no season of whole steps repeats."""
    series = [wave(200), wave(150, 1.0)]
    found = fit(series, horizon=5)
    got = found.forecast(*laid(series))
    for own, quantiles in zip((wave(205), wave(155, 1.0)), got, strict=True):
        np.testing.assert_allclose(quantiles[:, 1], own[-5:], atol=0.05)


def test_weights_are_those_of_a_plain_solution_over_all_windows():
    series = [
        np.random.default_rng(i).normal(size=size).cumsum() for i, size in enumerate((60, 45))
    ]
    found = fit(series)
    num_lags, horizon = found.weights.shape
    x, y = [], []
    for own in series:
        for at in range(num_lags, len(own) - horizon + 1):
            lags = own[at - num_lags : at]
            x.append((lags - lags.mean()) / lags.std())
            y.append(np.clip((own[at : at + horizon] - lags[-1]) / lags.std(), -5, 5))
    x, y = np.array(x), np.array(y)
    solutions = [
        np.linalg.solve(x.T @ x + len(x) * 10.0**power * np.eye(num_lags), x.T @ y)
        for power in range(-6, 2)
    ]
    nearest = min(np.abs(found.weights - weights).max() for weights in solutions)
    assert nearest < 1e-8


def test_nothing_behind_the_cut_is_looked_at():
    values, indptr = laid([wave(120), wave(90, 2.0)])
    ends = indptr[1:] - 10
    changed = values.copy()
    for end, whole in zip(ends, indptr[1:], strict=True):
        changed[end:whole] = 1e6
    before, after = (fit_ridge(v, indptr[:-1], ends, 1, 5, LEVELS) for v in (values, changed))
    np.testing.assert_array_equal(before.weights, after.weights)
    np.testing.assert_array_equal(before.spread, after.spread)


def test_quantiles_hold_what_they_promise_on_noise():
    rng = np.random.default_rng(0)
    series = [100 + scale * rng.normal(size=300) for scale in (1.0, 50.0, 7.0)]
    quantiles = fit(series, horizon=4).forecast(*laid(series))
    width = (quantiles[:, :, 2] - quantiles[:, :, 0]) / 2
    np.testing.assert_allclose(width, 1.2816 * np.array([[1.0], [50], [7]]) * np.ones(4), rtol=0.35)
    assert (np.diff(quantiles, axis=2) >= 0).all()


@pytest.mark.parametrize("sizes", [(5, 6), (1, 1), (12, 40)], ids=["short", "single", "mixed"])
def test_series_too_short_to_learn_from_get_an_answer(sizes):
    """Where there is no window at all it is the seasonal naive forecast."""
    series = [wave(size) for size in sizes]
    quantiles = fit(series, horizon=8).forecast(*laid(series))
    assert np.isfinite(quantiles).all()
    if max(sizes) < 10:
        naive = seasonal_naive(*laid(series), 1, 8).mean
        np.testing.assert_allclose(quantiles[:, :, 1], naive)


@pytest.mark.parametrize("value", [7.25, 0.0, -3e-05, 123456789.0])
def test_a_constant_goes_on_without_width(value):
    series = [np.full(60, value), wave(60)]
    quantiles = fit(series, season_length=4).forecast(*laid(series))[0]
    np.testing.assert_array_equal(quantiles, value)


def test_many_windows_are_laid_in_pieces_and_thinned(monkeypatch):
    """Memory must not grow with the table: a piece at a time, and not more windows than allowed."""
    series = [wave(300, phase) for phase in range(5)]
    whole = fit(series)
    monkeypatch.setattr(ridge, "_MOST_NUMBERS", 200)
    pieces = fit(series)
    np.testing.assert_allclose(pieces.weights, whole.weights, atol=1e-6)
    monkeypatch.setattr(ridge, "_MOST_WINDOWS", 50)
    fewer = ridge._origins(*np.array([[0, 300, 600], [300, 600, 900]]), 8, 3)
    assert 45 <= sum(map(len, fewer)) <= 53


@pytest.mark.parametrize("most", [100_000, 40], ids=["one window each", "thinned to one each"])
def test_many_series_of_a_single_window_are_learned_from(monkeypatch, most):
    """Where the only window of each series was held out, nothing was left to learn from."""
    monkeypatch.setattr(ridge, "_MOST_WINDOWS", most)
    size = 8 + 4 if most == 100_000 else 60
    phases = np.random.default_rng(0).uniform(0, 6, (40, 2))
    series = [wave(size, *own) for own in phases]
    quantiles = fit(series, horizon=4).forecast(*laid(series))[:, :, 1]
    wanted = [wave(size + 4, *own)[-4:] for own in phases]
    naive = np.abs(np.array([own[-1:] for own in series]) - wanted).mean()
    assert np.abs(quantiles - wanted).mean() < naive / 10
