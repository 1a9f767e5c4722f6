"""The translator's objective: the probability of each target token given those before it.

Axes: B batch, S source, T target, N real target tokens.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from foretell.data.text.tokenizer import PAD
from foretell.model.seq2seq import NUM_UNPREDICTED, Seq2Seq
from foretell.model.token_loss import token_loss


class TranslatorObjective(nn.Module):
    """A translator with its loss, in the form that the training loop runs.

    The loss is -log P(y|x), summed over tokens. In training a share of the target's probability is
    spread over all pieces that can come.

    Source: Szegedy et al. 2016, "Rethinking the Inception architecture", section 7.
    """

    def __init__(self, model: Seq2Seq, label_smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(
        self, src: Int64[Tensor, "B S"], tgt: Int64[Tensor, "B T"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the summed loss and the number of target tokens, eos among them."""
        hidden = self.model(src, src != PAD, tgt[:, :-1])  # [B T-1 C]
        target = tgt[:, 1:]
        real = target != PAD
        logits = self.model.predictable_logits(hidden[real])  # [N W]
        smoothing = self.label_smoothing if self.training else 0.0
        loss = token_loss(logits, target[real] - NUM_UNPREDICTED, smoothing)
        return loss, real.sum().to(torch.float32)
