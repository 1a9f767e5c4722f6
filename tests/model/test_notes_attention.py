"""The notes on attention, as facts that hold for ours: scores, scaling, heads, masks."""

import math

import pytest
import torch
from torch import nn

from foretell.model.attention import CrossAttention, MultiHeadAttention, causal_mask, masked_softmax
from foretell.model.scores import Attention

B, Q, S, C = 2, 3, 5, 8
SCORES = ["dot", "scaled_dot", "additive"]


def naive_score(attention, s, h):
    """One score, number by number, as the notes write it."""
    if attention.kind == "additive":
        w1, w2, v = attention.key.weight, attention.query.weight, attention.score.weight[0]
        inner = [
            math.tanh(sum(float(w1[i, j] * h[j] + w2[i, j] * s[j]) for j in range(C)))
            for i in range(C)
        ]
        return sum(float(v[i]) * inner[i] for i in range(C))
    product = sum(float(s[j] * h[j]) for j in range(C))
    return product / math.sqrt(C) if attention.kind == "scaled_dot" else product


@pytest.fixture
def asked():
    """Queries, a memory, and a mask that leaves out parts of it."""
    torch.manual_seed(0)
    mask = torch.tensor([[True] * S, [True, True, False, True, False]])
    return torch.randn(B, Q, C), torch.randn(B, S, C), mask


@pytest.mark.parametrize("kind", SCORES)
@torch.no_grad()
def test_scores_weights_and_averages_equal_the_loop(kind, asked):
    """e_i, α = softmax(e), a = Σ α_i h_i: the notes' three steps, for each of the three scores."""
    queries, memory, mask = asked
    attention = Attention(kind, C)
    gathered, weights = attention(queries, attention.keys(memory), memory, mask)
    for b in range(B):
        real = [i for i in range(S) if mask[b, i]]
        for q in range(Q):
            powers = {
                i: math.exp(naive_score(attention, queries[b, q], memory[b, i])) for i in real
            }
            for i in range(S):
                share = powers.get(i, 0.0) / sum(powers.values())
                assert float(weights[b, q, i]) == pytest.approx(share, rel=1e-4)
            average = sum(powers[i] / sum(powers.values()) * memory[b, i] for i in real)
            torch.testing.assert_close(gathered[b, q], average, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", SCORES)
@torch.no_grad()
def test_masked_positions_weigh_exactly_nothing_and_the_rest_sums_to_1(kind, asked):
    """-∞ before the softmax gives 0 after it: not nearly 0, or padding would leak into answers."""
    queries, memory, mask = asked
    attention = Attention(kind, C)
    gathered, weights = attention(queries, attention.keys(memory), memory, mask)
    assert (weights.movedim(2, 1)[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, Q))
    other = torch.where(mask[..., None], memory, 1e6)
    again, _ = attention(queries, attention.keys(other), other, mask)
    assert torch.equal(again, gathered)


@pytest.mark.parametrize("kind", SCORES)
def test_a_wholly_masked_row_gives_zeros_and_finite_gradients(kind, asked):
    """A plain softmax over nothing but -∞ is NaN, and one such row ruins a batch's gradients."""
    queries, memory, _ = asked
    attention = Attention(kind, C)
    memory.requires_grad_()
    mask = torch.tensor([[True] * S, [False] * S])
    gathered, weights = attention(queries, attention.keys(memory), memory, mask)
    assert (weights[1] == 0).all()
    assert (gathered[1] == 0).all()
    gathered.sum().backward()
    assert memory.grad.isfinite().all()
    assert (memory.grad[1] == 0).all()


def test_a_plain_softmax_would_give_nan():
    scores = torch.full((1, 3), -torch.inf)
    assert scores.softmax(dim=-1).isnan().all()
    assert (masked_softmax(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool)) == 0).all()


def test_under_a_causal_mask_a_step_weighs_the_future_exactly_0():
    weights = masked_softmax(torch.randn(6, 6), causal_mask(6))
    assert (weights.triu(1) == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(6))
    assert weights[0].tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("d_k", [1, 16, 256])
def test_the_variance_of_a_dot_product_is_d_k_and_of_a_scaled_one_1(d_k):
    """Var(q·k) = Σ Var(q_l) Var(k_l) = d_k for independent parts of mean 0 and variance 1."""
    generator = torch.Generator().manual_seed(3)
    queries = torch.randn(400, 100, d_k, generator=generator)
    memory = torch.randn(400, 1, d_k, generator=generator)
    for kind, variance in (("dot", d_k), ("scaled_dot", 1)):
        scores = Attention(kind, d_k).scores(queries, memory)
        assert float(scores.var()) == pytest.approx(variance, rel=0.15)


