"""What both families of translators share: their interface, the embeddings and the output layer.

Axes: B batch, S source, T target, K beams, C channels (d_model), V vocabulary.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from foretell.data.text.tokenizer import BOS, PAD
from foretell.model.dropout import Dropout
from foretell.model.translator_config import TranslatorConfig

# Both are never predicted: their probability is 0. They are the first pieces of every vocabulary.
NUM_UNPREDICTED = 2
assert {PAD, BOS} == set(range(NUM_UNPREDICTED))

# Tensors by name, batch first: what all steps read of the source, and what one step hands the next.
Memory = dict[str, Tensor]
State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one decoding step gives.

    Attributes:
        log_probs: [B K V], of the next token of each beam; -inf for what is never predicted.
        attention: [B K S], where each beam looked; None for a model without attention.
        state: For the next step.
    """

    log_probs: Tensor
    attention: Tensor | None
    state: State


class Seq2Seq(nn.Module, ABC):
    """A translator: an encoder, and a decoder that says what comes next."""

    config: TranslatorConfig
    has_attention: bool

    def __init__(self, vocab_size: int, d_model: int, *, tied_output: bool, dropout: float) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.output = None if tied_output else nn.Linear(d_model, vocab_size, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(vocab_size))
        self.dropout = Dropout(dropout)

    @abstractmethod
    def encode(
        self, src: Int64[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> tuple[Memory, State]:
        """Read the source once; return the memory and the first values of the state."""

    @abstractmethod
    def step(
        self,
        tokens: Int64[Tensor, "B K"],
        parents: Int64[Tensor, "B K"],
        positions: Int64[Tensor, " B"],
        src_mask: Bool[Tensor, "B S"],
        memory: Memory,
        state: State,
    ) -> StepOutput:
        """Decode one token of each beam.

        Args:
            tokens: The last token of each beam; bos at first.
            parents: The beam of the step before that each beam continues; 0 at first.
            positions: Tokens before this one; 0 at first.
            src_mask: True where the source is real.
            memory: As `encode` gave it.
            state: Of the step before; `encode` gives the first, `empty_state` what it lacks.
        """

    @abstractmethod
    def empty_state(self, batch: int) -> State:
        """Return the state before the first step, as far as it doesn't come from `encode`."""

    @abstractmethod
    def decode(
        self,
        src_mask: Bool[Tensor, "B S"],
        memory: Memory,
        state: State,
        tgt: Int64[Tensor, "B T"],
    ) -> Float[Tensor, "B T C"]:
        """Return the hidden output at every step of a given target that starts with bos."""

    def forward(
        self,
        src: Int64[Tensor, "B S"],
        src_mask: Bool[Tensor, "B S"],
        tgt: Int64[Tensor, "B T"],
    ) -> Float[Tensor, "B T C"]:
        """Encode, and decode a given target: the hidden output at every step."""
        memory, state = self.encode(src, src_mask)
        return self.decode(src_mask, memory, state, tgt)

    def embed(self, tokens: Int64[Tensor, "*N"]) -> Float[Tensor, "*N C"]:
        """Return the embeddings, brought to a spread of about 1.

        The output layer shares the weights and wants them small; read as they are, they would
        leave a recurrent cell nearly linear, and its training far behind.

        Source: Vaswani et al. 2017, section 3.4.
        """
        embedded: Tensor = self.embedding(tokens) * math.sqrt(self.d_model)
        return embedded

    def predictable_logits(self, hidden: Float[Tensor, "*N C"]) -> Float[Tensor, "*N W"]:
        """Return the logits of all pieces but the first two, pad and bos, which never come."""
        weight = self.embedding.weight if self.output is None else self.output.weight
        return functional.linear(
            hidden, weight[NUM_UNPREDICTED:], self.output_bias[NUM_UNPREDICTED:]
        )

    def log_probs(self, hidden: Float[Tensor, "*N C"]) -> Float[Tensor, "*N V"]:
        """Return log P of every piece, -inf for those that never come."""
        weight = self.embedding.weight if self.output is None else self.output.weight
        never = self.output_bias.new_full((NUM_UNPREDICTED,), -torch.inf)
        bias = torch.cat((never, self.output_bias[NUM_UNPREDICTED:]))
        # As rows: in a graph they take one operator, and the bias goes with it.
        logits: Tensor = functional.linear(hidden.flatten(0, -2), weight, bias)
        logits = logits.unflatten(0, hidden.shape[:-1])
        return logits.to(torch.float32).log_softmax(dim=-1)
