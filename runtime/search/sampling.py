"""Tokens drawn at random from what the model gives.

Axes: V vocabulary.
"""

import numpy as np
from jaxtyping import Float32

from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.candidates import highest


def draw(
    gains: Float32[np.ndarray, " V"], options: TranslateOptions, generator: np.random.Generator
) -> int:
    """Draw a token: first the temperature, then `top_k`, then `top_p` of what is left.

    One number of the generator is used, and the tokens are laid out by their ids, so a difference
    in the last bits of the model changes a draw as seldom as can be.

    Args:
        gains: Log probabilities, -inf for what may not be drawn; at least one is finite.
        options: How to draw.
        generator: Of the sentence.
    """
    logits = gains.astype(np.float64) / options.temperature
    weights = np.exp(logits - logits.max())
    count = options.top_k or len(weights)
    if count < len(weights) or options.top_p < 1.0:
        likely = highest(gains, count)
        shares = weights[likely].cumsum()
        if options.top_p < 1.0:
            likely = likely[: np.searchsorted(shares, options.top_p * shares[-1]) + 1]
        weights[np.delete(np.arange(len(weights)), likely)] = 0.0
    heights = weights.cumsum()
    drawn = np.searchsorted(heights, generator.random() * heights[-1], side="right")
    return int(min(drawn, np.flatnonzero(weights)[-1]))  # rounding may carry it past the end
