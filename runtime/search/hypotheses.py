"""One sentence of a search: what is asked for it, what was found, and when that is enough.

Axes: n tokens of a hypothesis, S pieces of its source; n1 log probabilities, the end's among them.
"""

import math
from bisect import insort
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float32, Int64

from foretell.data.errors import OptionError
from foretell.data.text.translation import FinishReason, TranslateOptions
from foretell.runtime.search.banned import BannedSequences


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """What is asked for one sentence, as ids.

    Attributes:
        options: How to search; its texts and its rule for the greatest length are not read here.
        max_length: Most tokens, the end token counted, for this very sentence.
        prefix: Tokens that every hypothesis starts with, whatever is banned.
        banned: Sequences of tokens that may not be produced.
        place: Of the sentence in the call; together with the seed it fixes what is drawn.
    """

    options: TranslateOptions
    max_length: int
    prefix: tuple[int, ...] = ()
    banned: tuple[tuple[int, ...], ...] = ()
    place: int = 0

    def __post_init__(self) -> None:
        problems = []
        if self.max_length < 1:
            problems.append(f"max_length is {self.max_length}; it must be 1 or more.")
        if self.options.min_length > self.max_length:
            problems.append(
                f"min_length is {self.options.min_length}, but this sentence's translation may "
                f"have at most {self.max_length} tokens; lower min_length or raise max_length."
            )
        if self.prefix and len(self.prefix) >= self.max_length:
            problems.append(
                f"the prefix has {len(self.prefix)} tokens and the end token, but this sentence's "
                f"translation may have at most {self.max_length}; shorten it or raise max_length."
            )
        if not all(self.banned):
            problems.append("a banned sequence has no tokens; leave it out.")
        if problems:
            raise OptionError(problems)

    @property
    def wants_attention(self) -> bool:
        """Whether weights are to be found with the tokens, where the model has any."""
        return self.options.attention or self.options.replace_unknowns


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FoundHypothesis:
    """One hypothesis of a sentence.

    Attributes:
        token_ids: Its tokens, the end token not among them.
        token_log_probs: log P of each by the model alone; the end token's comes last where the
            hypothesis ended.
        log_prob: Their sum, added up from the first to the last.
        score: The sum that it was ranked by, divided by its length; the sum is `log_prob` unless
            there is a repetition penalty.
        finish_reason: "eos" where it ended, "length" where it was cut.
        attention: Weights of the source's pieces for each of `token_ids`; None unless the request
            wants them, and where the model has none.
    """

    token_ids: tuple[int, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    score: float
    finish_reason: FinishReason
    attention: Float32[np.ndarray, "n S"] | None = None


def length_norm(options: TranslateOptions, length: int) -> float:
    """What a sum over this many tokens, the end token counted, is divided by."""
    if options.length_formula == "gnmt":
        return float(((5 + length) / 6) ** options.length_penalty)
    return float(length**options.length_penalty)


class Sentence:
    """A sentence on its way: what is asked for, and its hypotheses that are complete.

    Attributes:
        row: Its place among the requests of the search.
        request: What is asked for.
        source_length: Its pieces.
        banned: What the request bans; sentences that ban the same may share it.
        num_told: How many tokens of it a stream was told.
    """

    def __init__(
        self, row: int, request: SearchRequest, source_length: int, banned: BannedSequences
    ) -> None:
        options = request.options
        self.row = row
        self.request = request
        self.source_length = source_length
        self.banned = banned
        self.num_told = 0
        self._ended: list[FoundHypothesis] = []  # the best first, at most n_best
        self._cut: list[FoundHypothesis] = []
        self._worst = -math.inf  # the lowest score that is kept, once n_best have ended
        self._num_ended = 0
        # Greedy search takes the most probable token, be it the end; a wider one looks further.
        self._patience = 1.0 if options.beam_size == 1 else options.patience * options.beam_size

    @cached_property
    def generator(self) -> np.random.Generator:
        """What its tokens are drawn from, shared with no other sentence."""
        request = self.request
        seed = np.random.SeedSequence(request.options.seed, spawn_key=(request.place,))
        return np.random.Generator(np.random.PCG64(seed))

    @property
    def bar(self) -> float:
        """The score that a live hypothesis must be able to pass, or no step follows."""
        return self._worst

    def is_content(self, sum_: float, length: int) -> bool:
        """Whether enough have ended, and the best live one is now no better than the best of them.

        How many are returned plays no part: asking for more must not change the best.

        Args:
            sum_: What the best live hypothesis is ranked by.
            length: Its tokens.
        """
        if not self._ended or self._num_ended < self._patience:
            return False
        return self._ended[0].score >= sum_ / length_norm(self.request.options, length)

    @property
    def answer(self) -> list[FoundHypothesis]:
        """What was found, the best first; those that were cut come after those that ended."""
        return (self._ended + self._cut)[: self.request.options.n_best]

    def end(
        self,
        sum_: float,
        tokens: Int64[np.ndarray, " n"],
        log_probs: Float32[np.ndarray, " n1"],
        attention: Float32[np.ndarray, "n S"] | None,
    ) -> None:
        """Keep a hypothesis that has ended, if it is among the best.

        Args:
            sum_: What it is ranked by, not yet divided by its length.
            tokens: The end token not among them.
            log_probs: Of each token, the end token's last.
            attention: Padded like the batch.
        """
        options = self.request.options
        self._num_ended += 1
        if sum_ / length_norm(options, len(log_probs)) > self._worst:
            found = self._complete(sum_, tokens, log_probs, attention, "eos")
            insort(self._ended, found, key=lambda one: -one.score)  # of equals the first found
            del self._ended[options.n_best :]
        if len(self._ended) == options.n_best:
            self._worst = self._ended[-1].score

    def cut(
        self,
        sum_: float,
        tokens: Int64[np.ndarray, " n"],
        log_probs: Float32[np.ndarray, " n"],
        attention: Float32[np.ndarray, "n S"] | None,
    ) -> None:
        """Keep a hypothesis that has no room to go on; give the better ones first."""
        self._cut.append(self._complete(sum_, tokens, log_probs, attention, "length"))

    def tell(self, held: Int64[np.ndarray, "K t"]) -> tuple[int, ...]:
        """Tell what has become certain: what all live hypotheses and the best ended one share.

        The hypothesis that will be the best is that one, or goes on from a live one.

        Args:
            held: Tokens of the live hypotheses, at least one.
        """
        shared = (held == held[0]).all(axis=0)
        if self._ended:
            best = self._ended[0].token_ids[: len(shared)]
            shared[: len(best)] &= held[0, : len(best)] == best
            shared[len(best) :] = False
        count = len(shared) if shared.all() else int(shared.argmin())
        told = tuple(held[0, self.num_told : count].tolist())
        self.num_told += len(told)
        return told

    def _complete(
        self,
        sum_: float,
        tokens: Int64[np.ndarray, " n"],
        log_probs: Float32[np.ndarray, " n1"],
        attention: Float32[np.ndarray, "n S"] | None,
        finish_reason: FinishReason,
    ) -> FoundHypothesis:
        return FoundHypothesis(
            token_ids=tuple(tokens.tolist()),
            token_log_probs=tuple(log_probs.tolist()),
            # Added up one by one, as the search does: without a penalty the same bits as `sum_`.
            log_prob=float(np.cumsum(log_probs, dtype=np.float64)[-1]),
            score=sum_ / length_norm(self.request.options, len(log_probs)),
            finish_reason=finish_reason,
            attention=attention[:, : self.source_length].copy()
            if attention is not None and self.request.wants_attention
            else None,
        )
