"""The translator's two graphs: the encoder, and one step of the search with the selection inside.

Axes: B batch, S source, K beams, J beams of the step before, P cached entries, N candidates,
    V vocabulary, C channels (d_model).
"""

from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from foretell.data.bundles.manifest import GraphSpec
from foretell.export.onnx_graph import Example, Signature, export_graph
from foretell.model.seq2seq import Memory, Seq2Seq, State
from foretell.runtime.search.decoder import DECODER_FILE, ENCODER_FILE

Axes = tuple[str | int, ...]

# Sizes that only the export sees: each at least 2 and unlike the others, or torch may fix it.
_BATCH, _BEAMS, _PAST_BEAMS, _PAST_LEN, _CANDIDATES, EXAMPLE_LENGTH = 2, 3, 4, 5, 6, 7


class EncoderGraph(nn.Module):
    """What runs once a sentence: the memory, then the first values of the state."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, src: Tensor, src_mask: Tensor) -> tuple[Tensor, ...]:
        """Return the arrays of memory and state in their order."""
        memory, state = self.model.encode(src, src_mask)
        return (*memory.values(), *state.values())


class StepGraph(nn.Module):
    """What runs once a token: the decoder's step, and the choice among all that it offers."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Tensor,
        scores: Tensor,
        parents: Tensor,
        positions: Tensor,
        num_candidates: Tensor,
        src_mask: Tensor,
        memory: Memory,
        state: State,
    ) -> tuple[Tensor, ...]:
        """Return candidates, their log probs, all log probs, attention if any, the new state."""
        step = self.model.step(tokens, parents, positions, src_mask, memory, state)
        offered = step.log_probs.flatten(1)  # [B K·V]
        totals = (scores[..., None] + step.log_probs).flatten(1)
        candidates = _highest(totals, num_candidates)
        attention = () if step.attention is None else (step.attention,)
        chosen = offered.gather(1, candidates)
        return (candidates, chosen, step.log_probs, *attention, *step.state.values())


def _highest(totals: Tensor, count: Tensor) -> Tensor:
    """Return the places of the highest numbers, the highest first; of equal ones the lowest."""
    size = (totals.shape[0], cast(int, count.item()))
    # ONNX's operator takes the number as an input, torch's as a constant of the graph.
    _, places = torch.onnx.ops.symbolic_multi_out(
        "TopK",
        (totals, count),
        attrs={"axis": 1, "largest": 1, "sorted": 1},
        dtypes=(totals.dtype, torch.int64),
        shapes=(size, size),
        version=11,
    )
    return places


def export_translator(model: Seq2Seq, folder: Path) -> tuple[GraphSpec, GraphSpec]:
    """Write `encoder.onnx` and `decoder.onnx` into a folder."""
    model.eval()
    src = torch.randint(4, model.vocab_size, (_BATCH, EXAMPLE_LENGTH))
    src_mask = torch.arange(EXAMPLE_LENGTH) < torch.tensor([[EXAMPLE_LENGTH], [EXAMPLE_LENGTH - 3]])
    with torch.inference_mode():
        memory, initial = model.encode(src, src_mask)
    memory = {name: torch.randn(x.shape) for name, x in memory.items()}
    empty = model.empty_state(_BATCH)
    past = {name: _past_example(name, x) for name, x in {**initial, **empty}.items()}
    memory_axes = {name: _memory_axes(x) for name, x in memory.items()}
    encoder = Signature(
        {"src": ("batch", "src_len"), "src_mask": ("batch", "src_len")},
        memory_axes | {_renamed(name, "initial_"): ("batch", 1, model.d_model) for name in initial},
    )
    decoder = _step_signature(model, memory_axes, list(past))
    examples: dict[str, Example] = {
        "tokens": torch.randint(4, model.vocab_size, (_BATCH, _BEAMS)),
        "scores": torch.randn(_BATCH, _BEAMS),
        "parents": torch.randint(_PAST_BEAMS, (_BATCH, _BEAMS)),
        "positions": torch.randint(EXAMPLE_LENGTH, (_BATCH,)),
        "num_candidates": torch.tensor([_CANDIDATES]),
        "src_mask": src_mask,
        "memory": memory,
        "state": past,
    }
    return (
        export_graph(
            EncoderGraph(model), {"src": src, "src_mask": src_mask}, encoder, folder / ENCODER_FILE
        ),
        export_graph(StepGraph(model), examples, decoder, folder / DECODER_FILE),
    )


def _step_signature(model: Seq2Seq, memory: dict[str, Axes], past: list[str]) -> Signature:
    width = model.d_model
    return Signature(
        {
            "tokens": ("batch", "beams"),
            "scores": ("batch", "beams"),
            "parents": ("batch", "beams"),
            "positions": ("batch",),
            "num_candidates": (1,),
            "src_mask": ("batch", "src_len"),
            **memory,
            **{name: _state_axes(name, width, "past_beams", "past_len") for name in past},
        },
        {
            "candidates": ("batch", "num_candidates"),
            "candidate_log_probs": ("batch", "num_candidates"),
            "log_probs": ("batch", "beams", model.vocab_size),
            **({"attention": ("batch", "beams", "src_len")} if model.has_attention else {}),
            **{
                _renamed(name, "present_"): _state_axes(name, width, "beams", "present_len")
                for name in past
            },
        },
    )


def _renamed(past: str, prefix: str) -> str:
    return prefix + past.removeprefix("past_")


def _memory_axes(array: Tensor) -> Axes:
    """[B S C], or [B C] where there is one vector a sentence."""
    return ("batch", *("src_len",) * (array.ndim - 2), array.shape[-1])


def _state_axes(name: str, width: int, beams: str, length: str) -> Axes:
    """Tell a state's axes from its name."""
    if name == "past_ancestors":
        return ("batch", beams, length)
    is_cache = name.startswith(("past_keys_", "past_values_"))
    return ("batch", length if is_cache else beams, width)


def _past_example(name: str, first: Tensor) -> Tensor:
    sizes = {"batch": _BATCH, "past_beams": _PAST_BEAMS, "past_len": _PAST_LEN}
    axes = _state_axes(name, first.shape[-1], "past_beams", "past_len")
    shape = [axis if isinstance(axis, int) else sizes[axis] for axis in axes]
    return torch.rand(shape) < 0.5 if first.dtype == torch.bool else torch.randn(shape)
