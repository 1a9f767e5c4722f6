"""Series of all lengths in batches of equal ones, such that no answer depends on its neighbours.

The length a series is padded to depends on that series alone, never on what else is in the batch.
Padding stands on the left and is NaN, as a step that was not observed.

Axes: N steps of all series together, n series, B batch, L context length, C columns, R rungs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from foretell.data.errors import OptionError

# Attention looks at pairs of tokens, which rule the memory at long horizons.
MAX_BATCH_TOKEN_PAIRS = 1_048_576


# Most tokens of one series: attention over them takes some 200 MB with 8 heads.
MAX_SERIES_TOKENS = 2_048


def check_horizon(horizon: int, *, context_length: int, patch_length: int) -> None:
    """Refuse a horizon whose pairs of tokens would take the memory of the machine.

    Raises:
        OptionError: It is too long for one pass; the longest is named.
    """
    longest = MAX_SERIES_TOKENS * patch_length - context_length
    if horizon > longest:
        raise OptionError(
            f"horizon {horizon:,} is more than this model forecasts in its one pass, {longest:,} "
            "steps; ask for at most as many."
        )


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


def largest_batch(context_length: int, horizon: int, patch_length: int, max_tokens: int) -> int:
    """How many series run together at most.

    Args:
        context_length: Steps that each is cut or padded to.
        horizon: Steps ahead.
        patch_length: Steps of a token.
        max_tokens: Most tokens of a batch.
    """
    tokens = -(-context_length // patch_length) + -(-horizon // patch_length)
    return max(1, min(max_tokens // tokens, MAX_BATCH_TOKEN_PAIRS // tokens**2))


def plan_batches(
    lengths: Int64[np.ndarray, " n"],
    horizon: int,
    *,
    context_length: int,
    patch_length: int,
    max_tokens: int,
    parts: int = 1,
) -> Iterator[Batch]:
    """Sort series into batches of one context length and bounded size.

    Args:
        lengths: Steps of each series.
        horizon: Steps ahead; they take part in the size of a batch.
        context_length: Steps that the model looks at; longer series are cut to their last ones.
        patch_length: Steps of a token.
        max_tokens: Most tokens of a batch.
        parts: Batches that can run at once; series of one length are shared out among them.

    Yields:
        Batches that hold every series exactly once.
    """
    ladder = context_ladder(context_length, patch_length)
    rungs = np.searchsorted(ladder, np.minimum(lengths, context_length))
    for rung in np.unique(rungs).tolist():
        length = int(ladder[rung])
        series = np.flatnonzero(rungs == rung)
        most = largest_batch(length, horizon, patch_length, max_tokens)
        size = min(most, -(-len(series) // parts))
        for start in range(0, len(series), size):
            yield Batch(series[start : start + size], length)


def fill_rows(series: Int64[np.ndarray, " b"], patch_length: int) -> Int64[np.ndarray, " B"]:
    """Repeat the last series until the rows make up whole SIMD vectors of four float32.

    onnxruntime computes softplus, sinh and their like four at a time and the rest one by one, with
    another rounding. Where a patch is no multiple of four steps, which elements are the rest would
    depend on the number of neighbours.

    Args:
        series: Positions of the series of a batch, at least one.
        patch_length: Steps of a token.
    """
    missing = -len(series) % (4 // math.gcd(4, patch_length))
    return np.append(series, np.repeat(series[-1:], missing))


def gather_context(
    columns: Float64[np.ndarray, "N C"],
    indptr: Int64[np.ndarray, " n1"],
    series: Int64[np.ndarray, " B"],
    context_length: int,
) -> Float64[np.ndarray, "B L C"]:
    """Take the last steps of some series, with NaN on the left where a series is shorter.

    Args:
        columns: Values of all series, a column each.
        indptr: Start of each series in `columns`, and the end.
        series: Positions of the series.
        context_length: Steps of each, L.
    """
    starts, ends = indptr[series], indptr[series + 1]
    places = ends[:, None] + np.arange(-context_length, 0)  # [B L]
    context: Float64[np.ndarray, "B L C"] = np.take(columns, np.maximum(places, 0), axis=0)
    context[places < starts[:, None]] = np.nan
    return context
