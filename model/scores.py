"""How a decoder state scores the positions of its memory, and what it then gathers.

Axes: B batch, Q queries, S source, C channels (d_model).

Source: Luong et al. 2015 (dot); Vaswani et al. 2017 (scaled dot); Bahdanau et al. 2015 (additive).
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from foretell.model.attention import masked_softmax


class Attention(nn.Module):
    """Attention with one head and no projections of its own, as recurrent decoders use it.

    The scores of a query s and a position h of the memory are

        dot: s·h        scaled_dot: s·h / sqrt(C)        additive: v·tanh(W₁ h + W₂ s)
    """

    def __init__(self, kind: Literal["dot", "scaled_dot", "additive"], d_model: int) -> None:
        super().__init__()
        self.kind = kind
        self.scale = d_model**-0.5 if kind == "scaled_dot" else 1.0
        if kind == "additive":
            self.key = nn.Linear(d_model, d_model, bias=False)  # W₁
            self.query = nn.Linear(d_model, d_model, bias=False)  # W₂
            self.score = nn.Linear(d_model, 1, bias=False)  # v

    def keys(self, memory: Float[Tensor, "B S C"]) -> Float[Tensor, "B S C"]:
        """Return what queries are compared with; computed once a source."""
        keys: Tensor = self.key(memory) if self.kind == "additive" else memory
        return keys

    def scores(
        self, queries: Float[Tensor, "B Q C"], keys: Float[Tensor, "B S C"]
    ) -> Float[Tensor, "B Q S"]:
        """Score every position for every query."""
        if self.kind == "additive":
            summed = (keys[:, None] + self.query(queries)[:, :, None]).tanh()  # [B Q S C]
            scored: Tensor = self.score(summed)[..., 0]
            return scored
        return queries @ keys.transpose(1, 2) * self.scale

    def forward(
        self,
        queries: Float[Tensor, "B Q C"],
        keys: Float[Tensor, "B S C"],
        memory: Float[Tensor, "B S C"],
        mask: Bool[Tensor, "B S"],
    ) -> tuple[Float[Tensor, "B Q C"], Float[Tensor, "B Q S"]]:
        """Return the averages of the memory, and the weights that made them."""
        scores = self.scores(queries, keys).to(torch.float32)
        weights = masked_softmax(scores, mask[:, None])
        return weights.to(memory.dtype) @ memory, weights
