"""Sentences spelled in other pieces each epoch, so that a small corpus says more.

A model that sees a word in one spelling alone learns the spelling, not what it is made of.
Source: Provilkov et al. 2020, BPE-Dropout, arXiv:1910.13267.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretell.data.text.tokenizer import Tokenizer
from foretell.model.pairs import Ids, Pairs


@dataclass(frozen=True, kw_only=True, slots=True)
class SubwordDropout:
    """Spells all pairs for an epoch, by the seed and the epoch's number alone.

    Attributes:
        tokenizer: What spells.
        src: Source sentences.
        tgt: Their translations.
        usual: Both in their usual spelling, which stands where another one would be too long.
        longest_src: Most pieces of a source.
        longest_tgt: Most pieces of a translation.
        dropout: Share of merges left out.
        seed: Fixes every choice.
    """

    tokenizer: Tokenizer
    src: Sequence[str]
    tgt: Sequence[str]
    usual: Pairs
    longest_src: int
    longest_tgt: int
    dropout: float
    seed: int

    def __call__(self, epoch: int) -> Pairs:
        """Return all pairs, in their order."""
        seeds = np.random.SeedSequence((self.seed, epoch)).generate_state(2)
        return Pairs(
            self._side(self.src, self.usual.src, self.longest_src, int(seeds[0])),
            self._side(self.tgt, self.usual.tgt, self.longest_tgt, int(seeds[1])),
        )

    def _side(
        self, texts: Sequence[str], usual: Sequence[Ids], longest: int, seed: int
    ) -> list[Ids]:
        varied = self.tokenizer.encode_varied(texts, self.dropout, seed)
        return [new if len(new) <= longest else old for new, old in zip(varied, usual, strict=True)]
