"""The forecaster: a causal Transformer over patches whose every position predicts the next patch.

The horizon is appended as unobserved patches, so that all of it comes out of one causal pass: no
loop, no cache.

Axes: B batch, T context steps, H horizon steps, L all steps, N patches, P patch length, C channels,
    Q quantiles,
F covariates known for the future, A all covariates (future first, then past), S static inputs.
"""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn
from torch.nn import functional

from foretell.model.attention import causal_mask
from foretell.model.config import ForecasterConfig
from foretell.model.layers import Block, ResidualMLP, make_norm
from foretell.model.positions import rotary_angles, sinusoidal_positions
from foretell.model.scaling import CausalScale, causal_scale


class Forecaster(nn.Module):
    """Quantiles of the steps to come, in data units, from past values in data units.

    Properties that the tests hold it to: what is added to the future changes nothing earlier; a
    shorter horizon is a prefix of a longer one; an answer depends neither on neighbours nor on
    padding; f(a·y + b) = a·f(y) + b for a > 0; a constant past gives that constant.
    """

    levels: Tensor

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("levels", torch.tensor(config.quantile_levels))
        num_covariates = config.num_future_covariates + config.num_past_covariates
        self.standardise = Standardise(num_covariates) if num_covariates else None
        self.standardise_static = Standardise(config.num_static) if config.num_static else None
        channels = 2 * (1 + num_covariates + config.num_future_covariates)  # value and mask of each
        self.embed = ResidualMLP(config.patch_length * channels, config.d_ff, config.d_model)
        self.embed_static = (
            nn.Linear(2 * config.num_static, config.d_model) if config.num_static else None
        )
        self.blocks = nn.ModuleList(
            Block(
                d_model=config.d_model,
                num_heads=config.num_heads,
                d_ff=config.d_ff,
                norm=config.norm,
                norm_first=config.norm_first,
                activation=config.activation,
                dropout=config.dropout,
            )
            for _ in range(config.num_layers)
        )
        self.norm = make_norm(config.norm, config.d_model)
        self.head = QuantileHead(config)

    def forward(
        self,
        context: Float64[Tensor, "B T"],
        horizon_placeholder: Float64[Tensor, "B H"],
        context_covariates: Float64[Tensor, "B T A"] | None = None,
        horizon_covariates: Float64[Tensor, "B H F"] | None = None,
        static: Float64[Tensor, "B S"] | None = None,
    ) -> Float64[Tensor, "B H Q"]:
        """Forecast.

        Args:
            context: Past values; NaN = unobserved; shorter series are padded on the left.
            horizon_placeholder: Its values are not looked at; its shape carries the horizon.
            context_covariates: Columns known for the future first, then those of the past only.
            horizon_covariates: The columns known for the future.
            static: Constant inputs.
        """
        patch = self.config.patch_length
        horizon = horizon_placeholder.shape[1]
        pad = -context.shape[1] % patch
        # The last context patch predicts the first patch of the horizon, so one patch fewer is
        # appended.
        ahead = torch.full_like(horizon_placeholder, torch.nan)[:, : (horizon - 1) // patch * patch]
        values = torch.cat((_pad_left(context, pad), ahead), dim=1)
        covariates = None
        if context_covariates is not None:
            covariates = self._covariates(context_covariates, horizon_covariates, horizon, pad)
        first = (context.shape[1] + pad) // patch - 1
        hidden, scale = self.encode(values, covariates, static, start=first)
        quantiles = scale.select(first).unscale(self.head(hidden))
        return quantiles.flatten(1, 2)[:, :horizon]

    def encode(
        self,
        values: Float64[Tensor, "B L"],
        covariates: Float64[Tensor, "B M A"] | None,
        static: Float64[Tensor, "B S"] | None,
        start: int = 0,
    ) -> tuple[Float[Tensor, "B K C"], CausalScale]:
        """Read whole patches; return the hidden states from patch `start` on, and every scale.

        Args:
            values: Data units, NaN = unobserved; L is a multiple of P.
            covariates: One patch longer than `values`: a position knows the next patch's future
                columns.
            static: Constant inputs.
            start: First position to answer.
        """
        patch = self.config.patch_length
        observed = ~values.isnan()
        scale = causal_scale(values, observed, patch)
        patches = observed.unflatten(1, (-1, patch))  # [B N P]
        # No nan_to_num: its graph looks for infinities in float32, and finds them above 3.4e38.
        known = torch.where(observed, values, torch.zeros_like(values))
        scaled = scale.scale(known.unflatten(1, (-1, patch)))
        tokens = [torch.where(patches, scaled, torch.zeros_like(scaled)), patches.to(torch.float32)]
        if covariates is not None and self.standardise is not None:
            tokens += self._covariate_tokens(self.standardise(covariates))
        x = self.embed(torch.cat(tokens, dim=-1))
        if (
            static is not None
            and self.standardise_static is not None
            and self.embed_static is not None
        ):
            x = x + self.embed_static(self.standardise_static(static))[:, None]
        return self._transform(x, patches.any(dim=-1), start), scale

    def _transform(
        self, x: Float[Tensor, "B N C"], has_values: Bool[Tensor, "B N"], start: int
    ) -> Float[Tensor, "B K C"]:
        length = x.shape[1]
        steps = torch.arange(length, device=x.device)
        # Patches before the first observed step are padding: no keys, though each still sees
        # itself.
        first = has_values.to(torch.int64).argmax(dim=1, keepdim=True)  # [B 1]
        started = (steps[None, :] >= first) & has_values.any(dim=1, keepdim=True)  # [B N]
        itself = torch.eye(length, dtype=torch.bool, device=x.device)
        mask = (causal_mask(length, x.device) & started[:, None, :] | itself)[:, None]  # [B 1 N N]
        rotation = None
        if self.config.positions == "rotary":
            rotation = rotary_angles(steps, self.config.head_dim)
        else:
            x = x + sinusoidal_positions((steps[None, :] - first).clamp(min=0), self.config.d_model)
        *blocks, last = self.blocks
        for block in blocks:
            x = block(x, mask, rotation)
        # Nothing reads the last block's earlier positions but training, which asks for all.
        x = last(x, mask[:, :, start:], rotation, start)
        normed: Tensor = self.norm(x)
        return normed

    def _covariates(
        self,
        context: Float64[Tensor, "B T A"],
        horizon: Float64[Tensor, "B H F"] | None,
        steps: int,
        pad: int,
    ) -> Float64[Tensor, "B M A"]:
        """Lay the covariates beside all patches, the last predicted one too; NaN where unknown."""
        patch = self.config.patch_length
        whole = (steps + patch - 1) // patch * patch
        past = torch.nn.functional.pad(context, (0, 0, pad, 0), value=torch.nan)
        num_past = self.config.num_past_covariates
        if horizon is None:
            empty = context.new_full((1, 1, 1), torch.nan)
            return torch.cat((past, empty.expand(context.shape[0], whole, num_past)), dim=1)
        ahead = functional.pad(horizon, (0, num_past, 0, whole - steps), value=torch.nan)
        return torch.cat((past, ahead), dim=1)

    def _covariate_tokens(
        self, covariates: Float[Tensor, "B M A2"]
    ) -> list[Float[Tensor, "B N W"]]:
        """Cut standardised covariates and their masks into the patches that each position knows."""
        patches = covariates.unflatten(1, (-1, self.config.patch_length))  # [B N+1 P 2A]
        known = [patches[:, :-1].flatten(2)]
        num_future = self.config.num_future_covariates
        if num_future:
            width = covariates.shape[-1] // 2
            ahead = patches[:, 1:]
            future = (ahead[..., :num_future], ahead[..., width : width + num_future])
            known += [part.flatten(2) for part in future]
        return known


class QuantileHead(nn.Module):
    """Quantiles that can't cross: the median, and steps of softplus away from it on both sides."""

    order: Tensor

    def __init__(self, config: ForecasterConfig) -> None:
        super().__init__()
        self.patch_length = config.patch_length
        self.num_levels = len(config.quantile_levels)
        self.num_below = config.quantile_levels.index(0.5)
        self.project = ResidualMLP(
            config.d_model, config.d_ff, config.patch_length * self.num_levels
        )

    def forward(self, hidden: Float[Tensor, "B N C"]) -> Float[Tensor, "B N P Q"]:
        """Return the next patch's quantiles in the scaled space, in rising order."""
        raw = self.project(hidden).to(torch.float32)
        raw = raw.unflatten(-1, (self.patch_length, self.num_levels))
        median = raw[..., :1]
        below, above = functional.softplus(raw[..., 1:]).split(
            (self.num_below, self.num_levels - 1 - self.num_below), dim=-1
        )
        parts = [median]
        if self.num_below:
            parts.insert(0, (median - below.cumsum(dim=-1)).flip(-1))
        if self.num_levels - 1 - self.num_below:
            parts.append(median + above.cumsum(dim=-1))
        return torch.cat(parts, dim=-1)


class Standardise(nn.Module):
    """Covariates by mean and standard deviation of the training data; NaN becomes 0 with mask 0.

    The statistics are the training data's, not the series' own, so a constant covariate keeps its
    meaning.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("std", torch.ones(width, dtype=torch.float64))

    def forward(self, values: Float64[Tensor, "*B A"]) -> Float[Tensor, "*B A2"]:
        """Return the standardised values and, behind them, their masks."""
        known = ~values.isnan()
        scaled = ((values - self.mean) / self.std).to(torch.float32).clamp(-1e4, 1e4)
        return torch.cat(
            (torch.where(known, scaled, torch.zeros_like(scaled)), known.to(torch.float32)), dim=-1
        )


def _pad_left(context: Float64[Tensor, "B T"], steps: int) -> Float64[Tensor, "B L"]:
    return functional.pad(context, (steps, 0), value=torch.nan)
