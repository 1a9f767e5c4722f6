"""What DESIGN promises of the forecaster's graph, checked on the ONNX file itself.

The same promises over gRPC are in tests/client/test_properties.py.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.bundles.bundle import read_bundle
from foretell.runtime.session import Session

SCALES = [1e-90, 1e-12, 0.37, 1000.0, 1e12, 1e39, 1e90]


@pytest.fixture(scope="module")
def run(bundle_path):
    """Ask the graph for quantiles [B, H, Q] of a context [B, T]."""
    session = Session(read_bundle(bundle_path), "forecaster.onnx", device="cpu", threads=1)

    def ask(context, horizon=9):
        placeholder = np.full((len(context), horizon), np.nan)
        inputs = {"context": np.asarray(context), "horizon_placeholder": placeholder}
        return session.run(inputs)["quantiles"]

    return ask


@pytest.fixture(scope="module")
def run_covariates(covariate_bundle_path):
    session = Session(
        read_bundle(covariate_bundle_path), "forecaster.onnx", device="cpu", threads=1
    )
    return lambda inputs: session.run(inputs)["quantiles"]


def walks(seed=0, batch=3, steps=30, gaps=0.1):
    rng = np.random.default_rng(seed)
    season = 3 * np.sin(2 * np.pi * np.arange(steps) / 7)
    context = 20 + season + np.cumsum(rng.normal(size=(batch, steps)), axis=1)
    context[rng.random(context.shape) < gaps] = np.nan
    context[:, -1] = 20.0
    return context


def spread(context):
    return np.nanstd(context, axis=1)[:, None, None]


@given(seed=st.integers(0, 1000), row=st.integers(0, 6))
def test_an_answer_does_not_depend_on_its_neighbours(run, seed, row):
    context = walks(seed, batch=7)
    np.testing.assert_array_equal(run(context)[row], run(context[row : row + 1])[0])


@given(seed=st.integers(0, 1000), padding=st.integers(1, 60))
def test_an_answer_does_not_depend_on_padding(run, seed, padding):
    context = walks(seed)
    padded = np.concatenate([np.full((3, padding), np.nan), context], axis=1)
    difference = np.abs(run(padded) - run(context)) / spread(context)
    assert difference.max() < 1e-4


@pytest.mark.parametrize("factor", SCALES)
@pytest.mark.parametrize("shift", [0.0, 7.0])
def test_another_unit_gives_the_same_forecast_in_it(run, factor, shift):
    context = walks()
    expected = factor * run(context) + shift * factor
    found = run(factor * context + shift * factor)
    assert (np.abs(found - expected) / (factor * spread(context))).max() < 1e-5


def test_a_small_movement_on_a_high_level_is_not_lost(run):
    context = walks()
    found = run(context + 1e9) - 1e9
    assert (np.abs(found - run(context)) / spread(context)).max() < 1e-4


@given(seed=st.integers(0, 1000), horizon=st.integers(1, 40), longer=st.integers(1, 40))
def test_a_shorter_horizon_is_a_prefix_of_a_longer_one(run, seed, horizon, longer):
    context = walks(seed)
    whole = run(context, horizon + longer)
    assert whole.shape[1] == horizon + longer
    difference = np.abs(run(context, horizon) - whole[:, :horizon]) / spread(context)
    assert difference.max() < 1e-4


@pytest.mark.parametrize("constant", [7.25, 0.0, -3e-05, 123456789.0, 1e100])
def test_constant_in_constant_out_to_the_last_bit(run, constant):
    assert (run(np.full((2, 25), constant), 30) == constant).all()


@given(
    values=st.lists(st.one_of(st.just(np.nan), st.floats(-1e100, 1e100)), min_size=1, max_size=60),
    horizon=st.integers(1, 20),
)
def test_never_nan_and_never_crossing_whatever_comes_in(run, values, horizon):
    answer = run(np.array([values]), horizon)
    assert np.isfinite(answer).all()
    assert (np.diff(answer, axis=-1) >= 0).all()


def test_nothing_observed_is_finite_and_hurts_no_neighbour(run):
    context = walks()
    beside = np.concatenate([context, np.full((1, 30), np.nan)])
    answer = run(beside)
    assert np.isfinite(answer).all()
    np.testing.assert_array_equal(answer[:3], run(context))


def test_a_known_future_changes_nothing_before_it(run_covariates):
    """The third patch of known-future values must not reach the first two."""
    rng = np.random.default_rng(1)
    inputs = {
        "context": walks(batch=2, gaps=0.0),
        "horizon_placeholder": np.full((2, 12), np.nan),
        "context_covariates": rng.normal(size=(2, 30, 2)),
        "horizon_covariates": rng.normal(size=(2, 12, 1)),
        "static": rng.normal(size=(2, 1)),
    }
    later = inputs["horizon_covariates"].copy()
    later[:, 8:] += 3
    before = run_covariates(inputs)
    after = run_covariates({**inputs, "horizon_covariates": later})
    np.testing.assert_array_equal(before[:, :8], after[:, :8])
    assert (before[:, 8:] != after[:, 8:]).any()


def test_what_the_horizon_placeholder_holds_is_not_looked_at(run_covariates, bundle_path):
    session = Session(read_bundle(bundle_path), "forecaster.onnx", device="cpu", threads=1)
    context = walks()
    answers = [
        session.run({"context": context, "horizon_placeholder": np.full((3, 9), value)})
        for value in (np.nan, 0.0, 1e9)
    ]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer["quantiles"], answers[0]["quantiles"])
