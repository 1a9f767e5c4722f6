"""Sequences of tokens that may not be produced, laid out so that a step asks for few of them.

Axes: K live hypotheses, n tokens of each, m places.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int64


@dataclass(slots=True)
class _Node:
    """What is forbidden behind some tokens, and by the token that stands before them."""

    last: list[int] = field(default_factory=list)
    before: dict[int, "_Node"] = field(default_factory=dict)


class BannedSequences:
    """Sequences as a tree, read from their last token but one back to their first.

    A step follows each hypothesis back as far as some sequence agrees with it, mostly not at all,
    and looks at no other sequence: a thousand cost hardly more than one.
    """

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        """Take the sequences, none of them empty."""
        self._root = _Node()
        for *head, last in sequences:
            node = self._root
            for token in reversed(head):
                node = node.before.setdefault(token, _Node())
            node.last.append(last)
        self._always = np.array(self._root.last, dtype=np.int64)

    def places(self, tokens: Int64[np.ndarray, "K n"], vocab_size: int) -> Int64[np.ndarray, " m"]:
        """Find what would complete a sequence.

        Args:
            tokens: Of each live hypothesis.
            vocab_size: V.

        Returns:
            beam · V + token, some maybe more than once.
        """
        beams = np.arange(len(tokens))[:, None] * vocab_size
        places = [(beams + self._always).ravel()]
        for beam, held in enumerate(tokens if self._root.before else ()):
            node = self._root
            for token in reversed(held):
                if int(token) not in node.before:
                    break
                node = node.before[int(token)]
                places.append(beam * vocab_size + np.array(node.last, dtype=np.int64))
        return np.concatenate(places)
