"""Attention against a loop that anyone can follow, and positions; more in test_notes_*.py."""

import math

import pytest
import torch

from foretell.model.attention import MultiHeadAttention, attend, causal_mask
from foretell.model.positions import rotary_angles, rotate, sinusoidal_positions


def loop_attention(q, k, v, mask, num_heads):
    """softmax(q·k / sqrt(D)) v, one head, one query and one key at a time."""
    batch, steps, channels = q.shape
    size = channels // num_heads
    out = torch.zeros_like(q)
    for b in range(batch):
        for h in range(num_heads):
            part = slice(h * size, (h + 1) * size)
            for t in range(steps):
                allowed = [s for s in range(k.shape[1]) if mask[b, 0, t, s]]
                if not allowed:
                    continue
                scores = [float(q[b, t, part] @ k[b, s, part]) / math.sqrt(size) for s in allowed]
                weights = [math.exp(x - max(scores)) for x in scores]
                for weight, s in zip(weights, allowed, strict=True):
                    out[b, t, part] += weight / sum(weights) * v[b, s, part]
    return out


@pytest.fixture
def qkv():
    torch.manual_seed(0)
    return torch.randn(2, 5, 8), torch.randn(2, 7, 8), torch.randn(2, 7, 8)


def test_attention_equals_the_loop(qkv):
    mask = torch.rand(2, 1, 5, 7) < 0.6
    mask[0, 0, 2] = False  # a query that may see nothing
    torch.testing.assert_close(attend(*qkv, mask, 2), loop_attention(*qkv, mask, 2))


def test_a_row_without_keys_gives_zeros_and_no_nan(qkv):
    mask = torch.zeros(2, 1, 5, 7, dtype=torch.bool)
    assert (attend(*qkv, mask, 2) == 0).all()


def test_masked_keys_weigh_exactly_nothing(qkv):
    q, k, v = qkv
    mask = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    mask[..., 3] = False
    other = v.clone()
    other[:, 3] = 1e30
    assert torch.equal(attend(q, k, v, mask, 2), attend(q, k, other, mask, 2))


def test_causal_mask_sees_itself_and_the_past():
    mask = causal_mask(4)
    assert mask.tolist() == [[s <= t for s in range(4)] for t in range(4)]


def test_answering_from_a_later_step_equals_the_end_of_the_whole_answer():
    """Inference asks the last block for the horizon alone; it must be what training saw."""
    torch.manual_seed(1)
    attention = MultiHeadAttention(16, 2)
    x, mask = torch.randn(2, 6, 16), causal_mask(6)[None, None]
    rotation = rotary_angles(torch.arange(6), 8)
    whole = attention(x, mask, rotation)
    late = attention(x, mask[:, :, 4:], rotation, 4)
    torch.testing.assert_close(late, whole[:, 4:])


def test_sinusoids_go_on_past_any_length():
    far = sinusoidal_positions(torch.tensor([1_000_000]), 8)
    assert far.isfinite().all()
    assert far.abs().max() <= 1


def test_rotated_products_depend_on_the_distance_alone():
    torch.manual_seed(2)
    q, k = torch.randn(1, 1, 16), torch.randn(1, 1, 16)

    def product(q_position: int, k_position: int) -> float:
        at = [rotary_angles(torch.tensor([p]), 8) for p in (q_position, k_position)]
        return float((rotate(q, *at[0], 2) * rotate(k, *at[1], 2)).sum())

    assert product(9, 4) == pytest.approx(product(105, 100), abs=1e-4)
    assert product(9, 4) != pytest.approx(product(9, 5), abs=1e-2)


def test_rotation_keeps_lengths():
    x = torch.randn(2, 5, 16)
    turned = rotate(x, *rotary_angles(torch.arange(5), 8), 2)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, 0], x[:, 0])
