"""Measures are added up piece by piece; the sums must be what the definitions say of the whole."""

import numpy as np
import pytest

from foretell.data.measures.metrics import (
    coverage,
    mase,
    mean_over_series,
    owa,
    smape,
    weighted_quantile_loss,
)
from foretell.jobs.evaluation.tally import INTERVALS, LEVELS, LOSS_LEVELS, Tally, levels_within

N, H = 11, 5


@pytest.fixture(scope="module")
def outcome():
    """Actual values with gaps, ordered quantiles, and scales of which one is no unit."""
    rng = np.random.default_rng(4)
    actual = rng.normal(10, 5, (N, H))
    actual[rng.random((N, H)) < 0.2] = np.nan
    actual[3] = np.nan
    quantiles = np.sort(rng.normal(10, 5, (N, H, len(LEVELS))), axis=2)
    scale = rng.uniform(1, 3, N)
    scale[[0, 5]] = np.nan, 0.0
    return actual, quantiles, scale


def tally(name, outcome, pieces):
    actual, quantiles, scale = outcome
    made = Tally(name, LEVELS, num_series=N, horizon=H)
    for series in pieces:
        made.add(series, actual[series], quantiles[series], scale[series])
    return made


PIECES = [np.array([4, 2, 9]), np.array([0]), np.array([1, 3, 5, 6, 7, 8, 10])]


def test_pieces_add_up_to_the_definitions(outcome):
    actual, quantiles, scale = outcome
    scores = tally("model", outcome, PIECES).scores(None)
    median = quantiles[:, :, LEVELS.index(0.5)]
    of_loss = quantiles[:, :, [LEVELS.index(level) for level in LOSS_LEVELS]]
    assert scores.mase == pytest.approx(mean_over_series(mase(actual, median, scale)))
    assert scores.smape == pytest.approx(mean_over_series(smape(actual, median)))
    assert scores.wql == pytest.approx(weighted_quantile_loss(actual, of_loss, LOSS_LEVELS))
    assert np.isnan(scores.owa)
    for percent, pair in INTERVALS.items():
        low, high = (quantiles[:, :, LEVELS.index(level)] for level in pair)
        assert scores.coverage[percent] == pytest.approx(coverage(actual, low, high))
    observed = ~np.isnan(actual)
    for i, level in enumerate(LEVELS):
        share = (actual <= quantiles[:, :, i])[observed].mean()
        assert scores.below[level] == pytest.approx(share)


def test_a_step_is_measured_as_a_horizon_of_it_alone(outcome):
    actual, quantiles, scale = outcome
    by_step = tally("model", outcome, PIECES).scores(None).by_step
    for step in range(H):
        only = slice(step, step + 1)
        alone = Tally("alone", LEVELS, num_series=N, horizon=1)
        alone.add(np.arange(N), actual[:, only], quantiles[:, only], scale)
        scores = alone.scores(None)
        assert by_step.mase[step] == pytest.approx(scores.mase)
        assert by_step.smape[step] == pytest.approx(scores.smape)
        assert by_step.wql[step] == pytest.approx(scores.wql)
        assert by_step.coverage[80][step] == pytest.approx(scores.coverage[80])


def test_owa_is_that_of_the_competition(outcome):
    actual, quantiles, scale = outcome
    model = tally("model", outcome, PIECES)
    naive2 = tally("Naive2", (actual, quantiles + 3, scale), PIECES)
    scores, base = model.scores(naive2), naive2.scores(naive2)
    assert base.owa == 1
    assert scores.owa == pytest.approx(
        owa(smape=scores.smape, mase=scores.mase, naive2_smape=base.smape, naive2_mase=base.mase)
    )


def test_nothing_to_count_is_no_number():
    made = Tally("model", LEVELS, num_series=2, horizon=H)
    scores = made.scores(made)
    numbers = [scores.mase, scores.smape, scores.owa, scores.wql, *scores.coverage.values()]
    assert np.isnan([*numbers, *scores.by_step.mase, *scores.below.values()]).all()


def test_intervals_that_a_model_never_learned_are_left_out():
    """A tail that was never learned can't be asked for, and must not be counted as a miss."""
    assert levels_within((0.1, 0.5, 0.9)) == tuple(
        level for level in LEVELS if level not in (0.05, 0.95)
    )
    assert levels_within((0.01, 0.5, 0.99)) == LEVELS
    levels = levels_within((0.1, 0.5, 0.9))
    made = Tally("model", levels, num_series=1, horizon=H)
    made.add(np.array([0]), np.ones((1, H)), np.ones((1, H, len(levels))), np.ones(1))
    scores = made.scores(None)
    assert scores.coverage[80] == 1
    assert np.isnan(scores.coverage[90])
    assert 90 not in scores.by_step.coverage


def test_a_forecast_that_is_no_number_is_an_error(outcome):
    actual, quantiles, scale = outcome
    made = Tally("model", LEVELS, num_series=N, horizon=H)
    with pytest.raises(ValueError, match="holds NaN for a step that was observed"):
        made.add(np.arange(N), actual, np.where(quantiles > 12, np.nan, quantiles), scale)


def test_a_series_counts_by_its_mean_over_windows_and_the_set_by_all_of_them(outcome):
    """A series in three windows weighs three times in the set's mean, once among the series."""
    actual, quantiles, scale = outcome
    made = Tally("model", LEVELS, num_series=3, horizon=H)
    windows = [np.array([7, 8]), np.array([9, 10]), np.array([1, 2])]
    own = []
    for series, rows in zip(([0, 1], [0, 2], [2, 1]), windows, strict=True):
        made.add(np.array(series), actual[rows], quantiles[rows], scale[rows])
        median = quantiles[rows][:, :, LEVELS.index(0.5)]
        own += zip(series, mase(actual[rows], median, scale[rows]), strict=True)
    means = [np.mean([value for of, value in own if of == series]) for series in range(3)]
    np.testing.assert_allclose(made.mase, means)
    assert made.num_windows.tolist() == [2, 2, 2]
    assert made.scores(None).mase == pytest.approx(np.mean([value for _, value in own]))
