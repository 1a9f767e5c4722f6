"""The parts of a block: norms, feed-forward layers, and attention with its residuals.

Axes: B batch, T time, C channels (d_model).
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from foretell.model.attention import CrossAttention, MultiHeadAttention, Rotation
from foretell.model.dropout import Dropout

Norm = Literal["layer", "rms"]
Activation = Literal["swiglu", "relu"]


def make_norm(kind: Norm, d_model: int) -> nn.Module:
    """Return LayerNorm, which divides by sqrt(σ² + ε) as the field does, or RMSNorm."""
    return nn.LayerNorm(d_model) if kind == "layer" else nn.RMSNorm(d_model, eps=1e-5)


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between: ReLU, or SwiGLU with its gate.

    Source: Vaswani et al. 2017, eq. 2; Shazeer 2020, "GLU variants improve Transformer", eq. 6.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Activation) -> None:
        super().__init__()
        self.gated = activation == "swiglu"
        self.up = nn.Linear(d_model, 2 * d_ff if self.gated else d_ff, bias=not self.gated)
        self.down = nn.Linear(d_ff, d_model, bias=not self.gated)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Transform each step by itself."""
        if not self.gated:
            hidden = functional.relu(self.up(x))
        else:
            if torch.onnx.is_in_onnx_export():  # two products: no Split to copy a fused one apart
                width = self.up.out_features // 2
                gate = functional.linear(x, self.up.weight[:width])
                hidden = functional.linear(x, self.up.weight[width:])
            else:
                gate, hidden = self.up(x).chunk(2, dim=-1)
            hidden = functional.silu(gate) * hidden
        output: Tensor = self.down(hidden)
        return output


class ResidualMLP(nn.Module):
    """A hidden layer beside a straight linear path; it changes the width.

    Source: Das et al. 2024, "A decoder-only foundation model for time-series forecasting", section
        4.
    """

    def __init__(self, d_in: int, d_hidden: int, d_out: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_in, d_hidden)
        self.out = nn.Linear(d_hidden, d_out)
        self.skip = nn.Linear(d_in, d_out)

    def forward(self, x: Float[Tensor, "B T I"]) -> Float[Tensor, "B T O"]:
        """Map each step by itself."""
        output: Tensor = self.out(functional.silu(self.hidden(x))) + self.skip(x)
        return output


class Block(nn.Module):
    """Self-attention and feed-forward, each with a residual and a norm before (pre) or after."""

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        d_ff: int,
        norm: Norm,
        norm_first: bool,
        activation: Activation,
        dropout: float,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.attention_norm = make_norm(norm, d_model)
        self.feed_forward_norm = make_norm(norm, d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B S C"],
        mask: Bool[Tensor, "#B 1 T S"],
        rotation: Rotation | None = None,
        start: int = 0,
    ) -> Float[Tensor, "B T C"]:
        """Mix the steps that `mask` allows, then transform each; answer from step `start` on."""
        mixed = self.attention(self._before(self.attention_norm, x), mask, rotation, start)
        return self._transform(self._after(self.attention_norm, x[:, start:], mixed))

    def _transform(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Add the feed-forward layer."""
        transformed = self.feed_forward(self._before(self.feed_forward_norm, x))
        return self._after(self.feed_forward_norm, x, transformed)

    def _before(self, norm: nn.Module, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Return what a sub-layer reads."""
        read: Tensor = norm(x) if self.norm_first else x
        return read

    def _after(
        self, norm: nn.Module, x: Float[Tensor, "B T C"], change: Float[Tensor, "B T C"]
    ) -> Float[Tensor, "B T C"]:
        """Return the residual sum, normalised in post-norm."""
        total: Tensor = x + self.dropout(change)
        if not self.norm_first:
            total = norm(total)
        return total


class DecoderBlock(Block):
    """A block that looks at a memory between its self-attention and its feed-forward layer."""

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        d_ff: int,
        norm: Norm,
        norm_first: bool,
        activation: Activation,
        dropout: float,
    ) -> None:
        super().__init__(
            d_model=d_model,
            num_heads=num_heads,
            d_ff=d_ff,
            norm=norm,
            norm_first=norm_first,
            activation=activation,
            dropout=dropout,
        )
        self.cross_attention = CrossAttention(d_model, num_heads)
        self.cross_norm = make_norm(norm, d_model)

    def remember(
        self, memory: Float[Tensor, "B S C"]
    ) -> tuple[Float[Tensor, "B S C"], Float[Tensor, "B S C"]]:
        """Return the memory's keys and values, which all steps share."""
        return self.cross_attention.key(memory), self.cross_attention.value(memory)

    def decode(
        self,
        x: Float[Tensor, "B T C"],
        mask: Bool[Tensor, "#B 1 T T"],
        keys: Float[Tensor, "B S C"],
        values: Float[Tensor, "B S C"],
        memory_mask: Bool[Tensor, "B 1 T S"],
    ) -> Float[Tensor, "B T C"]:
        """Decode all steps at once."""
        mixed = self.attention(self._before(self.attention_norm, x), mask)
        x = self._after(self.attention_norm, x, mixed)
        return self._transform(self._look(x, keys, values, memory_mask))

    def step(
        self,
        x: Float[Tensor, "B K C"],
        mask: Bool[Tensor, "B 1 K N"],
        past: tuple[Float[Tensor, "B P C"], Float[Tensor, "B P C"]],
        keys: Float[Tensor, "B S C"],
        values: Float[Tensor, "B S C"],
        memory_mask: Bool[Tensor, "B 1 K S"],
    ) -> tuple[
        Float[Tensor, "B K C"],
        Float[Tensor, "B K C"],
        tuple[Float[Tensor, "B N C"], Float[Tensor, "B N C"]],
    ]:
        """Decode one token of each of K beams, after those in the caches.

        Returns:
            The block's output, what its cross-attention read, and the grown caches.
        """
        mixed, *present = self.attention.step(self._before(self.attention_norm, x), mask, *past)
        x = self._after(self.attention_norm, x, mixed)
        looked = self._look(x, keys, values, memory_mask)
        read = self._before(self.cross_norm, x)
        return self._transform(looked), read, (present[0], present[1])

    def _look(
        self,
        x: Float[Tensor, "B T C"],
        keys: Float[Tensor, "B S C"],
        values: Float[Tensor, "B S C"],
        memory_mask: Bool[Tensor, "B 1 T S"],
    ) -> Float[Tensor, "B T C"]:
        """Add what the cross-attention finds in the memory."""
        read = self._before(self.cross_norm, x)
        return self._after(
            self.cross_norm, x, self.cross_attention(read, keys, values, memory_mask)
        )
