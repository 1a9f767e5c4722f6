"""The parts of a block: norms, feed-forward layers, and attention with its residuals.

Axes: B batch, T time, C channels (d_model).
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from foretell.model.attention import MultiHeadAttention, Rotation

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
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B S C"],
        mask: Bool[Tensor, "#B 1 T S"],
        rotation: Rotation | None = None,
        start: int = 0,
    ) -> Float[Tensor, "B T C"]:
        """Mix the steps that `mask` allows, then transform each; answer from step `start` on."""
        kept: Tensor = x[:, start:]
        if self.norm_first:
            mixed = self.attention(self.attention_norm(x), mask, rotation, start)
            kept = kept + self.dropout(mixed)
            kept = kept + self.dropout(self.feed_forward(self.feed_forward_norm(kept)))
        else:
            mixed = self.attention(x, mask, rotation, start)
            kept = self.attention_norm(kept + self.dropout(mixed))
            kept = self.feed_forward_norm(kept + self.dropout(self.feed_forward(kept)))
        return kept
