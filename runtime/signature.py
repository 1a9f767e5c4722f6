"""How a translator's two graphs fit each other, and what passes from one step to the next.

    encoder   src, src_mask                                  -> memory_*, initial_*
    decoder   tokens, scores, parents, positions, num_candidates, src_mask, memory_*, past_*
                  -> candidates, candidate_log_probs, log_probs, [attention], present_*

`past_x` is `initial_x` at the first step where the encoder gives one, else an empty array of its
declared axes; later it is the `present_x` of the step before. An array that were left out would be
a beam's history read as another's, so every one must be accounted for when a bundle is loaded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from foretell.data.bundles.bundle import GraphSpec, TensorSpec
from foretell.data.errors import BundleError

BATCH, BEAMS, PAST_LEN = "batch", "beams", "past_len"
PAST_BEAMS = "past_beams"  # of the step before; a step may have more beams or fewer
# Sizes of the axes of a state before the first step; there is one beam then.
_FIRST_SIZES = {BEAMS: 1, PAST_BEAMS: 1, PAST_LEN: 0}

_STEP = (
    TensorSpec("tokens", "int64", (BATCH, BEAMS)),
    TensorSpec("scores", "float32", (BATCH, BEAMS)),
    TensorSpec("parents", "int64", (BATCH, BEAMS)),
    TensorSpec("positions", "int64", (BATCH,)),
    TensorSpec("num_candidates", "int64", (1,)),
)
_SRC = TensorSpec("src", "int64", (BATCH, "src_len"))
_SRC_MASK = TensorSpec("src_mask", "bool", (BATCH, "src_len"))


@dataclass(frozen=True, slots=True)
class DecoderSignature:
    """The arrays of a decoder's state.

    Attributes:
        memory: Names of what the encoder gives and each step reads.
        past: The decoder's inputs that change from step to step.
        initial: For some of `past`, the encoder's output that they start from.
    """

    memory: tuple[str, ...]
    past: tuple[TensorSpec, ...]
    initial: dict[str, str]

    @classmethod
    def read(
        cls, encoder: GraphSpec, decoder: GraphSpec, *, vocab_size: int, has_attention: bool
    ) -> "DecoderSignature":
        """Read the signature off the manifest's graphs.

        Raises:
            BundleError: The graphs don't fit each other; everything that doesn't is named.
        """
        given = {tensor.name: tensor for tensor in encoder.outputs}
        memory = [tensor for tensor in encoder.outputs if tensor.name.startswith("memory_")]
        past = [tensor for tensor in decoder.inputs if tensor.name.startswith("past_")]
        initial = {
            tensor.name: renamed(tensor.name, "initial_")
            for tensor in past
            if renamed(tensor.name, "initial_") in given
        }
        expected = {
            f"the inputs of {encoder.file}": (encoder.inputs, [_SRC, _SRC_MASK]),
            f"the outputs of {encoder.file}": (
                encoder.outputs,
                [*memory, *(_first(tensor) for tensor in past if tensor.name in initial)],
            ),
            f"the inputs of {decoder.file}": (decoder.inputs, [*_STEP, _SRC_MASK, *memory, *past]),
            f"the outputs of {decoder.file}": (
                decoder.outputs,
                [*_answers(vocab_size, has_attention), *map(_present, past)],
            ),
        }
        problems = [
            problem
            for what, (found, wanted) in expected.items()
            for problem in _differences(what, found, wanted)
        ]
        problems += _state_problems(memory, past, initial)
        if problems:
            raise BundleError(problems)
        return cls(tuple(tensor.name for tensor in memory), tuple(past), initial)


def renamed(past: str, prefix: str) -> str:
    """Name the output that goes with an input `past_x`: `present_x` or `initial_x`."""
    return prefix + past.removeprefix("past_")


def empty_past(tensor: TensorSpec, batch: int) -> np.ndarray:
    """Make a state as it is before the first step, where the encoder gives none."""
    sizes = {**_FIRST_SIZES, BATCH: batch}
    shape = [axis if isinstance(axis, int) else sizes[axis] for axis in tensor.shape]
    return np.zeros(shape, dtype=tensor.dtype)


def _answers(vocab_size: int, has_attention: bool) -> Iterator[TensorSpec]:
    yield TensorSpec("candidates", "int64", (BATCH, "num_candidates"))
    yield TensorSpec("candidate_log_probs", "float32", (BATCH, "num_candidates"))
    yield TensorSpec("log_probs", "float32", (BATCH, BEAMS, vocab_size))
    if has_attention:
        yield TensorSpec("attention", "float32", (BATCH, BEAMS, "src_len"))


def _present(past: TensorSpec) -> TensorSpec:
    return TensorSpec(renamed(past.name, "present_"), past.dtype, past.shape)


def _first(past: TensorSpec) -> TensorSpec:
    shape = tuple(
        _FIRST_SIZES.get(axis, axis) if isinstance(axis, str) else axis for axis in past.shape
    )
    return TensorSpec(renamed(past.name, "initial_"), past.dtype, shape)


def _differences(
    what: str, found: Sequence[TensorSpec], expected: Sequence[TensorSpec]
) -> Iterator[str]:
    names, expected_names = [tensor.name for tensor in found], [tensor.name for tensor in expected]
    if names != expected_names:
        yield f"{what} are {names}; expected {expected_names}."
        return
    for tensor, other in zip(found, expected, strict=True):
        if tensor.dtype != other.dtype:
            yield f"{what}: {tensor.name} is {tensor.dtype}; expected {other.dtype}."
        if len(tensor.shape) != len(other.shape) or any(map(_clash, tensor.shape, other.shape)):
            yield (
                f"{what}: {tensor.name} has the shape {list(tensor.shape)}; "
                f"expected {list(other.shape)}."
            )


def _clash(axis: str | int, expected: str | int) -> bool:
    """Tell whether two fixed sizes differ, or one is fixed where any must do."""
    return isinstance(axis, int) and axis != expected


def _state_problems(
    memory: Sequence[TensorSpec], past: Sequence[TensorSpec], initial: dict[str, str]
) -> Iterator[str]:
    for tensor in [*memory, *past]:
        if tensor.shape[:1] != (BATCH,):
            yield (
                f"{tensor.name} has the shape {list(tensor.shape)}; its first axis must be "
                f"{BATCH!r}, so that sentences can leave."
            )
    for tensor in past:
        unknown = [
            axis
            for axis in tensor.shape
            if isinstance(axis, str) and axis not in (BATCH, *_FIRST_SIZES)
        ]
        if unknown and tensor.name not in initial:
            yield (
                f"{tensor.name} has the axes {unknown}, and the encoder gives no "
                f"{renamed(tensor.name, 'initial_')}; nobody knows their first sizes."
            )
