"""Series of all lengths in batches of equal ones, such that no answer depends on its neighbours.

The length a series is padded to depends on that series alone, never on what else is in the batch.
Padding stands on the left and is NaN, as a step that was not observed.

Axes: N steps of all series together, n series, B batch, L context length, C columns, R rungs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

# Tokens (patches) of one batch: enough to fill a processor, little enough for its memory. The
# second limit is on the pairs of tokens that attention looks at, which rule at long horizons.
MAX_BATCH_TOKENS = 8_192
MAX_BATCH_TOKEN_PAIRS = 1_048_576


@dataclass(frozen=True, slots=True)
class Batch:
    """Series that run together.

    Attributes:
        series: Their positions in the panel.
        context_length: Steps that each is cut or padded to.
    """

    series: Int64[np.ndarray, " B"]
    context_length: int


def context_ladder(context_length: int, patch_length: int) -> Int64[np.ndarray, " R"]:
    """List the lengths that contexts are padded to, rising.

    They are 1, 2, 3, 4, 6, 8, 12, 16, 24, ... patches, and the whole context length at the end:
    few, so that many series share one, and close enough to compute little for nothing.
    """
    rungs = [1, 2, 3]
    while rungs[-1] * patch_length < context_length:
        rungs.append(2 * rungs[-2])
    steps = np.array(rungs, dtype=np.int64) * patch_length
    return np.append(steps[steps < context_length], context_length)


def plan_batches(
    lengths: Int64[np.ndarray, " n"], horizon: int, *, context_length: int, patch_length: int
) -> Iterator[Batch]:
    """Sort series into batches of one context length and bounded size.

    Args:
        lengths: Steps of each series.
        horizon: Steps ahead; they take part in the size of a batch.
        context_length: Steps that the model looks at; longer series are cut to their last ones.
        patch_length: Steps of a token.

    Yields:
        Batches that hold every series exactly once.
    """
    ladder = context_ladder(context_length, patch_length)
    rungs = np.searchsorted(ladder, np.minimum(lengths, context_length))
    for rung in np.unique(rungs):
        length = int(ladder[rung])
        series = np.flatnonzero(rungs == rung)
        size = _batch_size(-(-length // patch_length) + -(-horizon // patch_length))
        for start in range(0, len(series), size):
            yield Batch(series[start : start + size], length)


def _batch_size(tokens: int) -> int:
    return max(1, min(MAX_BATCH_TOKENS // tokens, MAX_BATCH_TOKEN_PAIRS // tokens**2))


def gather_context(
    columns: Float64[np.ndarray, "N C"], indptr: Int64[np.ndarray, " n1"], batch: Batch
) -> Float64[np.ndarray, "B L C"]:
    """Take the last steps of a batch's series, with NaN on the left where a series is shorter.

    Args:
        columns: Values of all series, a column each.
        indptr: Start of each series in `columns`, and the end.
        batch: Which series, and how many steps of each.
    """
    starts, ends = indptr[batch.series], indptr[batch.series + 1]
    places = ends[:, None] + np.arange(-batch.context_length, 0)  # [B L]
    context = np.take(columns, np.maximum(places, 0), axis=0)
    context[places < starts[:, None]] = np.nan
    return context
