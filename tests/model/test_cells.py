"""Our cells against torch's own, on padded sequences read both ways."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from foretell.model.cells import Cell, read

KINDS = ["tanh", "gru", "lstm"]
TORCH = {"tanh": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
D_INPUT, H = 5, 7


def make_cells(kind, seed=0):
    """Two cells, one for either direction, and torch's layer with the same weights."""
    torch.manual_seed(seed)
    cells = [Cell(kind, D_INPUT, H), Cell(kind, D_INPUT, H)]
    layer = TORCH[kind](D_INPUT, H, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for cell, suffix in zip(cells, ("", "_reverse"), strict=True):
            for name, weight in cell.named_parameters():
                weight.add_(0.3 * torch.randn_like(weight))
                getattr(layer, name.replace("hh", "hh_l0").replace("ih", "ih_l0") + suffix).copy_(
                    weight
                )
    return cells, layer


def padded_batch(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randn(*mask.shape, D_INPUT, generator=generator), mask


@pytest.mark.parametrize("kind", KINDS)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), seed=st.integers(0, 99))
@torch.no_grad()
def test_reading_equals_torch_on_packed_sequences(kind, lengths, seed):
    """Torch's packed layers are the field's meaning of these cells, and the graphs' operators too.

    Both directions: the backward one must start at each sentence's own end, not at the padding.
    """
    cells, layer = make_cells(kind, seed)
    x, mask = padded_batch(lengths, seed)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    outputs, last = layer(packed)
    expected, _ = pad_packed_sequence(outputs, batch_first=True, total_length=max(lengths))
    parts = last if isinstance(last, tuple) else (last,)
    for backward, cell in enumerate(cells):
        output, state = read(cell, x, mask, backward=bool(backward))
        half = expected[..., backward * H : (backward + 1) * H]
        torch.testing.assert_close(output, half, rtol=1e-4, atol=1e-5)
        for part, own in zip(parts, state, strict=True):
            torch.testing.assert_close(own, part[backward], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backward", [False, True])
@torch.no_grad()
def test_padding_and_what_stands_in_it_change_nothing(kind, backward):
    """Not even the last bit: a sentence's answer must not know its batch."""
    cells, _ = make_cells(kind)
    x, mask = padded_batch([3, 6])
    longer = torch.cat(
        (torch.where(mask[..., None], x, 99.0), torch.full((2, 4, D_INPUT), -7.0)), dim=1
    )
    more = torch.cat((mask, torch.zeros(2, 4, dtype=torch.bool)), dim=1)
    output, state = read(cells[0], x, mask, backward=backward)
    again, same = read(cells[0], longer, more, backward=backward)
    assert torch.equal(again[:, :6], output)
    assert (again[~more] == 0).all()
    assert all(torch.equal(a, b) for a, b in zip(state, same, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_torchs(kind):
    cells, layer = make_cells(kind)
    x, mask = padded_batch([5, 5])
    read(cells[0], x, mask, backward=False)[0].pow(2).sum().backward()
    layer(x)[0][..., :H].pow(2).sum().backward()
    for name, weight in cells[0].named_parameters():
        expected = getattr(layer, name + "_l0").grad
        torch.testing.assert_close(weight.grad, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_new_cells_start_where_gradients_are_kept(kind):
    """Each gate's W is orthogonal: all its singular values are 1, nothing grows or shrinks by W.

    An LSTM's forget gate starts at σ(1), so that early training can see far back.
    """
    cell = Cell(kind, D_INPUT, H)
    for gate in cell.weight_hh.detach().split(H):
        torch.testing.assert_close(gate @ gate.T, torch.eye(H))
    if kind == "lstm":
        biases = cell.bias_ih.detach().chunk(4)
        assert [float(bias.mean()) for bias in biases] == [0, 1, 0, 0]
    else:
        assert (cell.bias_ih == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_step_takes_any_leading_axes(kind):
    """One cell for a batch in training and for beams in a search."""
    (cell, _), _ = make_cells(kind)
    x = torch.randn(2, 3, D_INPUT)
    state = tuple(torch.randn(2, 3, H) for _ in range(cell.num_states))
    together = cell.step(cell.project(x), state)
    alone = cell.step(cell.project(x[1, 2]), tuple(part[1, 2] for part in state))
    for part, own in zip(together, alone, strict=True):
        torch.testing.assert_close(part[1, 2], own)
