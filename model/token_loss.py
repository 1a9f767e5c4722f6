"""The loss of predicted tokens, with its gradient taken on the way.

Axes: N targets, W pieces that can come.
"""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

_ROWS = 64  # rows of logits at a time: what is made of them stays in a core's cache


class _TokenLoss(torch.autograd.Function):
    """See `token_loss`."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Float[Tensor, "N W"],
        target: Int64[Tensor, " N"],
        smoothing: float,
    ) -> Float[Tensor, ""]:
        """Return the summed loss."""
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        total = torch.zeros((), dtype=torch.float64, device=logits.device)
        spread = smoothing / logits.shape[1]
        for start in range(0, len(target), _ROWS):
            rows = slice(start, start + _ROWS)
            right = target[rows, None]
            log_p = logits[rows].to(torch.float32).log_softmax(dim=1)
            total -= (1 - smoothing) * log_p.gather(1, right).sum()
            if smoothing:
                total -= spread * log_p.sum()
            if gradient is not None:
                p = log_p.exp_().sub_(spread)
                p.scatter_add_(1, right, p.new_full(right.shape, smoothing - 1))
                gradient[rows] = p
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return total.to(torch.float32)

    @staticmethod
    def backward(ctx: Any, upstream: Float[Tensor, ""]) -> tuple[Tensor, None, None]:
        """Scale the gradient."""
        (gradient,) = ctx.saved_tensors
        return gradient * upstream.to(gradient.dtype), None, None


def token_loss(
    logits: Float[Tensor, "N W"], target: Int64[Tensor, " N"], smoothing: float
) -> Float[Tensor, ""]:
    """-log P of the targets, with a share of each target's probability spread over all pieces.

    The same as `functional.cross_entropy(..., reduction="sum")` in float32. Logits are the largest
    tensor of a small translator's training; here they are read once and left as their gradient, in
    their own type, where several tensors of twice the size would come and go: 25 to 30 % of a step
    on a CPU.

    Source: Szegedy et al. 2016, "Rethinking the Inception architecture", section 7.
    """
    loss: Tensor = _TokenLoss.apply(logits, target, smoothing)  # type: ignore[no-untyped-call]
    return loss
