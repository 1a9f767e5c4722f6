"""The options of all sentences of a search as arrays, and what they allow of a step's candidates.

Axes: B sentences, K beams, N candidates, n sentences kept, m places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float64, Int64

from foretell.data.text.tokenizer import EOS, UNK
from foretell.runtime.search.candidates import Candidates, num_considered
from foretell.runtime.search.decoding import StepAnswer
from foretell.runtime.search.hypotheses import SearchRequest, length_norm

# beam · V + token of what may not follow a sentence's hypotheses, by its row.
Banned = Mapping[int, Int64[np.ndarray, " m"]]


@dataclass(frozen=True, eq=False)
class Rules:
    """One number for each sentence.

    Attributes:
        beam_sizes: Hypotheses kept alive.
        considered: Candidates that a choice looks at.
        min_lengths: Fewest tokens of one that ends, the end token counted.
        max_lengths: Most tokens.
        max_norms: What the sum of the longest is divided by.
        bans_unknown: Whether the unknown token is never produced.
    """

    beam_sizes: Int64[np.ndarray, " B"]
    considered: Int64[np.ndarray, " B"]
    min_lengths: Int64[np.ndarray, " B"]
    max_lengths: Int64[np.ndarray, " B"]
    max_norms: Float64[np.ndarray, " B"]
    bans_unknown: Bool[np.ndarray, " B"]

    @classmethod
    def of(cls, requests: Sequence[SearchRequest]) -> "Rules":
        """Read the rules off the requests."""
        options = [request.options for request in requests]
        return cls(
            np.array([one.beam_size for one in options]),
            np.array([num_considered(one.beam_size) for one in options]),
            np.array([one.min_length for one in options]),
            np.array([request.max_length for request in requests]),
            np.array([length_norm(one.options, one.max_length) for one in requests]),
            np.array([not one.replace_unknowns for one in options]),
        )

    def keep(self, rows: Int64[np.ndarray, " n"]) -> "Rules":
        """Take these sentences, in this order."""
        return Rules(
            self.beam_sizes[rows],
            self.considered[rows],
            self.min_lengths[rows],
            self.max_lengths[rows],
            self.max_norms[rows],
            self.bans_unknown[rows],
        )

    def num_candidates(
        self, positions: Int64[np.ndarray, " B"], num_beams: int, banned: Banned
    ) -> int:
        """How many candidates to ask for: enough, should all that are forbidden come first."""
        each_beam = int(self._some_ban_unknown) + int(self._too_early(positions) is not None)
        most_banned = max(map(len, banned.values()), default=0)
        return self._most_considered + each_beam * num_beams + most_banned

    def allow(
        self,
        answer: StepAnswer,
        sums: Float64[np.ndarray, "B K"],
        positions: Int64[np.ndarray, " B"],
        banned: Banned,
        vocab_size: int,
    ) -> Candidates:
        """Take the decoder's candidates, those that are forbidden with the sum -inf.

        Where nothing at all is left to a sentence, its hypotheses may end, as a last resort.
        """
        places, log_probs = answer.candidates, answer.candidate_log_probs
        if places is None or log_probs is None:
            return Candidates.none(len(positions))
        parents, tokens = np.divmod(places, vocab_size)
        forbidden = (tokens == UNK) & self.bans_unknown[:, None]
        too_early = self._too_early(positions)
        if too_early is not None:
            forbidden |= (tokens == EOS) & too_early[:, None]
        for row, of_row in banned.items():
            np.logical_or(forbidden[row], np.isin(places[row], of_row), out=forbidden[row])
        num_sentences, num_beams = sums.shape
        firsts = np.arange(0, num_sentences * num_beams, num_beams)[:, None]
        all_sums = sums.take(parents + firsts) + log_probs
        left = np.where(forbidden, -np.inf, all_sums)
        goes_on: Bool[np.ndarray, " B"] = np.logical_or.reduce(left > -np.inf, axis=1)
        if not goes_on.all():
            left = np.where((tokens == EOS) & ~goes_on[:, None], all_sums, left)
        return Candidates(parents, tokens, log_probs, left)

    @cached_property
    def _most_considered(self) -> int:
        return int(self.considered.max())

    @cached_property
    def _some_ban_unknown(self) -> bool:
        return bool(self.bans_unknown.any())

    @cached_property
    def _longest_min_length(self) -> int:
        return int(self.min_lengths.max())

    def _too_early(self, positions: Int64[np.ndarray, " B"]) -> Bool[np.ndarray, " B"] | None:
        """Where the end token would be too early; None where it is nowhere."""
        if self._longest_min_length <= 1:
            return None
        too_early = positions + 1 < self.min_lengths
        return too_early if too_early.any() else None
