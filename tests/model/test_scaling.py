"""Causal scaling: what it measures, what it must not know, and why no unit may matter."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foretell.model.scaling import CausalScale, causal_scale

PATCH = 3


def measure(values: torch.Tensor) -> CausalScale:
    return causal_scale(values.nan_to_num(0.0), ~values.isnan(), PATCH)


def series(seed: int, steps: int = 12, gaps: float = 0.3) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    values = rng.normal(10, 3, (2, steps))
    values[rng.random(values.shape) < gaps] = np.nan
    values[:, 0] = 5.0
    return torch.from_numpy(values)


@given(seed=st.integers(0, 500))
def test_each_patch_is_measured_by_its_past_alone(seed):
    values = series(seed)
    scale = measure(values)
    for row in range(2):
        for patch in range(4):
            past = values[row, : (patch + 1) * PATCH]
            past = past[~past.isnan()]
            level = scale.reference[row, 0] + scale.mean[row, patch]
            assert float(level) == pytest.approx(float(past.mean()))
            spread = float(past.std(unbiased=False))
            assert float(scale.std[row, patch]) == pytest.approx(spread, abs=1e-7)


def test_what_comes_later_changes_no_earlier_bit():
    values = series(1)
    other = values.clone()
    other[:, 6:] = 1e7
    before, after = measure(values), measure(other)
    assert torch.equal(before.mean[:, :2], after.mean[:, :2])
    assert torch.equal(before.std[:, :2], after.std[:, :2])


@given(
    seed=st.integers(0, 500),
    factor=st.sampled_from([1e-12, 0.37, 1.0, 1000.0, 1e12]),
    shift=st.sampled_from([0.0, 5.0, -3e4]),
)
def test_the_unit_does_not_matter(seed, factor, shift):
    values = series(seed)
    shift = shift * factor
    patches = values.nan_to_num(5.0).unflatten(1, (-1, PATCH))
    scaled = measure(values).scale(patches)
    other = measure(factor * values + shift).scale(factor * patches + shift)
    torch.testing.assert_close(scaled, other, atol=1e-5, rtol=1e-5)


def test_there_and_back():
    values = series(3, gaps=0)
    scale = measure(values)
    patches = values.unflatten(1, (-1, PATCH))
    back = scale.unscale(scale.scale(patches)[..., None])[..., 0]
    informed = scale.std > 0
    torch.testing.assert_close(back[informed], patches[informed], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("constant", [7.25, 0.0, -3e-05, 123456789.0, 1e12])
def test_a_constant_past_gives_that_constant_whatever_the_network_says(constant):
    scale = measure(torch.full((1, 6), constant, dtype=torch.float64))
    answer = scale.unscale(torch.randn(1, 2, PATCH, 4) * 100)
    assert (answer == constant).all()


def test_a_small_movement_on_a_high_level_is_not_lost():
    values = torch.tensor([[1e9, 1e9 + 2, 1e9, 1e9 + 2, 1e9, 1e9 + 2]], dtype=torch.float64)
    assert float(measure(values).std[0, -1]) == pytest.approx(1.0)


def test_nothing_observed_is_finite():
    scale = measure(torch.full((1, 6), torch.nan, dtype=torch.float64))
    assert scale.unscale(torch.randn(1, 2, PATCH, 4)).isfinite().all()


def test_no_answer_overflows():
    scale = measure(torch.tensor([[-1e100, 1e100, 0.0]], dtype=torch.float64))
    assert scale.unscale(torch.full((1, 1, PATCH, 1), 1e30)).isfinite().all()
