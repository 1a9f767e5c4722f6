"""Which hypotheses live on and which end: the choice of one step, for all sentences at once.

Axes: B sentences, N candidates, K beams, V vocabulary, M candidates of one sentence, E hypotheses
that end.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from foretell.data.text.tokenizer import EOS


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What may come next, in the decoder's order.

    Attributes:
        parents: The beam that would go on.
        tokens: What it would go on with.
        log_probs: log P of that by the model alone.
        sums: What the hypothesis would be ranked by; -inf for what may not be.
    """

    parents: Int64[np.ndarray, "B N"]
    tokens: Int64[np.ndarray, "B N"]
    log_probs: Float32[np.ndarray, "B N"]
    sums: Float64[np.ndarray, "B N"]

    @classmethod
    def none(cls, num_sentences: int) -> "Candidates":
        """Nothing may come next."""
        nothing = np.empty((num_sentences, 0), dtype=np.int64)
        return cls(nothing, nothing, nothing.astype(np.float32), nothing.astype(np.float64))

    def padded(self, count: int) -> "Candidates":
        """Copy these, filled up to at least so many with what may not be."""
        added = (0, 0), (0, max(0, count - self.tokens.shape[1]))
        return Candidates(
            np.pad(self.parents, added),
            np.pad(self.tokens, added),
            np.pad(self.log_probs, added),
            np.pad(self.sums, added, constant_values=-np.inf),
        )

    def replace(self, row: int, own: "Candidates") -> None:
        """Put the candidates of one sentence in the place of a row that is at least as wide."""
        count = own.tokens.shape[1]
        self.parents[row, :count] = own.parents[0]
        self.tokens[row, :count] = own.tokens[0]
        self.log_probs[row, :count] = own.log_probs[0]
        self.sums[row, :count] = own.sums[0]
        self.sums[row, count:] = -np.inf


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What a step has chosen; live beams come first and fall in their sums.

    Attributes:
        parents: Which beam of the step before each beam continues.
        tokens: What it continues with.
        log_probs: log P of that by the model alone.
        sums: What hypotheses are ranked by; -inf for a dead beam, which holds any tokens.
        ended_rows: The sentence of each hypothesis that ends, the better ones of it first.
        ended_parents: The beam that ends.
        ended_log_probs: log P of the end.
        ended_sums: What it is ranked by, not yet divided by its length.
    """

    parents: Int64[np.ndarray, "B K"]
    tokens: Int64[np.ndarray, "B K"]
    log_probs: Float32[np.ndarray, "B K"]
    sums: Float64[np.ndarray, "B K"]
    ended_rows: Int64[np.ndarray, " E"]
    ended_parents: Int64[np.ndarray, " E"]
    ended_log_probs: Float32[np.ndarray, " E"]
    ended_sums: Float64[np.ndarray, " E"]


def highest(values: Float32[np.ndarray, " M"], count: int) -> Int64[np.ndarray, " N"]:
    """Find the places of the highest values, the highest first; of equals the lowest place."""
    if count < len(values):
        least = np.partition(values, -count)[-count]
        above = np.flatnonzero(values > least)
        places = np.concatenate([above, np.flatnonzero(values == least)[: count - len(above)]])
    else:
        places = np.arange(len(values))
    return places[np.lexsort((places, -values[places]))]


def num_considered(beam_size: int) -> int:
    """How many candidates a choice looks at: each beam may end, and is then replaced.

    Greedy search replaces none.
    """
    return 1 if beam_size == 1 else 2 * beam_size


def choose(
    candidates: Candidates,
    beam_sizes: Int64[np.ndarray, " B"],
    considered: Int64[np.ndarray, " B"],
    width: int,
) -> Choice:
    """Choose among the candidates by (sum, beam, token).

    Looked at are the first candidates that may be, a number that is each sentence's own, so that
    no neighbour's wider beam changes a choice. Only one that comes among the best `beam_size` may
    end; the best of the others live on.

    Args:
        candidates: In the decoder's order.
        beam_sizes: Of each sentence.
        considered: How many candidates are looked at.
        width: Beams to return for each sentence, K.
    """
    if candidates.tokens.shape[1] < width:
        candidates = candidates.padded(width)
    parents, tokens, log_probs = candidates.parents, candidates.tokens, candidates.log_probs
    num_sentences, count = tokens.shape
    allowed = candidates.sums > -np.inf
    allowed &= allowed.cumsum(axis=1) <= considered[:, None]
    sums = np.where(allowed, candidates.sums, -np.inf)

    # From here on a candidate's place is counted through all sentences: one index is taken faster.
    starts = np.arange(0, num_sentences * count, count)[:, None]
    order = np.lexsort((tokens, parents, -sums)) + starts
    allowed, is_end = allowed.take(order), tokens.take(order) == EOS
    ends = allowed & is_end & (np.arange(count) < beam_sizes[:, None])
    goes = allowed > is_end  # and not
    goes &= goes.cumsum(axis=1) <= beam_sizes[:, None]

    front = np.argsort(~goes, axis=1, kind="stable")[:, :width] + starts
    live = order.take(front)
    ended = order[ends]
    return Choice(
        parents=parents.take(live),
        tokens=tokens.take(live),
        log_probs=log_probs.take(live),
        sums=np.where(goes.take(front), sums.take(live), -np.inf),
        ended_rows=ended // count,
        ended_parents=parents.take(ended),
        ended_log_probs=log_probs.take(ended),
        ended_sums=sums.take(ended),
    )
