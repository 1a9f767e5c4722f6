"""The notes on gradients through time, as facts that hold for our cells.

h_t = σ(W h_{t-1} + …), so ∂h_t/∂h_k is a product of factors diag(σ'(z_j)) W. The notes write the
factors transposed, W' diag(σ'(z_j)): that product carries a gradient back.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.linalg import matrix_norm, multi_dot

from foretell.model.cells import Cell

H, STEPS = 6, 7
SEEDS = st.integers(0, 2**31 - 1)


def make_cell(kind="tanh", *, weight=None, d_hidden=H):
    """A cell in double precision, with random biases or a given W and none."""
    cell = Cell(kind, 4, d_hidden).double().requires_grad_(False)
    with torch.no_grad():
        if weight is None:
            cell.bias_ih.add_(torch.randn_like(cell.bias_ih))
            cell.bias_hh.add_(torch.randn_like(cell.bias_hh))
        else:
            cell.weight_hh.copy_(weight)
    return cell


def run_cell(cell, projected, start):
    """All states, each all parts of a state side by side."""
    parts = start.chunk(cell.num_states)
    states = []
    for gates in projected:
        parts = cell.step(gates, parts)
        states.append(torch.cat(parts))
    return states


def tanh_factors(cell, projected, start):
    """diag(σ'(z_j)) W of each step."""
    before = [start, *run_cell(cell, projected, start)[:-1]]
    z = [
        gates + cell.weight_hh @ hidden + cell.bias_hh
        for gates, hidden in zip(projected, before, strict=True)
    ]
    return [torch.diag(1 - x.tanh() ** 2) @ cell.weight_hh for x in z]


@pytest.fixture
def tanh_run():
    torch.manual_seed(0)
    cell = make_cell()
    return cell, torch.randn(STEPS, H).double(), torch.randn(H).double().tanh()


def test_the_jacobian_of_a_tanh_cell_is_the_product_of_diag_and_w(tanh_run, jacobian):
    """The one formula from which vanishing and explosion follow; `inspect-gradients` rests on it.

    If it were not autograd's own derivative, what that command says of a model would be a tale.
    """
    cell, projected, start = tanh_run
    factors = tanh_factors(cell, projected, start)
    by_autograd = jacobian(lambda h: run_cell(cell, projected, h)[-1], start)
    torch.testing.assert_close(multi_dot(factors[::-1]), by_autograd)


def test_the_notes_product_is_the_jacobian_transposed_and_carries_a_gradient_back(tanh_run):
    """W' diag(σ') in rising order of steps is no misprint, but it maps gradients, not states.

    Taking it for the Jacobian of a non-symmetric W gives wrong directions; its norm is the same.
    """
    cell, projected, start = tanh_run
    start.requires_grad_()
    factors = tanh_factors(cell, projected, start)
    notes = multi_dot([factor.T for factor in factors])
    last = run_cell(cell, projected, start)[-1]
    gradient = torch.randn(H).double()
    (carried,) = torch.autograd.grad(last, start, gradient)
    torch.testing.assert_close(notes @ gradient, carried)
    torch.testing.assert_close(matrix_norm(notes, 2), matrix_norm(multi_dot(factors[::-1]), 2))


@pytest.mark.parametrize("kind", ["tanh", "gru", "lstm"])
def test_the_jacobian_of_many_steps_is_the_product_of_single_ones(kind, jacobian):
    """Gates don't break the chain rule: ∂h_t/∂h_k is still a product, only with other factors.

    For an LSTM the state is hidden and cell together; the chain doesn't close for the hidden alone.
    """
    torch.manual_seed(1)
    cell = make_cell(kind)
    projected = torch.randn(STEPS, cell.bias_ih.shape[0]).double()
    start = torch.randn(H * cell.num_states).double()
    before = [start, *run_cell(cell, projected, start)[:-1]]
    single = [
        jacobian(lambda h, gates=gates: run_cell(cell, gates[None], h)[0], state)
        for gates, state in zip(projected, before, strict=True)
    ]
    whole = jacobian(lambda h: run_cell(cell, projected, h)[-1], start)
    torch.testing.assert_close(multi_dot(single[::-1]), whole)


@given(SEEDS, st.floats(0.05, 3.0))
def test_norms_are_bounded_by_the_largest_singular_value(seed, largest):
    """‖∂h_t/∂h_k‖ <= Π λ1 max σ'(z_j) <= λ1^(t-k), because σ' <= 1.

    So λ1 < 1 is enough to vanish, whatever the text, and λ1 > 1 is needed to explode.
    """
    torch.manual_seed(seed)
    weight = torch.randn(H, H).double()
    cell = make_cell(weight=weight * (largest / matrix_norm(weight, 2)))
    projected, start = torch.randn(STEPS, H).double(), torch.randn(H).double()
    factors = tanh_factors(cell, projected, start)
    hidden = run_cell(cell, projected, start)
    bound = 1.0
    for lag in range(1, STEPS + 1):
        bound *= largest * float((1 - hidden[lag - 1] ** 2).max())
        product = multi_dot(factors[:lag][::-1]) if lag > 1 else factors[0]
        norm = float(matrix_norm(product, 2))
        assert norm <= bound * (1 + 1e-9)
        assert bound <= largest**lag * (1 + 1e-9)


def product_norm(weight, start, steps=40):
    cell = make_cell(weight=weight, d_hidden=len(start))
    factors = tanh_factors(cell, torch.zeros(steps, len(start)).double(), start)
    return float(matrix_norm(multi_dot(factors[::-1]), 2))


def test_a_large_singular_value_vanishes_where_the_cell_is_saturated():
    """The notes say that λ1 > 1 explodes. The same W = 4 I does both: it depends on the state.

    At h = 0 every σ' is 1 and the product is 4^t. Elsewhere h runs into ±1, where σ' is so small
    that 4 σ' < 1. Clipping alone doesn't help such a cell; its gradient has gone.
    """
    weight = 4 * torch.eye(2).double()
    assert product_norm(weight, torch.zeros(2).double()) == pytest.approx(4.0**40)
    assert product_norm(weight, torch.tensor([0.3, -0.2]).double()) < 1e-60


@pytest.mark.parametrize(
    ("weight", "at_most"),
    [
        # What W stretches it sends to where nothing comes out: W² = 0.
        ([[0.0, 10.0], [0.0, 0.0]], 0.0),
        # It stretches one axis twofold and turns it onto the one that it shrinks: W² = -0.8 I.
        ([[0.0, -0.4], [2.0, 0.0]], 0.8**20 * (1 + 1e-9)),
    ],
    ids=["nilpotent", "rotated"],
)
def test_a_large_singular_value_vanishes_even_without_saturation(weight, at_most):
    """At h = 0 the cell is linear and the product is W^t. λ1 is 10 and 2, yet W^t vanishes.

    λ1 bounds one step; in the long run the largest eigenvalue decides (0 and √0.8), because what
    one step stretches the next may shrink.
    """
    weight = torch.tensor(weight, dtype=torch.float64)
    assert matrix_norm(weight, 2) > 1.9
    assert torch.linalg.eigvals(weight).abs().max() < 1
    assert product_norm(weight, torch.zeros(2).double()) <= at_most


def test_the_slope_of_tanh_is_at_most_1_and_of_the_sigmoid_a_quarter():
    """The notes bound σ' by 1. A sigmoid cell would vanish up to λ1 = 4; ours is a tanh cell."""
    z = torch.linspace(-5, 5, 1001, dtype=torch.float64)
    tanh, sigmoid = 1 - z.tanh() ** 2, z.sigmoid() * (1 - z.sigmoid())
    assert (float(tanh.max()), float(sigmoid.max())) == (1.0, 0.25)
    assert (tanh > 0).all()


def test_an_lstm_whose_forget_gate_is_open_keeps_its_gradient(jacobian):
    """Why LSTMs were made: ∂c_t/∂c_{t-1} has the term diag(f), with no W in it.

    With f = 1 and nothing else coming in, the memory's gradient is 1 after any number of steps.
    """
    cell = make_cell("lstm", weight=torch.zeros(4 * H, H).double())
    projected = torch.zeros(50, 4 * H).double()
    projected[:, H : 2 * H] = 40.0  # forget gate: σ(40) is 1
    whole = jacobian(lambda h: run_cell(cell, projected, h)[-1], torch.zeros(2 * H).double())
    torch.testing.assert_close(whole[H:, H:], torch.eye(H).double())


def test_a_gru_whose_update_gate_is_open_keeps_its_gradient(jacobian):
    """∂h_t/∂h_{t-1} has the term diag(u): a GRU has the same way through as the LSTM."""
    cell = make_cell("gru")
    projected = torch.randn(50, 3 * H).double()
    projected[:, H : 2 * H] = 60.0
    whole = jacobian(lambda h: run_cell(cell, projected, h)[-1], torch.randn(H).double())
    torch.testing.assert_close(whole, torch.eye(H).double())


@given(SEEDS, st.floats(0.01, 100.0), st.floats(0.1, 10.0))
def test_clipping_shortens_a_long_gradient_and_turns_none(seed, size, threshold):
    """ĝ = threshold/‖g‖ · g where ‖g‖ > threshold, and only then; else g stays as it is.

    One norm over all parameters together: clipping each by itself would turn the whole gradient.
    """
    torch.manual_seed(seed)
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in ((3, 4), (5,), ())]
    for parameter in parameters:
        parameter.grad = size * torch.randn_like(parameter)
    before = torch.cat([p.grad.flatten() for p in parameters])
    norm = torch.nn.utils.clip_grad_norm_(parameters, threshold)
    after = torch.cat([p.grad.flatten() for p in parameters])
    torch.testing.assert_close(norm, before.norm())
    if norm > threshold * (1 + 1e-4):
        torch.testing.assert_close(after, before * (threshold / norm), rtol=1e-4, atol=0)
    elif norm < threshold * (1 - 1e-4):
        assert torch.equal(after, before)


def test_clipping_each_number_by_itself_would_turn_the_gradient():
    """Why we clip by norm: of (3, 0.1), cut to ±1, the small part weighs three times as much."""
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([3.0, 0.1])
    nn.utils.clip_grad_value_([parameter], 1.0)
    slope = float(parameter.grad[1] / parameter.grad[0])
    assert slope == pytest.approx(3 * 0.1 / 3)
    assert math.atan(slope) > 2.9 * math.atan(0.1 / 3)
