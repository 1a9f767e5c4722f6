"""Torch beside onnxruntime, step by step: a search runs on one, the other follows it.

Axes: B sentences, S pieces of the source, K beams, N candidates, V vocabulary, n sentences kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from foretell.export.parity import Difference
from foretell.runtime.search.decoding import Decoder, State, StepAnswer, StepRequest
from foretell.runtime.session import Array, on_host

# Allowed difference of float32 numbers: `ATOL`, plus `RTOL` times the expected number.
ATOL = 1e-4
RTOL = 1e-4
# Candidates whose sums are closer than this in torch may come in either order.
NEAR = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class PairedState:
    """The states of both; each has arrays by name, `memory` and `past`."""

    torch: State
    onnx: State


class PairedDecoder:
    """A `Decoder` that answers what onnxruntime answers, and compares all of it with torch.

    Both follow onnxruntime's answers, so that a difference is found where it arises.

    Attributes:
        vocab_size: Number of token ids, V.
        has_attention: Whether attention weights can be had.
        where: What is being compared now; it names what is found.
        found: A comparison for each array of each step.
        near_ties: Steps at which candidates changed places that are all but equally good.
    """

    def __init__(self, model: Decoder, graphs: Decoder) -> None:
        self._model = model
        self._graphs = graphs
        self.vocab_size = graphs.vocab_size
        self.has_attention = graphs.has_attention
        self.where = ""
        self.found: list[Difference] = []
        self.near_ties: list[str] = []

    def start(
        self, src: Int64[np.ndarray, "B S"], src_mask: Bool[np.ndarray, "B S"]
    ) -> PairedState:
        """Read the sources; see `Decoder`."""
        state = PairedState(self._model.start(src, src_mask), self._graphs.start(src, src_mask))
        self._compare("encoder", state.torch.memory, state.onnx.memory)
        self._compare("encoder", state.torch.past, state.onnx.past)
        return state

    def step(self, state: PairedState, request: StepRequest) -> StepAnswer:
        """Go one token on; see `Decoder`."""
        expected = self._model.step(state.torch, replace(request, want_log_probs=True))
        answer = self._graphs.step(state.onnx, request)
        step = f"step {int(request.positions.max())}"
        for name in ("log_probs", "attention"):
            found = getattr(answer, name)
            if found is not None:
                self._compare(step, {name: getattr(expected, name)}, {name: found})
        self._compare(step, expected.state.past, answer.state.past)
        if request.num_candidates:
            self._compare_candidates(step, request.scores, expected, answer)
        return replace(answer, state=PairedState(expected.state, answer.state))

    def keep(self, state: PairedState, rows: Int64[np.ndarray, " n"]) -> PairedState:
        """Take these sentences of the state; see `Decoder`."""
        return PairedState(self._model.keep(state.torch, rows), self._graphs.keep(state.onnx, rows))

    def _compare(
        self,
        step: str,
        expected: Mapping[str, Tensor | np.ndarray],
        found: Mapping[str, Array],
    ) -> None:
        for name, array in expected.items():
            where = f"{self.where}, {step}, {name}"
            self.found.append(difference(where, np.asarray(array), on_host(found[name])))

    def _compare_candidates(
        self,
        step: str,
        scores: Float32[np.ndarray, "B K"],
        expected: StepAnswer,
        answer: StepAnswer,
    ) -> None:
        assert expected.log_probs is not None
        assert expected.candidates is not None
        assert answer.candidates is not None
        assert answer.candidate_log_probs is not None
        rows = len(scores)
        offered = expected.log_probs.reshape(rows, -1)  # [B K·V]
        chosen = np.take_along_axis(offered, answer.candidates, axis=1)
        self._compare(step, {"candidates": chosen}, {"candidates": answer.candidate_log_probs})
        moved: np.ndarray = np.not_equal(expected.candidates, answer.candidates)
        if not moved.any():
            return
        totals = (scores[..., None] + expected.log_probs).reshape(rows, -1)
        best, taken = (
            np.take_along_axis(totals, candidates, axis=1)
            for candidates in (expected.candidates, answer.candidates)
        )  # [B N] each, equal where the order is
        with np.errstate(invalid="ignore"):
            gap = float(np.where(best == taken, 0.0, np.abs(best - taken)).max())
        where = f"{self.where}, {step}, order of candidates"
        self.found.append(Difference(where, gap, gap, gap / NEAR))
        self.near_ties += [f"{where}, row {row}" for row in np.flatnonzero(moved.any(axis=1))]


def difference(where: str, expected: np.ndarray, found: np.ndarray) -> Difference:
    """Compare two arrays: -inf and True must meet exactly, numbers within the tolerance."""
    finite = np.isfinite(expected)
    if (
        found.shape != expected.shape
        or found.dtype != expected.dtype
        or not np.array_equal(expected[~finite], found[~finite])
        or not np.isfinite(found[finite]).all()
    ):
        return Difference(where, np.inf, np.inf, np.inf)
    wanted = expected[finite].astype(np.float64)
    distance = np.abs(found[finite] - wanted)
    size = np.abs(wanted)
    absolute = float(distance.max(initial=0.0))
    return Difference(
        where,
        absolute,
        absolute / max(float(size.max(initial=0.0)), ATOL),
        float((distance / (ATOL + RTOL * size)).max(initial=0.0)),
    )
