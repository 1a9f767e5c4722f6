"""What one step of a recurrent cell does to a small change of its state, and many steps together.

Axes: N steps, G gates, H hidden width, P parts of a state (hidden, and the LSTM's cell), D = P · H.

A step's Jacobian is made of the gates' recurrent matrices W_g and of diagonals:

    tanh  diag(σ'(z)) W
    GRU   diag(u) + Σ diag(d_g) W_g, with d_g from the slopes of the gates
    LSTM  the same for hidden and cell, diag(f) standing where a cell follows a cell

so that ∂h_t/∂h_k = J_t … J_(k+1) needs no automatic differentiation; tests hold it against that.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn import functional

from foretell.model.cells import Cell, CellState

GATES = {
    "tanh": ("hidden",),
    "gru": ("reset", "update", "new"),
    "lstm": ("input", "forget", "cell", "output"),
}


@dataclass(frozen=True, slots=True)
class StepFactors:
    """The diagonals of steps' Jacobians.

    Attributes:
        gates: Factors before W_g, which reads the hidden state.
        straight: What comes from the last part of the state (a GRU's hidden, an LSTM's cell) by no
            matrix at all.
    """

    gates: Float[Tensor, "N P G H"]
    straight: Float[Tensor, "N P H"]


def step_factors(cell: Cell, projected: Float[Tensor, "N GH"], state: CellState) -> StepFactors:
    """Take the derivative of `cell.step` at the given inputs and states, one row a step."""
    hidden = state[0]
    recurrent = functional.linear(hidden, cell.weight_hh, cell.bias_hh)
    if cell.kind == "tanh":
        slope = 1 - (projected + recurrent).tanh() ** 2
        return StepFactors(slope[:, None, None], torch.zeros_like(slope)[:, None])
    if cell.kind == "gru":
        reset_x, update_x, new_x = projected.chunk(3, dim=-1)
        reset_h, update_h, new_h = recurrent.chunk(3, dim=-1)
        reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
        new = (new_x + reset * new_h).tanh()
        into_new = (1 - update) * (1 - new**2)
        by_gate = (
            into_new * new_h * reset * (1 - reset),
            (hidden - new) * update * (1 - update),
            into_new * reset,
        )
        return StepFactors(torch.stack(by_gate, dim=1)[:, None], update[:, None])
    take, forget, candidate, give = (projected + recurrent).chunk(4, dim=-1)
    take, forget, candidate, give = (
        take.sigmoid(),
        forget.sigmoid(),
        candidate.tanh(),
        give.sigmoid(),
    )
    memory = (forget * state[1] + take * candidate).tanh()
    into_cell = torch.stack(
        (
            candidate * take * (1 - take),
            state[1] * forget * (1 - forget),
            take * (1 - candidate**2),
            torch.zeros_like(give),
        ),
        dim=1,
    )
    cell_to_hidden = give * (1 - memory**2)
    into_hidden = cell_to_hidden[:, None] * into_cell
    into_hidden[:, 3] = memory * give * (1 - give)
    return StepFactors(
        torch.stack((into_hidden, into_cell), dim=1),
        torch.stack((cell_to_hidden * forget, forget), dim=1),
    )


def step_jacobians(cell: Cell, factors: StepFactors) -> Float[Tensor, "N D D"]:
    """Put the Jacobians of steps together from their factors."""
    num_steps, num_parts, _, width = factors.gates.shape
    matrices = cell.weight_hh.unflatten(0, (-1, width))  # [G H H]
    jacobians: Tensor = matrices.new_zeros(num_steps, num_parts, width, num_parts, width)
    jacobians[:, :, :, 0] = torch.einsum("npgh,ghk->nphk", factors.gates, matrices)
    jacobians[:, :, :, -1] += factors.straight.diag_embed()
    return jacobians.flatten(3, 4).flatten(1, 2)


def step_bounds(cell: Cell, factors: StepFactors) -> Float[Tensor, " N"]:
    """Bound each step's norm by the singular values: max σ'(z) · λ1 for the plain cell.

    The norm of a sum is at most the sum of the norms, that of diag(d) W at most max|d| · λ1(W), and
    that of parts side by side at most the norm of the small matrix of their norms.
    """
    width = factors.gates.shape[-1]
    largest: Tensor = torch.linalg.matrix_norm(cell.weight_hh.unflatten(0, (-1, width)), 2)  # [G]
    by_gates = (factors.gates.abs().amax(dim=-1) * largest).sum(dim=-1)  # [N P]
    straight = factors.straight.abs().amax(dim=-1)
    if cell.num_states == 1:
        return (by_gates + straight)[:, 0]
    bounds: Tensor = torch.linalg.matrix_norm(torch.stack((by_gates, straight), dim=-1), 2)
    return bounds


def log_norms(jacobians: Float[Tensor, "N D D"]) -> Float64[np.ndarray, " N"]:
    """Return log ‖J_N … J_(N-l+1)‖ for the lags l = 1 to N; -inf from where a product is 0.

    Products are brought back to size 1 at each step, so none under- or overflows.
    """
    logs = np.full(len(jacobians), -np.inf)
    product, log_size = torch.eye(jacobians.shape[-1], dtype=jacobians.dtype), 0.0
    for lag, jacobian in enumerate(reversed(jacobians.unbind())):
        product = product @ jacobian
        size = float(product.norm())
        if not size:
            break
        product = product / size
        log_size += math.log(size)
        logs[lag] = log_size + math.log(spectral_norm(product))
    return logs


def spectral_norm(matrix: Float[Tensor, "D D"]) -> float:
    """Return the largest singular value of a matrix that is neither huge nor tiny."""
    # By the squares, which is twice as fast, and exact for the largest.
    return math.sqrt(float(torch.linalg.eigvalsh(matrix.T @ matrix)[-1]))
