"""A measure that is subtly wrong turns every later claim about accuracy into noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.data.measures.metrics import (
    coverage,
    mase,
    mean_over_series,
    owa,
    seasonal_scale,
    smape,
    weighted_quantile_loss,
)

NAN = float("nan")
LEVELS = (0.1, 0.5, 0.9)


def values(*shape, blanks=True):
    # Thousandths: a sum of values near 1e-308 would overflow every ratio, here and in the loops.
    numbers = st.integers(-(10**9), 10**9).map(lambda thousandths: thousandths / 1000)
    return arrays(np.float64, shape, elements=numbers | st.just(NAN) if blanks else numbers)


def naive_scale(series, season_length):
    errors = [
        abs(series[t] - series[t - season_length])
        for t in range(season_length, len(series))
        if not math.isnan(series[t] - series[t - season_length])
    ]
    return sum(errors) / len(errors) if errors and sum(errors) > 0 else 0.0 if errors else NAN


def naive_mean(actual, error):
    kept = [error(step) for step in range(len(actual)) if not math.isnan(actual[step])]
    return sum(kept) / len(kept) if kept else NAN


def naive_smape_step(y, f):
    return 0.0 if abs(y) + abs(f) == 0 else 200 * abs(y - f) / (abs(y) + abs(f))


def naive_wql(actual, quantiles, levels):
    loss = size = 0.0
    for row, of_row in zip(actual, quantiles, strict=True):
        for y, of_step in zip(row, of_row, strict=True):
            if math.isnan(y):
                continue
            size += abs(y)
            for level, q in zip(levels, of_step, strict=True):
                loss += 2 * (level * (y - q) if y >= q else (1 - level) * (q - y))
    return loss / len(levels) / size if size else NAN


def test_every_measure_by_hand():
    target = np.array([1.0, 2, 4, 7])  # steps of 1, 2, 3: scale 2
    scale = seasonal_scale(target, np.array([0, 4]), 1)
    actual, forecast = np.array([[10.0, 30]]), np.array([[8.0, 30]])
    quantiles = np.array([[[9.0, 11], [20, 40]]])
    assert scale == 2
    assert mase(actual, forecast, scale) == 0.5
    assert smape(actual, forecast)[0] == pytest.approx(100 * 2 / 18)
    assert owa(smape=6.0, mase=1.0, naive2_smape=12.0, naive2_mase=2.0) == 0.5
    # Levels 0.1 and 0.9: 0.1·1 + 0.1·1 at 10, 0.1·10 + 0.1·10 at 30.
    assert weighted_quantile_loss(actual, quantiles, (0.1, 0.9)) == pytest.approx(2 * 2.2 / 2 / 40)
    assert coverage(actual, quantiles[:, :, 0], quantiles[:, :, 1]) == 1
    assert coverage(actual, np.array([[10.0, 31]]), np.array([[10.0, 40]])) == 0.5


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 4), st.data())
def test_scale_equals_a_loop_over_each_series(lengths, season_length, data):
    """The series lie one after another: no pair may reach from one into the next."""
    series = [data.draw(values(length)) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    scale = seasonal_scale(np.concatenate(series), indptr, season_length)
    for got, one in zip(scale, series, strict=True):
        want = naive_scale(one, season_length)
        assert got == pytest.approx(want, nan_ok=True)


@given(
    values(3, 4), values(3, 4, blanks=False), st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3)
)
def test_point_measures_equal_loops(actual, forecast, scales):
    scale = np.array(scales)
    got_mase, got_smape = mase(actual, forecast, scale), smape(actual, forecast)
    for i in range(3):
        y, f = actual[i], forecast[i]
        want = naive_mean(y, lambda step, y=y, f=f: abs(y[step] - f[step])) / scales[i]
        assert got_mase[i] == pytest.approx(want, nan_ok=True)
        want = naive_mean(y, lambda step, y=y, f=f: naive_smape_step(y[step], f[step]))
        assert got_smape[i] == pytest.approx(want, nan_ok=True)


@given(values(2, 3), values(2, 3, 3, blanks=False))
def test_quantile_measures_equal_loops(actual, quantiles):
    assert weighted_quantile_loss(actual, quantiles, LEVELS) == pytest.approx(
        naive_wql(actual, quantiles, LEVELS), nan_ok=True
    )
    inside = [
        low <= y <= high
        for y, low, high in zip(
            actual.ravel(), quantiles[..., 0].ravel(), quantiles[..., 2].ravel(), strict=True
        )
        if not math.isnan(y)
    ]
    want = sum(inside) / len(inside) if inside else NAN
    assert coverage(actual, quantiles[..., 0], quantiles[..., 2]) == pytest.approx(
        want, nan_ok=True
    )


@settings(max_examples=20)
@given(values(2, 3), values(2, 3, blanks=False), st.floats(1e-2, 1e2))
def test_a_change_of_unit_changes_no_measure(actual, forecast, unit):
    scale = np.array([1.0, 2.0])
    assert mase(actual * unit, forecast * unit, scale * unit) == pytest.approx(
        mase(actual, forecast, scale), nan_ok=True
    )
    quantiles = forecast[:, :, None]
    assert weighted_quantile_loss(actual * unit, quantiles * unit, (0.5,)) == pytest.approx(
        weighted_quantile_loss(actual, quantiles, (0.5,)), nan_ok=True
    )


def test_a_series_without_a_unit_has_no_mase_and_does_not_enter_the_mean():
    """Dividing by a scale of 0 would make one constant series the whole mean."""
    scale = seasonal_scale(np.array([5.0, 5, 5, 1, 2, 3]), np.array([0, 3, 6]), 1)
    errors = mase(np.array([[6.0], [6]]), np.array([[5.0], [5]]), scale)
    assert math.isnan(errors[0])
    assert mean_over_series(errors) == errors[1] == 1
    assert math.isnan(mean_over_series(errors[:1]))


def test_nothing_observed_is_nan_and_no_warning():
    blank, forecast = np.full((1, 2), NAN), np.zeros((1, 2))
    assert math.isnan(mase(blank, forecast, np.ones(1))[0])
    assert math.isnan(smape(blank, forecast)[0])
    assert math.isnan(coverage(blank, forecast, forecast))
    assert math.isnan(weighted_quantile_loss(blank, forecast[:, :, None], (0.5,)))


@pytest.mark.parametrize(
    "measure",
    [
        lambda y, f: mase(y, f, np.ones(1)),
        smape,
        lambda y, f: coverage(y, f, f),
        lambda y, f: weighted_quantile_loss(y, f[:, :, None], (0.5,)),
    ],
)
def test_a_missing_forecast_is_an_error_and_never_skipped(measure):
    with pytest.raises(ValueError, match="NaN for a step that was observed"):
        measure(np.array([[1.0, 2]]), np.array([[1.0, NAN]]))


def test_season_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        seasonal_scale(np.ones(3), np.array([0, 3]), 0)
