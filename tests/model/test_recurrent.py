"""What only the recurrent translators promise."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

TORCH = {"tanh": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


@pytest.mark.parametrize("cell", ["tanh", "gru", "lstm"])
@pytest.mark.parametrize("bidirectional", [False, True])
@torch.no_grad()
def test_the_encoder_equals_torchs_layers_with_its_weights(
    make_model, sentences, cell, bidirectional
):
    """Two layers, both ways: what one layer hands the next, and where the decoder starts."""
    model = make_model("gru dot", cell=cell, num_layers=2, bidirectional=bidirectional)
    width = model.d_model // (1 + bidirectional)
    layers = TORCH[cell](
        model.d_model, width, num_layers=2, batch_first=True, bidirectional=bidirectional
    )
    for i, layer in enumerate(model.encoder):
        for own, suffix in zip(layer, ("", "_reverse"), strict=False):
            for name, weight in own.named_parameters():
                getattr(layers, f"{name}_l{i}{suffix}").copy_(weight)
    src, mask = sentences(3, 7, 1)
    packed = pack_padded_sequence(
        model.embed(src), mask.sum(dim=1), batch_first=True, enforce_sorted=False
    )
    outputs, last = layers(packed)
    memory, state = model.encode(src, mask)
    expected, _ = pad_packed_sequence(outputs, batch_first=True)
    torch.testing.assert_close(memory["memory_values"], expected)
    hidden = last[0] if cell == "lstm" else last  # [layers · directions B H]
    per_layer = hidden.unflatten(0, (2, -1)).transpose(1, 2).flatten(2)
    bridges = model.bridge[::2] if cell == "lstm" else model.bridge
    for i, (bridge, end) in enumerate(zip(bridges, per_layer, strict=True)):
        torch.testing.assert_close(state[f"past_hidden_{i}"][:, 0], bridge(end).tanh())
    if cell == "lstm":  # a memory cell has no bounds, so its bridge has no tanh
        ends = last[1].unflatten(0, (2, -1)).transpose(1, 2).flatten(2)
        torch.testing.assert_close(state["past_cell_1"][:, 0], model.bridge[3](ends[1]))


@torch.no_grad()
def test_what_is_fed_back_is_the_last_output(make_model, sentences):
    """Input feeding tells the decoder where it looked last; at first there is nothing, so zeros."""
    model = make_model("gru additive")
    src, mask = sentences(5)
    memory, state = model.encode(src, mask)
    first = model.empty_state(1)["past_feed"]
    assert (first == 0).all()
    tokens, zero = torch.tensor([[1]]), torch.tensor([[0]])
    step = model.step(tokens, zero, zero[0], mask, memory, {**state, "past_feed": first})
    torch.testing.assert_close(step.log_probs, model.log_probs(step.state["past_feed"]))
    assert "past_feed" not in make_model("gru additive", input_feeding=False).empty_state(1)


@torch.no_grad()
def test_without_attention_every_step_reads_the_context_vector(make_model, sentences):
    """Else a long target would have to carry all of the source in its state."""
    model = make_model("tanh none")
    src, mask = sentences(5)
    memory, state = model.encode(src, mask)
    tgt = torch.tensor([[1, 5, 6, 7]])
    before = model.decode(mask, memory, state, tgt)
    other = {"memory_context": memory["memory_context"] + 1}
    after = model.decode(mask, other, state, tgt)
    assert ((after - before).abs().amax(dim=-1) > 1e-3).all()


@torch.no_grad()
def test_attention_is_none_only_where_the_model_has_none(make_model, sentences):
    src, mask = sentences(4, 2)
    zero = torch.zeros(2, 1, dtype=torch.int64)
    for name, has in (("gru none 2 layers", False), ("gru additive", True), ("transformer", True)):
        model = make_model(name)
        memory, state = model.encode(src, mask)
        state = {**model.empty_state(2), **state}
        attention = model.step(zero + 1, zero, zero[:, 0], mask, memory, state).attention
        assert model.has_attention == has == (attention is not None)
        if attention is not None:
            torch.testing.assert_close(attention.sum(dim=-1), torch.ones(2, 1))
            assert (attention[1, 0, 2:] == 0).all()