def test_unscaled_scores_saturate_the_softmax():
    """Why to scale: at 512 dimensions unscaled weights are nearly one-hot and hardly learn."""
    generator = torch.Generator().manual_seed(4)
    queries, memory = (torch.randn(64, n, 512, generator=generator) for n in (1, 20))
    mean_slope = {}
    for kind in ("dot", "scaled_dot"):
        scores = Attention(kind, 512).scores(queries, memory)
        weights = scores.softmax(dim=-1)
        mean_slope[kind] = float((weights * (1 - weights)).mean())  # ∂α_i/∂e_i
    assert mean_slope["dot"] < 0.1 * mean_slope["scaled_dot"]


def head_by_head(x, memory, weights, out, num_heads):
    """Concat(head_1 … head_h) W_O, each head with its own W_i of d_model to d_model / h."""
    size = x.shape[-1] // num_heads
    heads = []
    for i in range(num_heads):
        part = slice(i * size, (i + 1) * size)
        q, k, v = (y @ w[part].T for y, w in zip((x, memory, memory), weights, strict=True))
        heads.append((q @ k.transpose(1, 2) / math.sqrt(size)).softmax(dim=-1) @ v)
    return torch.cat(heads, dim=-1) @ out.T


@pytest.mark.parametrize("num_heads", [1, 2, 8])
@torch.no_grad()
def test_multi_head_attention_is_separate_heads_through_w_o(num_heads):
    """Each head works on d_model / h dimensions, not on all of them, as many texts have it."""
    torch.manual_seed(5)
    x, memory = torch.randn(B, Q, C), torch.randn(B, S, C)
    own = MultiHeadAttention(C, num_heads)
    expected = head_by_head(x, x, own.qkv.weight.chunk(3), own.out.weight, num_heads)
    torch.testing.assert_close(own(x, torch.ones(B, 1, Q, Q, dtype=torch.bool)), expected)
    cross = CrossAttention(C, num_heads)
    weights = [cross.query.weight, cross.key.weight, cross.value.weight]
    expected = head_by_head(x, memory, weights, cross.out.weight, num_heads)
    mask = torch.ones(B, 1, Q, S, dtype=torch.bool)
    torch.testing.assert_close(cross(x, cross.key(memory), cross.value(memory), mask), expected)


@pytest.mark.parametrize("module", [MultiHeadAttention, CrossAttention])
def test_attention_has_four_d_model_squared_weights_however_many_heads(module, num_weights):
    """W_Q, W_K, W_V and W_O: the heads share the width, so more of them cost nothing."""
    assert {num_weights(module(24, heads)) for heads in (1, 2, 8)} == {4 * 24**2}


def test_additive_scores_alone_have_weights_to_learn(num_weights):
    """v, W_1 and W_2: 2 d² + d. Dot and scaled dot have none; W_c and the cells adapt to them."""
    assert [num_weights(Attention(kind, C)) for kind in SCORES] == [0, 0, 2 * C**2 + C]


@torch.no_grad()
def test_attention_without_positions_sees_a_bag_of_words():
    """Order comes from positions and masks alone: shuffled steps give shuffled answers."""
    torch.manual_seed(6)
    x, attention = torch.randn(1, S, C), MultiHeadAttention(C, 2)
    mask = torch.ones(1, 1, S, S, dtype=torch.bool)
    order = torch.randperm(S)
    torch.testing.assert_close(attention(x[:, order], mask), attention(x, mask)[:, order])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_half_precision_takes_another_way_to_the_same_answer(dtype):
    """In bfloat16 attention is plain products instead of torch's kernel; masks mean the same."""
    torch.manual_seed(7)
    x, attention = torch.randn(B, S, C), MultiHeadAttention(C, 2)
    mask = causal_mask(S)[None, None].repeat(B, 1, 1, 1)
    mask[1, 0, 2] = False
    exact = attention(x, mask)
    near = attention.to(dtype)(x.to(dtype), mask)
    torch.testing.assert_close(near.float(), exact, rtol=0.05, atol=0.02)
    assert (near[1, 2] == 0).all()


def test_attention_weights_are_where_cross_attention_looks():
    """What is drawn is what is used: the mean over heads of the very weights of `forward`."""
    torch.manual_seed(8)
    x, memory = torch.randn(B, Q, C), torch.randn(B, S, C)
    cross = CrossAttention(C, 1)
    nn.init.eye_(cross.out.weight)
    mask = torch.ones(B, Q, S, dtype=torch.bool)
    mask[0, :, 3:] = False
    keys, values = cross.key(memory), cross.value(memory)
    weights = cross.weights(x, keys, mask)
    torch.testing.assert_close(weights @ values, cross(x, keys, values, mask[:, None]))
    assert (weights[0, :, 3:] == 0).all()
