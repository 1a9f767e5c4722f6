"""Dropout by bytes: as good as torch's, at an eighth of the random numbers."""

import pytest
import torch

from foretell.model.dropout import Dropout


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_the_share_that_falls_and_the_mean_that_stays(share):
    torch.manual_seed(0)
    dropout = Dropout(share)
    y = dropout(torch.ones(400, 1000))
    fallen = round(share * 256) / 256  # a multiple of 1/256
    assert float((y == 0).float().mean()) == pytest.approx(fallen, abs=0.003)
    assert float(y.mean()) == pytest.approx(1.0, abs=0.01)
    assert y.unique().tolist() == pytest.approx([0.0, 1 / (1 - fallen)])


def test_neighbours_fall_independently():
    """Eight activations share a random word; each of its bytes must be a draw of its own."""
    torch.manual_seed(1)
    fallen = (Dropout(0.5)(torch.ones(100_000, 8)) == 0).double()
    together = fallen.T @ fallen / len(fallen)
    expected = torch.full((8, 8), 0.25).double().fill_diagonal_(0.5)
    torch.testing.assert_close(together, expected, rtol=0, atol=0.01)


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (8,), (3, 5, 11), ()])
def test_any_shape(shape):
    """Words come in eights, activations don't."""
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


def test_the_gradient_falls_with_its_activation():
    x = torch.randn(50, 50, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)


def test_a_seed_fixes_it_and_half_precision_stays():
    """A killed training resumes with the same seeds and must drop the same activations."""
    dropout, x = Dropout(0.3), torch.randn(64, dtype=torch.bfloat16)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(dropout(x))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert drawn[0].dtype == torch.bfloat16


def test_outside_training_and_at_share_0_nothing_falls_or_is_drawn():
    x = torch.randn(9)
    state = torch.random.get_rng_state()
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_share_near_1_leaves_something():
    torch.manual_seed(2)
    y = Dropout(0.9999)(torch.ones(100_000))
    assert y.isfinite().all()
    assert float(y.mean()) == pytest.approx(1.0, abs=0.2)
