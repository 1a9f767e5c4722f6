"""What training makes small.

Axes: B batch, N patches, P patch length, Q quantiles.
"""

from jaxtyping import Bool, Float
from torch import Tensor, where, zeros_like


def quantile_loss(
    predicted: Float[Tensor, "B N P Q"],
    target: Float[Tensor, "B N P"],
    usable: Bool[Tensor, "B N P"],
    levels: Float[Tensor, " Q"],
) -> Float[Tensor, ""]:
    """Return the pinball loss, summed over usable targets and averaged over levels.

    It is least where `predicted` holds the quantiles. Quantiles pass through any rising map, so the
    loss may be taken in the scaled space.

    Args:
        predicted: Quantiles at `levels`.
        target: What came; unusable ones may hold anything finite.
        usable: True where the target counts.
        levels: Inside (0, 1).

    Source: Koenker and Bassett 1978, "Regression quantiles".
    """
    error = target[..., None] - predicted
    pinball = (levels * error).maximum((levels - 1) * error).mean(dim=-1)
    return where(usable, pinball, zeros_like(pinball)).sum()
