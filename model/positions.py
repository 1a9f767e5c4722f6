"""Where a token stands: sinusoids added to tokens, or rotations of queries and keys.

Axes: B batch, T time, C channels, H heads, D head dimension.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BASE = 10_000.0


def sinusoidal_positions(positions: Int[Tensor, "*B T"], d_model: int) -> Float[Tensor, "*B T C"]:
    """Return sines in the even channels and cosines in the odd ones.

    They are computed, not looked up, so any position works, also beyond those seen in training.

    Source: Vaswani et al. 2017, "Attention is all you need", section 3.5.
    """
    angles = _angles(positions, d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def rotary_angles(
    positions: Int[Tensor, " T"], head_dim: int
) -> tuple[Float[Tensor, "T D2"], Float[Tensor, "T D2"]]:
    """Return the cosines and sines that `rotate` needs, D/2 of each; all heads share them."""
    angles = _angles(positions, head_dim)
    return angles.cos(), angles.sin()


def rotate(
    x: Float[Tensor, "B T C"],
    cos: Float[Tensor, "T D2"],
    sin: Float[Tensor, "T D2"],
    num_heads: int,
) -> Float[Tensor, "B T C"]:
    """Turn each pair of a head's dimensions (i, i + D/2) by its position's angle.

    The dot product of two rotated vectors then depends on the distance of their positions alone.

    Source: Su et al. 2021, "RoFormer", eq. 34; pairs halves instead of neighbours.
    """
    if torch.onnx.is_in_onnx_export():
        caches = (y[None].expand(x.shape[0], -1, -1) for y in (cos, sin))
        turned: Tensor = torch.onnx.ops.rotary_embedding(x, *caches, num_heads=num_heads)
        return turned
    first, second = x.unflatten(-1, (num_heads, 2, -1)).unbind(-2)  # each [B T H D2]
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)


def _angles(positions: Int[Tensor, "*B T"], width: int) -> Float[Tensor, "*B T W"]:
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    return positions[..., None].to(torch.float32) * BASE**-exponents
