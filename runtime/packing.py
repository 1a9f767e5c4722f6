"""Sentences of all lengths in batches of equal ones, such that no answer depends on its neighbours.

The length that a source is padded to depends on that sentence alone, and sentences of another beam
size are in another batch: what a sentence's numbers are summed over is then its own affair.

Axes: n sentences, B sentences of a batch, S pieces of the source, R rungs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from foretell.data.text.tokenizer import PAD

# So many tokens of a translation are reckoned as one piece of its source: they need room, not work.
_TOKENS_OF_TARGET = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences that run together.

    Attributes:
        sentences: Their places in what was planned.
        source_length: Pieces that each source is padded to.
        beam_size: Hypotheses kept alive for each.
    """

    sentences: tuple[int, ...]
    source_length: int
    beam_size: int


def source_ladder(max_source_length: int) -> Int64[np.ndarray, " R"]:
    """List the lengths that sources are padded to, rising.

    They are 16, 32, 48, 64, 96, 128, 192, ... and the model's greatest length at the end: few, so
    that many sentences share one, and close enough to compute little for nothing.
    """
    rungs = [16, 32, 48]
    while rungs[-1] < max_source_length:
        rungs.append(2 * rungs[-2])
    lengths = np.array(rungs, dtype=np.int64)
    return np.append(lengths[lengths < max_source_length], max_source_length)


def source_room(length: int, beam_size: int, max_length: int) -> int:
    """How many of a batch's padded tokens a sentence takes.

    Args:
        length: Pieces that its source is padded to.
        beam_size: Hypotheses kept alive for it.
        max_length: Most tokens of its translation.
    """
    return max(length, max_length // _TOKENS_OF_TARGET) * beam_size


def plan_batches(
    lengths: Sequence[int],
    beam_sizes: Sequence[int],
    max_lengths: Sequence[int],
    *,
    max_source_length: int,
    max_tokens: int,
    parts: int = 1,
) -> Iterator[Batch]:
    """Sort sentences into batches of one length, one beam size and bounded work.

    Args:
        lengths: Pieces of each source, at most `max_source_length`.
        beam_sizes: Hypotheses kept alive for each.
        max_lengths: Most tokens of each translation.
        max_source_length: The longest source that the model takes.
        max_tokens: Most padded pieces of a batch, counted once for each beam.
        parts: Batches that can run at once; sentences of one kind are shared out among them.

    Yields:
        Batches that hold every sentence exactly once, the longest first: what takes longest must
        not begin last.
    """
    ladder = source_ladder(max_source_length)
    rungs = ladder[np.searchsorted(ladder, lengths)].tolist()
    alike: dict[tuple[int, int], list[int]] = {}
    for sentence, kind in enumerate(zip(rungs, beam_sizes, strict=True)):
        alike.setdefault(kind, []).append(sentence)
    for (length, beam_size), sentences in sorted(alike.items(), reverse=True):
        # Few translations grow to their greatest length, but all that do must find room.
        longest = max(max_lengths[sentence] for sentence in sentences)
        most = max(1, max_tokens // source_room(length, beam_size, longest))
        size = min(most, -(-len(sentences) // parts))
        for start in range(0, len(sentences), size):
            yield Batch(tuple(sentences[start : start + size]), length, beam_size)


def pad_sources(
    sources: Sequence[Sequence[int]], length: int
) -> tuple[Int64[np.ndarray, "B S"], Bool[np.ndarray, "B S"]]:
    """Lay sources out side by side, filled up on the right.

    Args:
        sources: The ids of each, at least one and at most `length`.
        length: S.

    Returns:
        The ids, and a mask that is True where a piece is.
    """
    src = np.full((len(sources), length), PAD, dtype=np.int64)
    for row, source in zip(src, sources, strict=True):
        row[: len(source)] = source
    counts = np.array([len(source) for source in sources])
    return src, np.arange(length) < counts[:, None]
