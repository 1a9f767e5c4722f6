"""The translator's loss: smoothing, padding, and what it is averaged over."""

import pytest
import torch

from foretell.data.text.tokenizer import BOS, EOS, PAD
from foretell.model.translator_objective import TranslatorObjective

TGT = torch.tensor([[BOS, 5, 6, EOS], [BOS, 7, EOS, PAD]])
SRC = torch.tensor([[4, 5, EOS], [8, EOS, PAD]])


@torch.no_grad()
def test_smoothing_spreads_a_share_over_all_pieces_that_can_come(make_model):
    """(1 - ε) · -log P(y) + ε · the mean of -log P over pieces; pad and bos can't come.

    Over all V pieces the loss would be infinite: those two have probability 0.
    """
    model = make_model("gru additive", dropout=0.0)
    objective = TranslatorObjective(model, label_smoothing=0.2).train()
    loss, _ = objective(SRC, TGT)
    log_probs = model.log_probs(model(SRC, SRC != PAD, TGT[:, :-1]))
    expected = 0.0
    for b in range(2):
        for t in range(3):
            if TGT[b, t + 1] != PAD:
                known = log_probs[b, t, 2:]
                expected -= 0.8 * float(log_probs[b, t, TGT[b, t + 1]]) + 0.2 * float(known.mean())
    assert float(loss) == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
def test_in_evaluation_the_loss_is_the_likelihood_whatever_the_smoothing(make_model):
    """Else validation losses of two trainings couldn't be compared."""
    model = make_model("transformer")
    losses = {
        float(TranslatorObjective(model, label_smoothing=share).eval()(SRC, TGT)[0])
        for share in (0.0, 0.3)
    }
    assert len(losses) == 1


@torch.no_grad()
def test_a_sum_over_pairs_whatever_batch_they_come_in(translator):
    """The loop divides a batch's sum by its tokens; a mean of means would favour short ones."""
    objective = TranslatorObjective(translator, label_smoothing=0.0).eval()
    together, count = objective(SRC, TGT)
    parts = [objective(SRC[:1], TGT[:1]), objective(SRC[1:, :2], TGT[1:, :3])]
    assert float(together) == pytest.approx(sum(float(loss) for loss, _ in parts), rel=1e-5)
    assert int(count) == sum(int(n) for _, n in parts) == 5


def test_padding_gives_no_gradient(make_model):
    """More padding, and what stands in it, must not move the weights."""
    gradients = []
    for extra in (0, 3):
        model = make_model("transformer", dropout=0.0)
        tgt = torch.cat((TGT, torch.full((2, extra), PAD)), dim=1)
        src = torch.cat((SRC, torch.full((2, extra), PAD)), dim=1)
        TranslatorObjective(model, label_smoothing=0.1).train()(src, tgt)[0].backward()
        gradients.append(model.embedding.weight.grad)
    torch.testing.assert_close(gradients[0], gradients[1])
    assert (gradients[0][PAD] == 0).all()
