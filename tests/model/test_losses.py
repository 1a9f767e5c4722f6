"""The quantile loss: equal to its definition, and least at the quantiles."""

import numpy as np
import torch

from foretell.model.losses import quantile_loss


def test_it_equals_the_loop():
    torch.manual_seed(0)
    predicted, target = torch.randn(2, 3, 4, 2), torch.randn(2, 3, 4)
    usable = torch.rand(2, 3, 4) < 0.7
    levels = torch.tensor([0.1, 0.5])
    total = 0.0
    for index in np.ndindex(2, 3, 4):
        if not usable[index]:
            continue
        for q, level in enumerate(levels.tolist()):
            error = float(target[index] - predicted[(*index, q)])
            total += (level * error if error >= 0 else (level - 1) * error) / len(levels)
    found = quantile_loss(predicted, target, usable, levels)
    torch.testing.assert_close(float(found), total, rtol=1e-5, atol=1e-5)


def test_it_is_least_at_the_quantile():
    sample = torch.from_numpy(np.random.default_rng(1).exponential(size=2001)).float()
    target = sample[:, None, None]
    usable = torch.ones_like(target, dtype=torch.bool)
    candidates = torch.linspace(0, 5, 501)
    for level in (0.1, 0.5, 0.9):
        losses = [
            float(
                quantile_loss(
                    torch.full((2001, 1, 1, 1), float(c)), target, usable, torch.tensor([level])
                )
            )
            for c in candidates
        ]
        best = float(candidates[int(np.argmin(losses))])
        assert abs(best - float(sample.quantile(level))) < 0.02


def test_unusable_targets_count_nothing():
    predicted = torch.randn(1, 1, 2, 3, requires_grad=True)
    usable = torch.tensor([[[True, False]]])
    loss = quantile_loss(predicted, torch.randn(1, 1, 2), usable, torch.tensor([0.1, 0.5, 0.9]))
    loss.backward()
    assert (predicted.grad[0, 0, 1] == 0).all()
    assert (predicted.grad[0, 0, 0] != 0).all()
