"""Pairs of sentences as training batches: alike in length, limited in tokens.

Axes: B batch, S source, T target.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from foretell.data.text.tokenizer import BOS, EOS, PAD

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Encoded sentence pairs, without bos and eos."""

    src: Sequence[Ids]
    tgt: Sequence[Ids]

    def __len__(self) -> int:
        return len(self.src)


# All pairs, in their order, as they are spelled in an epoch.
Respell = Callable[[int], Pairs]


class PairBatches:
    """The batch of a training step, by the seed and the step's number alone.

    An epoch takes every pair once: shuffled, sorted by length, cut into batches, which come in
    random order. Pairs of one length fall together in another way each time.
    """

    def __init__(
        self, pairs: Pairs, batch_tokens: int, seed: int, respell: Respell | None = None
    ) -> None:
        """Cut `pairs` into batches, spelled in another way each epoch if `respell` is given."""
        self._pairs = pairs
        self._respell = respell
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._epoch = -1
        self._first = 0  # step with which the epoch starts
        self._batches: list[list[int]] = []

    def __call__(self, step: int) -> dict[str, Tensor]:
        """Return the batch of a step."""
        if step < self._first:
            self._epoch, self._first, self._batches = -1, 0, []
        while step >= self._first + len(self._batches):
            self._first += len(self._batches)
            self._epoch += 1
            self._batches = self._cut(self._epoch)
        return collate(self._pairs, self._batches[step - self._first])

    def _cut(self, epoch: int) -> list[list[int]]:
        if self._respell is not None:
            self._pairs = self._respell(epoch)
        rng = np.random.default_rng((self._seed, epoch))
        order = rng.permutation(len(self._pairs)).tolist()
        batches = cut_by_tokens(self._pairs, order, self._batch_tokens)
        return [batches[i] for i in rng.permutation(len(batches)).tolist()]


def cut_by_tokens(pairs: Pairs, order: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Sort pairs by length, ties as in `order`, and cut them into batches.

    A batch holds at most `batch_tokens` tokens of padded target, and of padded source; one pair
    that is longer makes a batch of its own.
    """
    lengths = [(len(pairs.tgt[i]) + 1, len(pairs.src[i]) + 1) for i in order]
    places = sorted(range(len(order)), key=lambda place: lengths[place])
    batches: list[list[int]] = []
    longest = 0
    for place in places:
        longest = max(longest, *lengths[place])
        if not batches or (len(batches[-1]) + 1) * longest > batch_tokens:
            batches.append([])
            longest = max(lengths[place])
        batches[-1].append(order[place])
    return batches


def validation_batches(pairs: Pairs, batch_tokens: int) -> list[dict[str, Tensor]]:
    """Return all pairs once."""
    order = list(range(len(pairs)))
    return [collate(pairs, chosen) for chosen in cut_by_tokens(pairs, order, batch_tokens)]


def collate(pairs: Pairs, chosen: Sequence[int]) -> dict[str, Tensor]:
    """Pad the chosen pairs on the right: `src` with eos [B S], `tgt` with bos and eos [B T]."""
    return {
        "src": padded([[*pairs.src[i], EOS] for i in chosen]),
        "tgt": padded([[BOS, *pairs.tgt[i], EOS] for i in chosen]),
    }


def padded(sequences: Sequence[Ids]) -> Tensor:
    """Stack sequences of ids, padded on the right."""
    ids = np.full((len(sequences), max(map(len, sequences))), PAD, dtype=np.int64)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(ids)
