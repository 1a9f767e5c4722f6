"""The loss that takes its gradient on the way: the same as torch's own, in either precision."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from foretell.model.token_loss import token_loss


def drawn(rows: int, pieces: int, seed: int, spread: float = 3.0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, pieces, generator=generator) * spread
    return logits, torch.randint(pieces, (rows,), generator=generator)


@given(
    rows=st.integers(0, 150),  # a last part that isn't full, and none at all
    pieces=st.integers(1, 40),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
    seed=st.integers(0, 2**31),
)
def test_value_and_gradient_are_those_of_cross_entropy(rows, pieces, smoothing, seed):
    """The oracle is torch's function, which keeps every tensor between."""
    logits, target = drawn(rows, pieces, seed)
    own, other = logits.clone().requires_grad_(), logits.double().requires_grad_()
    loss = token_loss(own, target, smoothing)
    expected = functional.cross_entropy(other, target, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    (loss * 0.25).backward()
    (expected * 0.25).backward()
    torch.testing.assert_close(own.grad.double(), other.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("value", [1e4, -1e4])
def test_logits_far_apart_give_no_infinity(value):
    """A softmax that isn't shifted would overflow."""
    logits = torch.tensor([[value, 0.0], [0.0, value]], requires_grad=True)
    loss = token_loss(logits, torch.tensor([0, 0]), 0.1)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_halved_logits_are_summed_in_full_precision():
    """bfloat16 has three digits; a sum over 6,000 pieces in it would be worth nothing."""
    logits, target = drawn(70, 6000, seed=1)
    halved = logits.bfloat16().requires_grad_()
    loss = token_loss(halved, target, 0.1)
    expected = functional.cross_entropy(
        halved.detach().double(), target, reduction="sum", label_smoothing=0.1
    )
    assert float(loss.detach()) == pytest.approx(float(expected), rel=1e-5)
    loss.backward()
    assert halved.grad.dtype == torch.bfloat16
    # Each row's gradient sums to 0: probability only moves between pieces.
    assert halved.grad.double().sum(dim=1).abs().max() < 1e-2


@torch.no_grad()
def test_nothing_is_kept_where_no_gradient_is_asked_for():
    logits, target = drawn(3, 5, seed=2)
    assert token_loss(logits, target, 0.0).grad_fn is None
