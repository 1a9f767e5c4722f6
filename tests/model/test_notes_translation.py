"""The notes on conditional language models: P(y|x) as a product, for every kind of translator."""

import math

import pytest
import torch

from foretell.data.text.tokenizer import BOS, EOS, PAD
from foretell.model.translator_objective import TranslatorObjective


@pytest.fixture
def targets(sentences):
    """[B T] with bos and eos, padded on the right; the third sentence is empty."""
    ids, _ = sentences(5, 2, 0, seed=2)
    tgt = torch.full((3, 7), PAD)
    tgt[:, 0] = BOS
    for row, length in enumerate((5, 2, 0)):
        tgt[row, 1 : 1 + length] = ids[row, :length]
        tgt[row, 1 + length] = EOS
    return tgt


@pytest.fixture
def pairs(sentences, targets):
    src, mask = sentences(4, 6, 1)
    return src, mask, targets


def step_sums(log_probs, tgt):
    """Σ_t log P(y_t | y_<t, x) of each sentence, a plain loop."""
    return [
        math.fsum(
            float(log_probs[row, t - 1, tgt[row, t]])
            for t in range(1, tgt.shape[1])
            if tgt[row, t] != PAD
        )
        for row in range(len(tgt))
    ]


@torch.no_grad()
def test_each_step_is_a_distribution_in_which_pad_and_bos_never_come(
    translator, pairs, step_through
):
    src, mask, tgt = pairs
    probs = step_through(translator, src, mask, tgt[:, :-1]).exp()
    torch.testing.assert_close(probs.sum(dim=-1), torch.ones(probs.shape[:2]))
    assert (probs[..., [PAD, BOS]] == 0).all()
    assert (probs[..., EOS:] > 0).all()


@torch.no_grad()
def test_decoding_a_given_target_at_once_equals_step_by_step(translator, pairs, step_through):
    """Training sees all steps at once, a search one after the other; they must be one model."""
    src, mask, tgt = pairs
    at_once = translator.log_probs(translator(src, mask, tgt[:, :-1]))
    steps = step_through(translator, src, mask, tgt[:, :-1])
    real = tgt[:, :-1] != PAD
    torch.testing.assert_close(at_once[real], steps[real], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_loss_is_minus_the_sum_of_the_steps_log_probabilities(translator, pairs, step_through):
    """log P(y|x) = Σ log P(y_t | y_<t, x): what training lowers is what `score` adds up.

    In evaluation no probability is smoothed away, so validation losses are true likelihoods.
    """
    src, mask, tgt = pairs
    objective = TranslatorObjective(translator, label_smoothing=0.1).eval()
    loss, count = objective(src, tgt)
    sums = step_sums(step_through(translator, src, mask, tgt[:, :-1]), tgt)
    assert float(loss) == pytest.approx(-math.fsum(sums), rel=1e-5)
    assert int(count) == 6 + 3 + 1  # eos counts, bos and padding don't


@torch.no_grad()
def test_the_probabilities_of_all_targets_sum_to_1(make_model, step_through):
    """A product of conditionals is a distribution over whole sentences, cut or ended."""
    model = make_model("gru additive", vocab_size=5)
    src, mask = torch.tensor([[4, 3, EOS]]), torch.ones(1, 3, dtype=torch.bool)
    total = 0.0
    open_targets = [((), 0.0)]
    for _ in range(3):
        grown = []
        for tokens, log_prob in open_targets:
            tgt = torch.tensor([[BOS, *tokens]])
            last = step_through(model, src, mask, tgt)[0, -1].tolist()
            total += math.exp(log_prob + last[EOS])
            grown += [((*tokens, v), log_prob + last[v]) for v in (3, 4)]
        open_targets = grown
    total += math.fsum(math.exp(log_prob) for _, log_prob in open_targets)
    assert total == pytest.approx(1.0, abs=1e-5)


@torch.no_grad()
def test_without_attention_the_last_encoder_state_is_all_that_is_known(make_model, sentences):
    """c is one vector however long the source is: the bottleneck that attention opens."""
    model = make_model("tanh none")
    for length in (1, 9):
        memory, _ = model.encode(*sentences(length))
        assert {name: tuple(value.shape) for name, value in memory.items()} == {
            "memory_context": (1, model.d_model)
        }


@torch.no_grad()
def test_the_output_is_tanh_of_w_c_over_context_and_state(make_model, sentences):
    """s̃ = tanh(W_c [a; s]) in the notes' order: the context before the state."""
    model = make_model("gru dot", input_feeding=False)
    src, mask = sentences(4)
    memory, state = model.encode(src, mask)
    tgt = torch.tensor([[BOS]])
    output = model.decode(mask, memory, state, tgt)[0, 0]
    cell = model.decoder[0]
    (s,) = cell.step(cell.project(model.embed(tgt))[:, 0], (state["past_hidden_0"][:, 0],))
    h = memory["memory_values"][0]  # [S C]
    a = (h @ s[0]).softmax(dim=0) @ h
    combined = model.combine.weight @ torch.cat((a, s[0])) + model.combine.bias
    torch.testing.assert_close(output, combined.tanh())
