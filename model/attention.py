"""Scaled dot-product attention over several heads, for self- and cross-attention alike.

Axes: B batch, T queries, S keys, C channels (d_model), H heads, D head dimension. Masks say True =
    may be used.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from foretell.model.positions import rotate

Rotation = tuple[Float[Tensor, "S D2"], Float[Tensor, "S D2"]]


def causal_mask(length: int, device: torch.device | None = None) -> Bool[Tensor, "T T"]:
    """Return a mask in which each step sees itself and all before it."""
    steps = torch.arange(length, device=device)
    return steps[None, :] <= steps[:, None]


def masked_softmax(
    scores: Float[Tensor, "*N S"], mask: Bool[Tensor, "*#N S"]
) -> Float[Tensor, "*N S"]:
    """Return weights that sum to 1 over what may be used and are exactly 0 elsewhere.

    A row in which nothing may be used gives zeros, where a plain softmax gives NaN.
    """
    low = torch.finfo(scores.dtype).min
    weights: Tensor = scores.masked_fill(~mask, low).softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights


def attend(
    queries: Float[Tensor, "B T C"],
    keys: Float[Tensor, "B S C"],
    values: Float[Tensor, "B S C"],
    mask: Bool[Tensor, "#B 1 T S"],
    num_heads: int,
) -> Float[Tensor, "B T C"]:
    """Average the values by softmax(q·k / sqrt(D)) in each head; a row without keys gives zeros.

    Source: Vaswani et al. 2017, "Attention is all you need", eq. 1.
    """
    if torch.onnx.is_in_onnx_export():
        # One standard operator that reads the heads from a 3-D input: no transposes in the graph.
        output, *_ = torch.onnx.ops.attention(
            queries, keys, values, mask, q_num_heads=num_heads, kv_num_heads=num_heads
        )
        return output
    batch, steps, channels = queries.shape
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (queries, keys, values))
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        # Torch's fused kernel goes backward five times as slowly as these products here.
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)  # [B H T S]
        mixed: Tensor = masked_softmax(scores.to(torch.float32), mask).to(v.dtype) @ v
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # [B H T D]
    return mixed.transpose(1, 2).reshape(batch, steps, channels)


class MultiHeadAttention(nn.Module):
    """Self-attention with d_model split over the heads, and 4 d_model² weights."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B S C"],
        mask: Bool[Tensor, "#B 1 T S"],
        rotation: Rotation | None = None,
        start: int = 0,
    ) -> Float[Tensor, "B T C"]:
        """Let each step from `start` on attend to the steps that `mask` allows: T = S - start."""
        if start == 0 and not torch.onnx.is_in_onnx_export():
            queries, keys, values = self.qkv(x).chunk(3, dim=-1)  # each [B S C]
        else:
            # In a graph too: three products give three outputs, one would be copied apart by Split.
            weight, width = self.qkv.weight, x.shape[-1]
            queries = functional.linear(x[:, start:], weight[:width])  # [B T C]
            keys = functional.linear(x, weight[width : 2 * width])  # [B S C]
            values = functional.linear(x, weight[2 * width :])
        if rotation is not None:
            cos, sin = rotation
            queries = rotate(queries, cos[start:], sin[start:], self.num_heads)
            keys = rotate(keys, cos, sin, self.num_heads)
        attended: Tensor = self.out(attend(queries, keys, values, mask, self.num_heads))
        return attended

    def step(
        self,
        x: Float[Tensor, "B K C"],
        mask: Bool[Tensor, "B 1 K N"],
        past_keys: Float[Tensor, "B P C"],
        past_values: Float[Tensor, "B P C"],
    ) -> tuple[Float[Tensor, "B K C"], Float[Tensor, "B N C"], Float[Tensor, "B N C"]]:
        """Let K new tokens attend to cached ones and to themselves; N = P + K.

        Returns:
            What each token gathered, and the grown caches of keys and values.
        """
        width, weight = x.shape[-1], self.qkv.weight
        keys = torch.cat((past_keys, functional.linear(x, weight[width : 2 * width])), dim=1)
        values = torch.cat((past_values, functional.linear(x, weight[2 * width :])), dim=1)
        queries = functional.linear(x, weight[:width])
        return self.out(attend(queries, keys, values, mask, self.num_heads)), keys, values


class CrossAttention(nn.Module):
    """Attention of a decoder to its memory, whose keys and values are computed once.

    It has 4 d_model² weights too.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        keys: Float[Tensor, "B S C"],
        values: Float[Tensor, "B S C"],
        mask: Bool[Tensor, "B 1 T S"],
    ) -> Float[Tensor, "B T C"]:
        """Let each step attend to the memory that `mask` allows."""
        attended: Tensor = self.out(attend(self.query(x), keys, values, mask, self.num_heads))
        return attended

    def weights(
        self,
        x: Float[Tensor, "B T C"],
        keys: Float[Tensor, "B S C"],
        mask: Bool[Tensor, "B T S"],
    ) -> Float[Tensor, "B T S"]:
        """Return where `forward` looks, averaged over the heads."""
        queries, keys = (
            y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for y in (self.query(x), keys)
        )  # [B H T D], [B H S D]
        scores = queries @ keys.transpose(2, 3) * queries.shape[-1] ** -0.5
        return masked_softmax(scores, mask[:, None]).mean(dim=1)
