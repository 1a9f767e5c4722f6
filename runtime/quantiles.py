"""From the quantile levels that a model was trained at to those that a caller asks for.

Axes: B batch, H horizon, K trained levels, Q levels asked for.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from foretell.data.errors import OptionError

# Levels closer than this are one: 0.1 + 0.2 asks for 0.3.
_SAME_LEVEL = 1e-9


def check_levels(trained: Sequence[float], asked: Sequence[float]) -> None:
    """Refuse levels outside the trained range: a tail that was never learned would be invented.

    Raises:
        OptionError: One or more levels lie outside; all are named.
    """
    low, high = trained[0], trained[-1]
    problems = [
        f"quantile {level:g} is outside the range this model was trained for, {low:g} to {high:g}; "
        "ask for levels inside it."
        for level in asked
        if not low - _SAME_LEVEL <= level <= high + _SAME_LEVEL
    ]
    if problems:
        raise OptionError(problems)


def at_levels(
    quantiles: Float64[np.ndarray, "B H K"], trained: Sequence[float], asked: Sequence[float]
) -> Float64[np.ndarray, "B H Q"]:
    """Read quantiles at other levels: trained ones as they are, others by a straight line between.

    Each level's answer depends on nothing but the two trained levels around it, so asking for
    fewer, more or in another order changes none; and a higher level never lies below a lower one,
    to the last bit.

    Args:
        quantiles: At the trained levels, rising along the last axis.
        trained: The trained levels, rising.
        asked: Levels inside the trained range, in any order.
    """
    levels = np.asarray(trained)
    columns = []
    for level in asked:
        nearest = int(np.abs(levels - level).argmin())
        if abs(levels[nearest] - level) < _SAME_LEVEL:
            columns.append(quantiles[..., nearest])
            continue
        above = int(np.searchsorted(levels, level))
        low, high = quantiles[..., above - 1], quantiles[..., above]
        weight = (level - levels[above - 1]) / (levels[above] - levels[above - 1])
        # Rounding may carry the sum past its end.
        columns.append(np.clip(low + weight * (high - low), low, high))
    return np.stack(columns, axis=-1) if columns else quantiles[..., :0]
