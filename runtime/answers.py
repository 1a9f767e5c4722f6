"""From what a search found to what a caller reads: texts, weights, refusals.

Axes: n tokens of a hypothesis, S pieces of the source without its end token.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Float32

from foretell.data.errors import OptionError
from foretell.data.text.tokenizer import Tokenizer
from foretell.data.text.translation import (
    Hypothesis,
    PairScore,
    RefusedSentencesError,
    SentenceRefusal,
    Translation,
)
from foretell.runtime.search.hypotheses import FoundHypothesis
from foretell.runtime.search.unknowns import read_text
from foretell.runtime.sources import PairTask, SentenceTask

Answer = TypeVar("Answer")


class Answers(Generic[Answer]):
    """The answers to the sentences or pairs of a call, and why some got none.

    Attributes:
        answers: In the order of the call; None for what was refused.
    """

    def __init__(self, count: int) -> None:
        self.answers: list[Answer | None] = [None] * count
        self._reasons: dict[int, str] = {}

    @property
    def refusals(self) -> tuple[SentenceRefusal, ...]:
        """What was refused, in the order of the call."""
        return tuple(SentenceRefusal(*item) for item in sorted(self._reasons.items()))

    def put(self, position: int, make: Callable[[], Answer]) -> None:
        """Note one answer, or why there is none: the `OptionError` that `make` raises."""
        try:
            self.answers[position] = make()
        except OptionError as error:
            self.refuse(position, error)

    def refuse(self, position: int, error: OptionError) -> None:
        """Note why this one gets no answer."""
        self._reasons[position] = " ".join(error.problems)

    def all(self) -> list[Answer]:
        """Return every answer.

        Raises:
            RefusedSentencesError: Some were refused; it carries the answers of the others.
        """
        if self._reasons:
            raise RefusedSentencesError(self.refusals, self.answers)
        return [answer for answer in self.answers if answer is not None]


def write_translation(
    task: SentenceTask, found: Iterable[FoundHypothesis], tokenizer: Tokenizer
) -> Translation:
    """Write the hypotheses of a sentence as texts; of two that read alike the better one stays.

    Raises:
        OptionError: There are none, or none whose probability is a number.
    """
    hypotheses: dict[str, Hypothesis] = {}
    for one in found:
        if math.isfinite(one.log_prob):
            written = _write(task, one, tokenizer)
            hypotheses.setdefault(written.text, written)
    if not hypotheses:
        raise OptionError(
            "the model gives no translation a probability above 0; ban less, or allow another "
            "length."
        )
    return Translation(
        hypotheses=tuple(hypotheses.values()),
        source_tokens=tokenizer.pieces(task.source.ids[:-1]),
        truncated=task.source.truncated,
    )


def write_score(task: PairTask, log_probs: Sequence[float], tokenizer: Tokenizer) -> PairScore:
    """Sum up the log probabilities of a target's tokens, the end token's last.

    Raises:
        OptionError: They are no numbers.
    """
    if np.isnan(log_probs).any():
        raise OptionError("the model's answer is no number; score another text.")
    log_prob = float(np.cumsum(log_probs)[-1])  # one by one, as a search adds them up
    return PairScore(
        tokens=tokenizer.pieces(task.target[:-1]),
        token_log_probs=tuple(log_probs),
        log_prob=log_prob,
        score=log_prob / len(log_probs),
    )


def alignment(
    attention: Float32[np.ndarray, "n S1"], num_pieces: int
) -> Float32[np.ndarray, "n S"]:
    """Share the attention out among the pieces of the source alone.

    The end token often takes most of it and means nothing; its column goes, and each row sums to 1
    again. Where it took all, no piece has more than another.
    """
    weights = attention[:, :num_pieces].astype(np.float64)
    sums = weights.sum(axis=1, keepdims=True)
    shared = np.divide(
        weights, sums, out=np.full_like(weights, 1 / max(1, num_pieces)), where=sums > 0
    )
    return np.asarray(shared, dtype=np.float32)


def _write(task: SentenceTask, found: FoundHypothesis, tokenizer: Tokenizer) -> Hypothesis:
    ids, attention = found.token_ids, found.attention
    weights = None
    if attention is not None and task.request.options.attention:
        weights = alignment(attention, len(task.source.ids) - 1)
    return Hypothesis(
        text=read_text(ids, attention, task.source.words, tokenizer),
        tokens=tokenizer.pieces(ids),
        token_log_probs=found.token_log_probs,
        log_prob=found.log_prob,
        score=found.score,
        finish_reason=found.finish_reason,
        attention=weights,
    )
