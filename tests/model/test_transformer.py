"""What only the Transformer translator promises."""

import pytest
import torch

from foretell.model.dropout import Dropout


@torch.no_grad()
def test_positions_go_on_past_any_length(make_model, sentences):
    """They are computed, so a source longer than any seen is read, not refused or wrapped round."""
    model = make_model("transformer")
    for length in (1, 400):
        src, mask = sentences(length)
        assert model(src, mask, torch.full((1, 300), 5)).isfinite().all()


@torch.no_grad()
def test_order_matters_on_both_sides(make_model, sentences):
    model = make_model("transformer")
    src, mask = sentences(5)
    tgt = torch.tensor([[1, 5, 6, 7]])
    before = model(src, mask, tgt)[0, -1]
    assert not torch.allclose(model(src.flip(1), mask, tgt)[0, -1], before, atol=1e-3)
    assert not torch.allclose(model(src, mask, tgt[:, [0, 2, 1, 3]])[0, -1], before, atol=1e-3)


@torch.no_grad()
def test_the_memory_is_computed_once_and_the_caches_only_grow(make_model, sentences):
    """No step projects the source again, and no beam's keys are moved or copied."""
    model = make_model("transformer")
    src, mask = sentences(4, 6)
    memory, state = model.encode(src, mask)
    assert state == {}
    assert {tuple(value.shape) for value in memory.values()} == {(2, 6, model.d_model)}
    state = model.empty_state(2)
    parents = torch.zeros(2, 1, dtype=torch.int64)
    for t, beams in enumerate((1, 3, 2)):
        tokens = torch.full((2, beams), 5)
        before = state
        parents = parents[:, :1].expand(2, beams)
        state = model.step(tokens, parents, torch.full((2,), t), mask, memory, state).state
        size = before["past_keys_0"].shape[1]
        for name in ("past_keys_0", "past_values_1"):
            assert torch.equal(state[name][:, :size], before[name])
            assert state[name].shape[1] == size + beams
        assert state["past_ancestors"].sum(dim=-1).tolist() == [[t + 1] * beams] * 2


@torch.no_grad()
def test_attention_comes_from_the_layer_before_the_last(make_model, sentences):
    """The last layer already looks at what comes next; alignments are read one layer below."""
    assert [
        make_model("transformer", num_decoder_layers=layers).alignment_layer for layers in (1, 2, 3)
    ] == [0, 0, 1]


@pytest.mark.parametrize("norm_first", [True, False])
def test_pre_norm_ends_with_a_norm_and_post_norm_has_had_it(make_model, sentences, norm_first):
    """Without it the sum of all residuals would reach the output layer at any size."""
    model = make_model("transformer", norm_first=norm_first)
    kind = type(model.decoder_norm)
    assert kind is (torch.nn.LayerNorm if norm_first else torch.nn.Identity)


def test_dropout_is_where_it_was_asked_for(make_model):
    model = make_model("transformer", dropout=0.25)
    shares = {module.share for module in model.modules() if isinstance(module, Dropout)}
    assert shares == {0.25}
