"""Causal scaling: each patch is scaled by what was observed up to its own end, nothing later.

Axes: B batch, T time, N patches, P patch length. T = N·P.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

# sinh(20) is 2.4e8: an output can lie that many standard deviations away, and is always finite.
MAX_ARCSINH = 20.0
# The square of what goes into arcsinh must be a float32.
MAX_SCALED = 1e18


@dataclass(frozen=True, slots=True)
class CausalScale:
    """Level and spread of each patch's past, in data units.

    Attributes:
        reference: The series' first observed value; 0 where nothing was observed. It is subtracted
            before all else, or a movement of 2 on a level of 1e9 would be lost.
        mean: Mean of the observed steps so far, above `reference`.
        std: Their standard deviation; exactly 0 while they are constant.
    """

    reference: Float64[Tensor, "B 1"]
    mean: Float64[Tensor, "B N"]
    std: Float64[Tensor, "B N"]

    def scale(self, values: Float64[Tensor, "B N P"]) -> Float[Tensor, "B N P"]:
        """Return arcsinh of the standardised values; a constant past divides by 1."""
        divisor = torch.where(self.std > 0, self.std, torch.ones_like(self.std))
        centred = values - self.reference[..., None] - self.mean[..., None]
        bounded = (centred / divisor[..., None]).clamp(-MAX_SCALED, MAX_SCALED)
        return torch.asinh(bounded.to(torch.float32))

    def unscale(self, scaled: Float[Tensor, "B N P Q"]) -> Float64[Tensor, "B N P Q"]:
        """Return data units; a constant past multiplies by 0 and gives that constant, exactly."""
        bounded = scaled.to(torch.float32).clamp(-MAX_ARCSINH, MAX_ARCSINH)
        deviation = torch.sinh(bounded).to(torch.float64) * self.std[..., None, None]
        return deviation + self.mean[..., None, None] + self.reference[..., None, None]

    def select(self, start: int) -> "CausalScale":
        """Return the scale of the patches from `start` on."""
        return CausalScale(self.reference, self.mean[:, start:], self.std[:, start:])


def causal_scale(
    values: Float64[Tensor, "B T"], observed: Bool[Tensor, "B T"], patch_length: int
) -> CausalScale:
    """Measure every patch's past by running sums in float64.

    Args:
        values: Data units; unobserved steps may hold anything.
        observed: True where a value was observed.
        patch_length: Steps a patch; T must be a multiple of it.

    Source: prefix statistics as in TimesFM 2.5 and Toto; differs: sums of differences to the first
    observed value, and no epsilon, so that a·y + b gives exactly the scaled values of y.
    """
    first = observed.to(torch.int64).argmax(dim=1, keepdim=True)
    reference = torch.where(observed, values, torch.zeros_like(values)).gather(1, first)
    difference = torch.where(observed, values - reference, torch.zeros_like(values))
    count, total, squares = (
        x.cumsum(dim=1)[:, patch_length - 1 :: patch_length]
        for x in (observed.to(torch.float64), difference, difference * difference)
    )  # each [B N]
    count = count.clamp(min=1.0)
    mean = total / count
    variance = (squares / count - mean * mean).clamp(min=0.0)
    return CausalScale(reference, mean, variance.sqrt())
