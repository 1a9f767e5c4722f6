"""What every translator promises, whatever its family: no answer knows its batch or its future."""

import pytest
import torch


def hidden(model, src, mask, tgt):
    with torch.no_grad():
        return model(src, mask, tgt)


def test_a_later_token_changes_nothing_before_it(translator, sentences):
    """Causality: else the loss would be taken with the answers open."""
    src, mask = sentences(4, 6)
    tgt = torch.tensor([[1, 5, 6, 7, 8], [1, 9, 9, 4, 5]])
    other = tgt.clone()
    other[:, 3] = torch.tensor([10, 6])
    before, after = hidden(translator, src, mask, tgt), hidden(translator, src, mask, other)
    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert ((after[:, 3:] - before[:, 3:]).abs().amax(dim=-1) > 1e-5).all()


def test_padding_and_what_stands_in_it_change_nothing(translator, sentences):
    src, mask = sentences(3, 5)
    tgt = torch.tensor([[1, 5, 6], [1, 7, 8]])
    dirty = torch.cat((src.masked_fill(~mask, 9), torch.full((2, 4), 7)), dim=1)
    more = torch.cat((mask, torch.zeros(2, 4, dtype=torch.bool)), dim=1)
    torch.testing.assert_close(
        hidden(translator, dirty, more, tgt), hidden(translator, src, mask, tgt)
    )


def test_neighbours_change_nothing(translator, sentences):
    src, mask = sentences(3, 6, 1)
    tgt = torch.tensor([[1, 5, 6], [1, 7, 8], [1, 2, 0]])
    together = hidden(translator, src, mask, tgt)
    for row, length in enumerate((3, 6, 1)):
        part = slice(row, row + 1)
        alone = hidden(translator, src[part, :length], mask[part, :length], tgt[part])
        torch.testing.assert_close(alone, together[part], rtol=1e-4, atol=1e-5)


def test_every_source_token_counts(translator, sentences):
    """Also the first of a source that is read forward, and the last of one read backward."""
    src, mask = sentences(6)
    tgt = torch.tensor([[1, 5]])
    before = hidden(translator, src, mask, tgt)
    for place in range(6):
        other = src.clone()
        other[0, place] = 4 + (src[0, place] - 3) % 7
        assert (hidden(translator, other, mask, tgt) - before).abs().max() > 1e-6


@torch.no_grad()
@pytest.mark.parametrize("beams", [(1, 3, 3, 2, 4), (1, 1, 1), (1, 4, 1, 5)])
def test_a_beam_is_the_sentence_that_its_parents_spell(translator, sentences, step_through, beams):
    """However beams cross, die and multiply, each must see its own history and no other's.

    The oracle spells out each beam's tokens and decodes them alone, without cache and parents.
    """
    src, mask = sentences(4, 6)
    memory, state = translator.encode(src, mask)
    state = {**translator.empty_state(2), **state}
    generator = torch.Generator().manual_seed(len(beams))
    histories = [[[]], [[]]]
    for t, num_beams in enumerate(beams):
        shape = (2, num_beams)
        parents = torch.randint(0, len(histories[0]), shape, generator=generator)
        tokens = torch.randint(4, 11, shape, generator=generator) if t else torch.ones(2, 1).long()
        histories = [
            [[*histories[b][parents[b, k]], int(tokens[b, k])] for k in range(num_beams)]
            for b in range(2)
        ]
        output = translator.step(tokens, parents, torch.full((2,), t), mask, memory, state)
        state = output.state
    for b in range(2):
        for k, history in enumerate(histories[b]):
            part = slice(b, b + 1)
            alone = step_through(translator, src[part], mask[part], torch.tensor([history]))
            torch.testing.assert_close(output.log_probs[b, k], alone[0, -1], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_rows_may_leave_between_steps(translator, sentences, step_through):
    """Batch is axis 0 of every memory and state, so a finished sentence is dropped by indexing."""
    src, mask = sentences(4, 6, 3)
    memory, state = translator.encode(src, mask)
    state = {**translator.empty_state(3), **state}
    zero, rows = torch.zeros(3, 1, dtype=torch.int64), torch.tensor([2, 0])
    state = translator.step(zero + 1, zero, zero[:, 0], mask, memory, state).state
    kept = [{name: value[rows] for name, value in part.items()} for part in (memory, state)]
    tokens = torch.tensor([[5], [6]])
    output = translator.step(tokens, zero[:2], zero[:2, 0] + 1, mask[rows], *kept)
    tgt = torch.tensor([[1, 5], [1, 6]])
    expected = step_through(translator, src[rows], mask[rows], tgt)[:, -1]
    torch.testing.assert_close(output.log_probs[:, 0], expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_output_layer_multiplies_by_the_embeddings_or_by_weights_of_its_own(make_model):
    for tied in (True, False):
        model = make_model("gru additive", tied_output=tied)
        weight = model.embedding.weight if tied else model.output.weight
        hidden = torch.randn(3, model.d_model)
        logits = hidden @ weight.T + model.output_bias
        torch.testing.assert_close(model.predictable_logits(hidden), logits[:, 2:])


@torch.no_grad()
def test_scales_of_embeddings_and_outputs_fit_together(make_model):
    """Tied weights serve both ends: a new model's first guesses are near uniform.

    Embeddings of deviation d^-1/2 give logits of deviation about 1, and a loss near log V.
    """
    torch.manual_seed(0)
    model = make_model("transformer", vocab_size=1000, d_model=64)
    log_probs = model.log_probs(torch.randn(50, 64))
    entropy = -(log_probs[:, 2:].exp() * log_probs[:, 2:]).sum(dim=-1)
    assert float(entropy.mean()) > 0.9 * torch.tensor(1000.0).log()
