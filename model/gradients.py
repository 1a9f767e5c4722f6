"""How far back gradients reach in a recurrent translator, measured on sentences.

A gradient on its way from step t back to step k is multiplied by ∂h_t/∂h_k. The norms of that
matrix say whether what a sentence's end teaches still reaches its start. An LSTM's h is its whole
state, hidden and cell, without which the product of steps isn't their derivative.

What a cell reads beside its state counts as given, as x does in the formula: tokens, the layer
below, and a decoder's fed-back output. Axes: n sentences, L lags, H hidden width.

Source: Pascanu et al. 2013, "On the difficulty of training recurrent neural networks", section 2.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from foretell.data.errors import ForetellError
from foretell.data.text.tokenizer import BOS, EOS
from foretell.model.cells import Cell, CellState
from foretell.model.jacobians import (
    GATES,
    log_norms,
    spectral_norm,
    step_bounds,
    step_factors,
    step_jacobians,
)
from foretell.model.recurrent import Recurrent
from foretell.model.run import ForecasterRun, Run

# A gradient that keeps its size within this factor from end to start of a sentence is kept.
KEPT_WITHIN = 10.0
# Lags that fewer of the sentences reach aren't told: the longest few would speak for all.
_LEAST_SHARE = 0.25
_LEAST_LOG = math.log(1e-300)  # of norms; smaller ones count as this

Verdict = Literal["vanish", "explode", "kept"]
Steps = list[tuple[Tensor, CellState]]  # what a cell was given


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The way back through one layer, in one direction of reading.

    Attributes:
        name: "encoder, forward", "decoder", with its layer where there are several.
        singular_values: Of the recurrent weights of each gate, falling.
        log_norms: log ‖∂h_t/∂h_(t-l)‖ [n L] for the last step t of each sentence and all lags l
            from 1 that a quarter of the sentences reach; NaN beyond a sentence's start.
        log_bounds: The same of the bound by singular values: for the plain cell Π λ1 max σ'(z_j).
        log_step_norms: log ‖∂h_j/∂h_(j-1)‖ of single steps j of all sentences.
    """

    name: str
    singular_values: dict[str, Float64[np.ndarray, " H"]]
    log_norms: Float64[np.ndarray, "n L"]
    log_bounds: Float64[np.ndarray, "n L"]
    log_step_norms: Float64[np.ndarray, " N"]

    @property
    def is_measured(self) -> bool:
        """Whether there were sentences long enough to tell how norms go on: lags 1 and 2."""
        return len(self.lags) > 1

    @property
    def lags(self) -> Float64[np.ndarray, " L"]:
        """The lags, from 1."""
        return 1.0 + np.arange(self.log_norms.shape[1])

    @property
    def mean(self) -> Float64[np.ndarray, " L"]:
        """Geometric mean of the norms over the sentences, by lag."""
        norms: np.ndarray = np.exp(np.nanmean(self.log_norms, axis=0))
        return norms

    @property
    def bound(self) -> Float64[np.ndarray, " L"]:
        """Geometric mean of the bounds."""
        bounds: np.ndarray = np.exp(np.nanmean(self.log_bounds, axis=0))
        return bounds

    def quantile(self, level: float) -> Float64[np.ndarray, " L"]:
        """Quantile of the norms over the sentences, by lag."""
        norms: np.ndarray = np.exp(np.nanquantile(self.log_norms, level, axis=0))
        return norms

    @property
    def largest(self) -> float:
        """λ1, the largest singular value of all gates."""
        return max(float(values[0]) for values in self.singular_values.values())

    @property
    def effective(self) -> float:
        """Largest singular value of a step as a whole, slopes and gates in it; geometric mean."""
        return math.exp(float(self.log_step_norms.mean()))

    @property
    def bound_rate(self) -> float:
        """Factor by which the bound changes with a step."""
        return self._fit(self.log_bounds)[0]

    @cached_property
    def rate(self) -> float:
        """Factor by which the norm changes with a step: a line through log norm against lag."""
        return self._fit(self.log_norms)[0]

    @property
    def line(self) -> Float64[np.ndarray, " L"]:
        """The fitted norms."""
        rate, start = self._fit(self.log_norms)
        return start * rate**self.lags

    @property
    def half_life(self) -> float:
        """Steps in which the norm halves, or doubles where it grows; infinite where it stays."""
        return math.log(2) / abs(math.log(self.rate)) if self.rate != 1 else math.inf

    @property
    def reach(self) -> int:
        """Lags from end to start of a sentence; the median of the sentences."""
        return int(np.median((~np.isnan(self.log_norms)).sum(axis=1)))

    @property
    def left(self) -> float:
        """What a gradient is multiplied by on this way, by the rate."""
        return self.rate**self.reach

    @property
    def verdict(self) -> Verdict:
        """What becomes of a gradient on that way."""
        if self.left < 1 / KEPT_WITHIN:
            return "vanish"
        return "explode" if self.left > KEPT_WITHIN else "kept"

    def _fit(self, logs: Float64[np.ndarray, "n L"]) -> tuple[float, float]:
        """Fit log norm = log start + lag · log rate by least squares over all sentences."""
        lags = np.broadcast_to(self.lags, logs.shape)
        known = ~np.isnan(logs)
        slope, start = np.polyfit(lags[known], logs[known], 1)
        return math.exp(slope), math.exp(start)


