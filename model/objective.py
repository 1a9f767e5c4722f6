"""The forecaster's objective: each position of a partly hidden window predicts the next patch.

Axes: B batch, L steps of a window, M patches, A covariates, S static inputs.
"""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from foretell.model.forecaster import Forecaster
from foretell.model.losses import quantile_loss


class ForecasterObjective(nn.Module):
    """A forecaster with its loss, in the form that the training loop runs.

    The loss is taken in the scaled space, by the scale that each position knows: what hides a patch
    hides it from the scale too, exactly as in a forecast.
    """

    def __init__(self, model: Forecaster) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        values: Float64[Tensor, "B L"],
        hidden: Bool[Tensor, "B M"],
        covariates: Float64[Tensor, "B L A"] | None = None,
        static: Float64[Tensor, "B S"] | None = None,
        scored: Bool[Tensor, "B M"] | None = None,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the summed loss and the number of targets.

        Args:
            values: Whole windows, targets included; NaN = unobserved.
            hidden: True for patches that the model may not see.
            covariates: Known columns; those of the past only are hidden with their patches.
            static: Constant inputs.
            scored: True for patches whose prediction counts; None counts all.
        """
        config = self.model.config
        patch = config.patch_length
        masked = values.masked_fill(hidden.repeat_interleave(patch, dim=1), torch.nan)
        if covariates is not None:
            unknown = (
                hidden.repeat_interleave(patch, dim=1)[..., None].expand_as(covariates).clone()
            )
            unknown[..., : config.num_future_covariates] = False
            covariates = covariates.masked_fill(unknown, torch.nan)
        states, scale = self.model.encode(masked[:, :-patch], covariates, static)
        predicted = self.model.head(states)  # [B M-1 P Q]
        target = values.unflatten(1, (-1, patch))[:, 1:]  # [B M-1 P]
        # Where the past is constant its forecast is that constant, whatever the network says.
        usable = ~target.isnan() & (scale.std > 0)[..., None]
        if scored is not None:
            usable &= scored[:, 1:, None]
        loss = quantile_loss(
            predicted.to(torch.float32),
            scale.scale(target.nan_to_num(0.0)),
            usable,
            self.model.levels,
        )
        return loss, usable.sum().to(torch.float32)
