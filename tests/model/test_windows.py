"""Windows: what training may see, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foretell.model.config import ForecasterConfig, TrainingConfig
from foretell.model.windows import SeriesSet, WindowSampler, validation_batches

MODEL = ForecasterConfig(
    patch_length=4,
    context_length=48,
    d_model=16,
    num_layers=2,
    num_heads=2,
    d_ff=32,
    quantile_levels=(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
)
PLAIN = {"mixing": 0.0, "sign_flip": 0.0}


def make_series(*lengths: int) -> SeriesSet:
    """Series whose values tell where they come from: series·1000 + step."""
    target = np.concatenate([1000.0 * i + np.arange(n) for i, n in enumerate(lengths)])
    return SeriesSet(
        indptr=np.cumsum([0, *lengths]),
        target=target,
        covariates=np.empty((len(target), 0)),
        static=np.empty((len(lengths), 0)),
    )


def make_sampler(series: SeriesSet, limits, **options) -> WindowSampler:
    training = TrainingConfig(**{"batch_size": 32, **PLAIN, **options})
    return WindowSampler(series, np.asarray(limits), MODEL, training, 7)


@given(step=st.integers(0, 1000), lengths=st.lists(st.integers(2, 120), min_size=1, max_size=5))
def test_no_window_looks_past_the_limit_or_mixes_series(step, lengths):
    limits = np.maximum(2, np.asarray(lengths) - 9)
    limits = np.minimum(limits, lengths)
    values = make_sampler(make_series(*lengths), limits)(step)["values"].numpy()
    assert values.shape == (32, 48 + 8)
    for row in values:
        seen = row[~np.isnan(row)]
        number = int(seen[0] // 1000)
        assert (np.diff(seen) == 1).all()
        assert seen[-1] - 1000 * number < limits[number]
        assert np.isnan(row[: len(row) - len(seen)]).all()


def test_a_batch_depends_on_seed_and_step_alone():
    sampler = make_sampler(make_series(60, 90), [60, 90], mixing=0.5, sign_flip=0.5)
    first = sampler(3)
    sampler(4)
    again = make_sampler(make_series(60, 90), [60, 90], mixing=0.5, sign_flip=0.5)(3)
    for name in first:
        torch.testing.assert_close(first[name], again[name], equal_nan=True, rtol=0, atol=0)
    other = make_sampler(make_series(60, 90), [60, 90], seed=1)(3)
    assert not torch.equal(first["hidden"], other["hidden"])


def test_series_with_nothing_to_train_on_are_never_drawn():
    values = make_sampler(make_series(60, 50), [60, 0])(0)["values"]
    assert values.nan_to_num(0.0).max() < 1000


def test_hidden_patches_come_in_stretches_of_every_place_and_never_first():
    sampler = make_sampler(make_series(120), [120], batch_size=256, mask_share=1.0)
    hidden = torch.cat([sampler(step)["hidden"] for step in range(8)])
    assert not hidden[:, 0].any()
    assert hidden[:, 1:].any(dim=0).all()
    assert hidden.any(dim=1).all()
    unmasked = make_sampler(make_series(120), [120], mask_share=0.0)(0)["hidden"]
    assert not unmasked.any()


def test_flips_turn_some_windows_and_blends_mix_some():
    plain = make_sampler(make_series(120), [120])(0)["values"]
    flipped = make_sampler(make_series(120), [120], sign_flip=1.0)(0)["values"]
    torch.testing.assert_close(flipped, -plain, equal_nan=True)
    blended = make_sampler(make_series(120, 120), [120, 120], mixing=1.0)(0)["values"]
    changed = ~torch.isclose(blended, make_sampler(make_series(120, 120), [120, 120])(0)["values"])
    assert changed.any()
    assert blended.isfinite().any(dim=1).all()


def test_series_with_covariates_are_never_blended():
    """A blended series would belong to nobody's promotion."""
    series = make_series(60)
    series = SeriesSet(
        indptr=series.indptr,
        target=series.target,
        covariates=series.target[:, None],
        static=series.static,
    )
    model = replace(MODEL, num_past_covariates=1)
    training = TrainingConfig(batch_size=16, mixing=1.0, sign_flip=1.0)
    batch = WindowSampler(series, np.array([60]), model, training, 7)(0)
    torch.testing.assert_close(batch["values"], batch["covariates"][..., 0], equal_nan=True)


def test_validation_windows_hold_the_context_and_the_horizon_and_nothing_later():
    series = make_series(100, 30, 80)
    batches = validation_batches(
        series, np.array([80, 30, 60]), np.array([87, 30, 67]), MODEL, 7, batch_size=8
    )
    (batch,) = batches
    values = batch["values"].numpy()
    assert len(values) == 2  # the second series has no horizon left
    for row, limit in zip(values, (80, 2060), strict=True):
        assert row[48 : 48 + 7].tolist() == [limit + i for i in range(7)]
        assert np.isnan(row[55])  # the eighth step of the last patch was not asked for
        assert row[47] == limit - 1
    assert batch["hidden"].tolist() == [[False] * 12 + [True] * 2] * 2
    assert torch.equal(batch["hidden"], batch["scored"])


@pytest.mark.parametrize("size", [1, 2, 5])
def test_validation_is_the_same_in_any_batches(size):
    series, limits = make_series(60, 70, 80), np.array([50, 60, 70])
    batches = validation_batches(series, limits, limits + 7, MODEL, 7, batch_size=size)
    values = torch.cat([batch["values"] for batch in batches])
    assert len(values) == 3