def recurrent_model(run: Run) -> Recurrent:
    """Return the model of a run that has recurrent cells.

    Raises:
        ForetellError: It has none: it is a Transformer, or a forecaster.
    """
    if not isinstance(run, ForecasterRun):
        model = run.model()
        if isinstance(model, Recurrent):
            return model
    kind = "a forecaster" if isinstance(run, ForecasterRun) else "a Transformer"
    raise ForetellError(
        f"{run.path} holds {kind}, in which gradients pass through no recurrent steps; "
        "give the run of a recurrent translator."
    )


def measure_gradients(
    model: Recurrent,
    sources: Sequence[Sequence[int]],
    progress: Callable[[int], None] | None = None,
) -> list[Flow]:
    """Measure every recurrent layer while the model translates.

    Args:
        model: Stays as it is.
        sources: Pieces of each sentence, without eos; none gives the weights' own facts alone. The
            decoder writes its own greedy translation.
        progress: Called with the number of sentences done.

    Returns:
        The encoder's layers, each direction by itself, then the decoder's.
    """
    model = copy.deepcopy(model).double().eval()
    cells = dict(_cells(model))
    measured: dict[str, list[_Measured]] = {name: [] for name in cells}
    for number, source in enumerate(sources, start=1):
        with torch.no_grad(), _recorded(list(cells.values())) as steps:
            _translate(model, source)
            for name, cell in cells.items():
                measured[name].append(_measure(cell, steps[cell]))
        if progress is not None:
            progress(number)
    return [_flow(name, cell, measured[name]) for name, cell in cells.items()]


@dataclass(frozen=True, slots=True)
class _Measured:
    """One sentence in one layer; lags and steps go back from its end."""

    log_norms: Float64[np.ndarray, " L"]
    log_bounds: Float64[np.ndarray, " L"]
    log_step_norms: Float64[np.ndarray, " L"]


def _cells(model: Recurrent) -> Iterator[tuple[str, Cell]]:
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for i, layer in enumerate(layers):
            place = f" layer {i + 1}" if len(layers) > 1 else ""
            if isinstance(layer, Cell):
                yield f"{side}{place}", layer
                continue
            for cell, direction in zip(layer.children(), ("forward", "backward"), strict=False):
                assert isinstance(cell, Cell)
                yield f"{side}{place}, {direction}", cell


@contextmanager
def _recorded(cells: Sequence[Cell]) -> Iterator[dict[Cell, Steps]]:
    """Note what each cell is given while the model runs as it always does."""
    steps: dict[Cell, Steps] = {cell: [] for cell in cells}

    def recording(cell: Cell) -> Callable[[Tensor, CellState], CellState]:
        def step(projected: Tensor, state: CellState) -> CellState:
            steps[cell].append((projected, state))
            return Cell.step(cell, projected, state)

        return step

    for cell in cells:
        cell.__dict__["step"] = recording(cell)
    try:
        yield steps
    finally:
        for cell in cells:
            del cell.__dict__["step"]


def _translate(model: Recurrent, source: Sequence[int]) -> None:
    """Write the likeliest token each time, as long as a search may by default."""
    src = torch.tensor([[*source, EOS]])
    src_mask = torch.ones_like(src, dtype=torch.bool)
    memory, state = model.encode(src, src_mask)
    state = {**state, **model.empty_state(1)}
    first = torch.zeros(1, 1, dtype=torch.int64)
    token = first + BOS
    for t in range(min(2 * src.shape[1] + 20, model.config.max_target_length)):
        output = model.step(token, first, first[0] + t, src_mask, memory, state)
        token, state = output.log_probs.argmax(dim=-1), output.state
        if token == EOS:
            break


def _measure(cell: Cell, steps: Steps) -> _Measured:
    """Measure the steps after the first, which starts from no state of a sentence."""
    if len(steps) < 2:
        return _Measured(*[np.empty(0)] * 3)
    projected = torch.stack([gates.flatten() for gates, _ in steps[1:]])
    parts = zip(*(state for _, state in steps[1:]), strict=True)
    states = tuple(torch.stack([part.flatten() for part in series]) for series in parts)
    factors = step_factors(cell, projected, states)
    jacobians = step_jacobians(cell, factors)
    singles = np.array([spectral_norm(jacobian) for jacobian in jacobians])
    bounds = step_bounds(cell, factors).log().flip(0).cumsum(0).numpy()
    with np.errstate(divide="ignore"):
        logs = log_norms(jacobians), bounds, np.log(singles)
    return _Measured(*(np.maximum(values, _LEAST_LOG) for values in logs))


def _flow(name: str, cell: Cell, measured: Sequence[_Measured]) -> Flow:
    gates = cell.weight_hh.detach().split(cell.d_hidden)
    spectra = [torch.linalg.svdvals(gate).numpy() for gate in gates]
    steps = [sentence.log_step_norms for sentence in measured]
    return Flow(
        name=name,
        singular_values=dict(zip(GATES[cell.kind], spectra, strict=True)),
        log_norms=_stacked([sentence.log_norms for sentence in measured]),
        log_bounds=_stacked([sentence.log_bounds for sentence in measured]),
        log_step_norms=np.concatenate(steps) if steps else np.empty(0),
    )


def _stacked(series: Sequence[Float64[np.ndarray, " _"]]) -> Float64[np.ndarray, "n L"]:
    """Lay series of different lengths below each other, NaN where they have ended."""
    series = [values for values in series if len(values)]
    stacked = np.full((len(series), max(map(len, series), default=0)), np.nan)
    for row, values in zip(stacked, series, strict=True):
        row[: len(values)] = values
    reached = (~np.isnan(stacked)).sum(axis=0)
    return stacked[:, reached >= _LEAST_SHARE * len(series)]
