"""Recurrent cells, and reading a padded batch with them.

Axes: B batch, T time, N any leading axes, I input width, H hidden width, G gates · H.

Source: Elman 1990; Cho et al. 2014 (GRU, in the form that PyTorch and ONNX share, where the reset
    gate acts after the product); Hochreiter and Schmidhuber 1997 (LSTM with forget gate).
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from foretell.model.translator_config import Cell as Kind

_GATES = {"tanh": 1, "gru": 3, "lstm": 4}

# Hidden state, and the LSTM's cell state beside it.
CellState = tuple[Tensor, ...]


class Cell(nn.Module):
    """One recurrent cell. Weights and gates are laid out as in `torch.nn.RNN`, `GRU` and `LSTM`."""

    def __init__(self, kind: Kind, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.kind = kind
        self.d_hidden = d_hidden
        self.num_states = 2 if kind == "lstm" else 1
        rows = _GATES[kind] * d_hidden
        self.weight_ih = nn.Parameter(torch.empty(rows, d_input))
        self.weight_hh = nn.Parameter(torch.empty(rows, d_hidden))
        self.bias_ih = nn.Parameter(torch.zeros(rows))
        self.bias_hh = nn.Parameter(torch.zeros(rows))
        nn.init.xavier_uniform_(self.weight_ih)
        for gate in self.weight_hh.data.split(d_hidden):
            nn.init.orthogonal_(gate)
        if kind == "lstm":  # a new memory cell forgets nothing
            self.bias_ih.data[d_hidden : 2 * d_hidden] = 1.0

    def project(self, x: Float[Tensor, "*N I"]) -> Float[Tensor, "*N G"]:
        """Return the inputs' part of the gates, which needs no state: for all steps at once."""
        return functional.linear(x, self.weight_ih, self.bias_ih)

    def step(self, projected: Float[Tensor, "*N G"], state: CellState) -> CellState:
        """Take one step from projected inputs; the first of the new state is the output."""
        hidden = state[0]
        recurrent = functional.linear(hidden, self.weight_hh, self.bias_hh)
        if self.kind == "tanh":
            return ((projected + recurrent).tanh(),)
        if self.kind == "gru":
            reset_x, update_x, new_x = projected.chunk(3, dim=-1)
            reset_h, update_h, new_h = recurrent.chunk(3, dim=-1)
            update = (update_x + update_h).sigmoid()
            new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
            return (new + update * (hidden - new),)
        take, forget, candidate, give = (projected + recurrent).chunk(4, dim=-1)
        memory = forget.sigmoid() * state[1] + take.sigmoid() * candidate.tanh()
        return give.sigmoid() * memory.tanh(), memory

    def initial(self, x: Float[Tensor, "B T I"]) -> CellState:
        """Return zeros."""
        return (x.new_zeros(x.shape[0], self.d_hidden),) * self.num_states


def read(
    cell: Cell, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"], *, backward: bool
) -> tuple[Float[Tensor, "B T H"], CellState]:
    """Read padded sequences, forward or from their last real step backward.

    At padding the state stays as it is and the output is 0, so that neither outputs nor the last
    state depend on how much padding there is.

    Returns:
        The outputs at every step, and the state after the last step read.
    """
    if torch.onnx.is_in_onnx_export():
        return _native(cell, x, mask, backward=backward)
    projected = cell.project(x).unbind(dim=1)
    kept = mask[..., None].unbind(dim=1)
    state = cell.initial(x)
    outputs: list[Tensor] = [x] * len(projected)
    order = range(len(projected))
    for t in reversed(order) if backward else order:
        new = cell.step(projected[t], state)
        state = tuple(torch.where(kept[t], a, b) for a, b in zip(new, state, strict=True))
        outputs[t] = state[0] * kept[t]
    return torch.stack(outputs, dim=1), state


def _native(
    cell: Cell, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"], *, backward: bool
) -> tuple[Float[Tensor, "B T H"], CellState]:
    """Write the reading as one ONNX operator, which takes the sequences' true lengths."""
    operator = {"tanh": "RNN", "gru": "GRU", "lstm": "LSTM"}[cell.kind]
    # ONNX orders the gates otherwise: GRU update, reset, new; LSTM input, output, forget, cell.
    order = {"tanh": [0], "gru": [1, 0, 2], "lstm": [0, 3, 1, 2]}[cell.kind]
    weight_ih, weight_hh, bias_ih, bias_hh = (
        weight.unflatten(0, (len(order), -1))[order].flatten(0, 1)[None]
        for weight in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
    )
    attributes: dict[str, Any] = {
        "hidden_size": cell.d_hidden,
        "direction": "reverse" if backward else "forward",
    }
    if cell.kind == "gru":
        attributes["linear_before_reset"] = 1
    batch, steps = mask.shape
    shapes = [(steps, 1, batch, cell.d_hidden)] + [(1, batch, cell.d_hidden)] * cell.num_states
    lengths = mask.sum(dim=1, dtype=torch.int32)
    biases = torch.cat((bias_ih, bias_hh), dim=1)
    outputs, *last = torch.onnx.ops.symbolic_multi_out(
        operator,
        (x.transpose(0, 1), weight_ih, weight_hh, biases, lengths),
        attrs=attributes,
        dtypes=[x.dtype] * len(shapes),
        shapes=shapes,
        version=22,
    )
    return outputs[:, 0].transpose(0, 1), tuple(state[0] for state in last)
