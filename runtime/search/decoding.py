"""What a search asks of a model, step by step: torch, onnxruntime and tables all answer it.

Axes: B sentences, S pieces of the source, K beams, V vocabulary, N candidates.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int64

# Whatever a decoder remembers of its sentences; a search only hands it on.
State: TypeAlias = Any


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepRequest:
    """One token more for every beam of every sentence.

    Attributes:
        tokens: The last token of each beam; bos at the first step, where there is one beam.
        scores: Sum of the log probabilities so far, less that of the sentence's best beam; -inf for
            a beam that is dead, which may hold any token and any parent.
        parents: Which beam of the step before each beam continues; 0 at the first step.
        positions: Tokens of the target before `tokens`, bos counted; 0 at the first step.
        num_candidates: How many candidates to return, N, at most K · V; 0 for none.
        want_log_probs: Return `StepAnswer.log_probs`.
        want_attention: Return `StepAnswer.attention`, where the model has any.
    """

    tokens: Int64[np.ndarray, "B K"]
    scores: Float32[np.ndarray, "B K"]
    parents: Int64[np.ndarray, "B K"]
    positions: Int64[np.ndarray, " B"]
    num_candidates: int = 0
    want_log_probs: bool = False
    want_attention: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepAnswer:
    """What follows each beam; what was not asked for is None.

    Attributes:
        state: For the next step.
        candidates: beam · V + token of the highest sums of score and log probability, the highest
            first; of equal ones the lowest number first.
        candidate_log_probs: log P of each candidate's token, given its beam.
        log_probs: log P of every token, given each beam; -inf for pad and bos.
        attention: Weights of the source's pieces.
    """

    state: State
    candidates: Int64[np.ndarray, "B N"] | None = None
    candidate_log_probs: Float32[np.ndarray, "B N"] | None = None
    log_probs: Float32[np.ndarray, "B K V"] | None = None
    attention: Float32[np.ndarray, "B K S"] | None = None


@runtime_checkable  # so that tests can check signatures
class Decoder(Protocol):
    """A model as a search sees it. No answer about a sentence depends on the others beside it."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids, V."""
        ...

    @property
    def has_attention(self) -> bool:
        """Whether `StepAnswer.attention` can be had."""
        ...

    def start(self, src: Int64[np.ndarray, "B S"], src_mask: Bool[np.ndarray, "B S"]) -> State:
        """Read the sources, padded on the right; the mask is True where a piece is."""
        ...

    def step(self, state: State, request: StepRequest) -> StepAnswer:
        """Go one token on; `state` itself stays as it is."""
        ...

    def keep(self, state: State, rows: Int64[np.ndarray, " n"]) -> State:
        """Take these sentences of the state, in this order."""
        ...
