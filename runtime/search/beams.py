"""The live hypotheses of all sentences of a search, side by side.

Axes: B sentences, K beams, n tokens of the longest hypothesis, S pieces of the source, L live
beams of one sentence, t tokens of its hypotheses.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from foretell.data.text.tokenizer import BOS
from foretell.runtime.search.candidates import Choice


@dataclass(frozen=True, slots=True, eq=False)
class Beams:
    """Live hypotheses; a sentence's come first among its beams and fall in their sums.

    What they hold is aligned on the right, so that a sentence that began later fits in.

    Attributes:
        sums: What they are ranked by; -inf for a dead beam.
        parents: Which beam of the step before each one continues.
        last: The token that comes into the next step.
        positions: Tokens of each sentence's hypotheses.
        tokens: What they hold, without bos.
        log_probs: log P of each token by the model alone.
        attention: The weights that each token was chosen with, or None.
    """

    sums: Float64[np.ndarray, "B K"]
    parents: Int64[np.ndarray, "B K"]
    last: Int64[np.ndarray, "B K"]
    positions: Int64[np.ndarray, " B"]
    tokens: Int64[np.ndarray, "B K n"]
    log_probs: Float32[np.ndarray, "B K n"]
    attention: Float32[np.ndarray, "B K n S"] | None

    @classmethod
    def start(cls, num_sentences: int, *, source_length: int, with_attention: bool) -> "Beams":
        """One hypothesis a sentence, with nothing in it."""
        shape = num_sentences, 1
        return cls(
            sums=np.zeros(shape),
            parents=np.zeros(shape, dtype=np.int64),
            last=np.full(shape, BOS),
            positions=np.zeros(num_sentences, dtype=np.int64),
            tokens=np.empty((*shape, 0), dtype=np.int64),
            log_probs=np.empty((*shape, 0), dtype=np.float32),
            attention=np.empty((*shape, 0, source_length), dtype=np.float32)
            if with_attention
            else None,
        )

    @property
    def scores(self) -> Float32[np.ndarray, "B K"]:
        """The sums as seen from each sentence's best: small, so that float32 keeps them apart."""
        scores: Float32[np.ndarray, "B K"] = (self.sums - self.sums[:, :1]).astype(np.float32)
        return scores

    def held(self, row: int) -> Int64[np.ndarray, "L t"]:
        """The tokens of a sentence's live hypotheses."""
        live = np.count_nonzero(self.sums[row] > -np.inf)
        return self.tokens[row, :live, self._begin(row) :]

    def history(
        self, row: int, beam: int
    ) -> tuple[
        Int64[np.ndarray, " t"], Float32[np.ndarray, " t"], Float32[np.ndarray, "t S"] | None
    ]:
        """Tokens, log probabilities and attention of one hypothesis."""
        begin = self._begin(row)
        return (
            self.tokens[row, beam, begin:],
            self.log_probs[row, beam, begin:],
            None if self.attention is None else self.attention[row, beam, begin:],
        )

    def grow(self, choice: Choice, attention: Float32[np.ndarray, "B K0 S"] | None) -> "Beams":
        """Go on with what a step has chosen; all that a hypothesis holds follows its parent.

        Args:
            choice: Of the step.
            attention: Weights of the step, by the beams that went into it.
        """
        rows = np.arange(len(choice.sums))[:, None]
        parents = choice.parents
        weights = None
        if self.attention is not None and attention is not None:
            past = self.attention[rows, parents]
            weights = np.concatenate([past, attention[rows, parents][:, :, None]], axis=2)
        return Beams(
            sums=choice.sums,
            parents=parents,
            last=choice.tokens,
            positions=self.positions + 1,
            tokens=np.concatenate([self.tokens[rows, parents], choice.tokens[..., None]], axis=2),
            log_probs=np.concatenate(
                [self.log_probs[rows, parents], choice.log_probs[..., None]], axis=2
            ),
            attention=weights,
        )

    def keep(self, rows: Int64[np.ndarray, " B2"]) -> "Beams":
        """Take these sentences, in this order."""
        return Beams(
            sums=self.sums[rows],
            parents=self.parents[rows],
            last=self.last[rows],
            positions=self.positions[rows],
            tokens=self.tokens[rows],
            log_probs=self.log_probs[rows],
            attention=None if self.attention is None else self.attention[rows],
        )

    def _begin(self, row: int) -> int:
        return int(self.tokens.shape[2] - self.positions[row])
