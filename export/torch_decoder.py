"""A torch model as a `Decoder`: the search that serves runs on it as it runs on onnxruntime.

Axes: B sentences, S pieces of the source, K beams, V vocabulary, n sentences kept.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from foretell.model.seq2seq import Memory, Seq2Seq, State
from foretell.runtime.search.decoding import StepAnswer, StepRequest


@dataclass(frozen=True, slots=True, eq=False)
class TorchState:
    """What the decoder remembers of its sentences, as `OnnxState` does.

    Attributes:
        src_mask: True where a piece of the source is.
        memory: What the encoder made of the source; the same at every step.
        past: What each step hands to the next.
    """

    src_mask: Tensor
    memory: Memory
    past: State


class TorchDecoder:
    """A translator on torch, on the device where its weights are.

    Attributes:
        vocab_size: Number of token ids, V.
        has_attention: Whether attention weights can be had.
    """

    def __init__(self, model: Seq2Seq) -> None:
        """Take a model in evaluation mode."""
        self._model = model
        self.vocab_size = model.vocab_size
        self.has_attention = model.has_attention

    @torch.inference_mode()
    def start(self, src: Int64[np.ndarray, "B S"], src_mask: Bool[np.ndarray, "B S"]) -> TorchState:
        """Read the sources; see `Decoder`."""
        mask = self._tensor(src_mask)
        memory, initial = self._model.encode(self._tensor(src), mask)
        return TorchState(mask, memory, {**initial, **self._model.empty_state(len(src))})

    @torch.inference_mode()
    def step(self, state: TorchState, request: StepRequest) -> StepAnswer:
        """Go one token on; see `Decoder`."""
        tokens, scores, parents, positions = (
            self._tensor(array)
            for array in (request.tokens, request.scores, request.parents, request.positions)
        )
        output = self._model.step(
            tokens, parents, positions, state.src_mask, state.memory, state.past
        )
        answers: dict[str, Tensor] = {}
        if request.num_candidates:
            totals = (scores[..., None] + output.log_probs).flatten(1)
            candidates = _rank(totals).topk(request.num_candidates, dim=1).indices
            answers["candidates"] = candidates
            answers["candidate_log_probs"] = output.log_probs.flatten(1).gather(1, candidates)
        if request.want_log_probs:
            answers["log_probs"] = output.log_probs
        if request.want_attention and output.attention is not None:
            answers["attention"] = output.attention
        arrays: dict[str, Any] = {name: x.numpy(force=True) for name, x in answers.items()}
        return StepAnswer(state=TorchState(state.src_mask, state.memory, output.state), **arrays)

    @torch.inference_mode()
    def keep(self, state: TorchState, rows: Int64[np.ndarray, " n"]) -> TorchState:
        """Take these sentences of the state; see `Decoder`."""
        kept = self._tensor(rows)

        def of_rows(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: array[kept] for name, array in arrays.items()}

        return TorchState(state.src_mask[kept], of_rows(state.memory), of_rows(state.past))

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.as_tensor(array, device=self._model.output_bias.device)


def _rank(numbers: Float32[Tensor, "B N"]) -> Int64[Tensor, "B N"]:
    """Return integers in the order of the numbers, of equal ones the first the highest.

    Torch's topk takes equal numbers as it likes; these it can't choose among.
    """
    bits = (numbers + 0.0).view(torch.int32)  # -0 becomes 0
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # as integers, negative floats fall where they rise
    places = torch.arange(numbers.shape[1], device=numbers.device)
    return (rising.to(torch.int64) << 32) - places
