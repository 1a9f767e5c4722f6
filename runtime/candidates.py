"""Which hypotheses live on and which end: the choice of one step, for all sentences at once.

Axes: B sentences, N candidates, K beams, V vocabulary, M candidates of one sentence, E hypotheses
that end.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from foretell.data.text import EOS


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What may come next, in the decoder's order; what may not has the gain -inf.

    Attributes:
        places: beam · V + token.
        log_probs: log P of the token by the model alone.
        gains: What the token adds to the sum that hypotheses are ranked by.
    """

    places: Int64[np.ndarray, "B N"]
    log_probs: Float32[np.ndarray, "B N"]
    gains: Float32[np.ndarray, "B N"]

    @classmethod
    def none(cls, num_sentences: int) -> "Candidates":
        """Nothing may come next."""
        nothing = np.empty((num_sentences, 0), dtype=np.float32)
        return cls(nothing.astype(np.int64), nothing, nothing)

    def padded(self, count: int) -> "Candidates":
        """Copy these, filled up to at least so many with what may not be."""
        added = (0, 0), (0, max(0, count - self.places.shape[1]))
        return Candidates(
            np.pad(self.places, added),
            np.pad(self.log_probs, added, constant_values=-np.inf),
            np.pad(self.gains, added, constant_values=-np.inf),
        )

    def replace(self, row: int, own: "Candidates") -> None:
        """Put the candidates of one sentence in the place of a row that is at least as wide."""
        count = own.places.shape[1]
        self.places[row, :count] = own.places[0]
        self.log_probs[row, :count] = own.log_probs[0]
        self.gains[row, :count] = own.gains[0]
        self.gains[row, count:] = -np.inf


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
    sums: Float64[np.ndarray, "B K0"],
    beam_sizes: Int64[np.ndarray, " B"],
    considered: Int64[np.ndarray, " B"],
    *,
    vocab_size: int,
    width: int,
) -> Choice:
    """Choose among the candidates by (sum, beam, token).

    Looked at are the first candidates that may be, a number that is each sentence's own, so that
    no neighbour's wider beam changes a choice. Only one that comes among the best `beam_size` may
    end; the best of the others live on.

    Args:
        candidates: In the decoder's order.
        sums: Of the beams so far; -inf for a dead one.
        beam_sizes: Of each sentence.
        considered: How many candidates are looked at.
        vocab_size: V.
        width: Beams to return for each sentence, K.
    """
    if candidates.places.shape[1] < width:
        candidates = candidates.padded(width)
    rows = np.arange(len(sums))[:, None]
    allowed = candidates.gains > -np.inf
    allowed &= allowed.cumsum(axis=1) <= considered[:, None]
    parents, tokens = np.divmod(candidates.places, vocab_size)
    totals = np.where(allowed, sums[rows, parents] + candidates.gains, -np.inf)

    order = np.lexsort((candidates.places, -totals))
    allowed, is_end = allowed[rows, order], (tokens == EOS)[rows, order]
    ends = allowed & is_end & (np.arange(order.shape[1]) < beam_sizes[:, None])
    goes = allowed & ~is_end
    goes &= goes.cumsum(axis=1) <= beam_sizes[:, None]

    front = np.argsort(~goes, axis=1, kind="stable")[:, :width]
    live = order[rows, front]
    ended_rows, ended = np.nonzero(ends)
    ended = order[ended_rows, ended]
    return Choice(
        parents=parents[rows, live],
        tokens=tokens[rows, live],
        log_probs=candidates.log_probs[rows, live],
        sums=np.where(goes[rows, front], totals[rows, live], -np.inf),
        ended_rows=ended_rows,
        ended_parents=parents[ended_rows, ended],
        ended_log_probs=candidates.log_probs[ended_rows, ended],
        ended_sums=totals[ended_rows, ended],
    )
