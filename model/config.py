"""What can be chosen about a forecaster and about its training; checked once, when it is made."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from foretell.data.errors import OptionError
from foretell.model.loop_config import (
    JsonConfig,
    LoopConfig,
    choice_problems,
    share_problems,
    whole_problems,
)

DEFAULT_LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecasterConfig(JsonConfig):
    """The shape of a forecaster.

    Attributes:
        patch_length: Steps in a patch, P; the model reads and predicts whole patches. A divisor of
            the season (12 of 24 hours, 12 months) lets patches repeat their phase.
        context_length: Steps of the past that it looks at; a multiple of `patch_length`.
        d_model: Width of a token.
        num_layers: Blocks.
        num_heads: Attention heads; each has d_model / num_heads dimensions, an even number.
        d_ff: Width inside the feed-forward layers.
        quantile_levels: Levels that it predicts, rising, inside (0, 1), with 0.5 among them.
        norm: "layer" (LayerNorm) or "rms" (RMSNorm).
        norm_first: Normalise before each sub-layer (pre-norm) or after its sum (post-norm).
        activation: "swiglu", or "relu" as in the first Transformer.
        positions: "rotary" turns queries and keys, "sinusoidal" is added to the tokens.
        dropout: Share of activations dropped in training, [0, 1).
        num_future_covariates: Numeric columns known for past and horizon.
        num_past_covariates: Numeric columns known for the past only.
        num_static: Numeric columns constant within a series.
    """

    patch_length: int
    context_length: int
    d_model: int
    num_layers: int
    num_heads: int
    d_ff: int
    quantile_levels: tuple[float, ...] = DEFAULT_LEVELS
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = True
    activation: Literal["swiglu", "relu"] = "swiglu"
    positions: Literal["rotary", "sinusoidal"] = "rotary"
    dropout: float = 0.0
    num_future_covariates: int = 0
    num_past_covariates: int = 0
    num_static: int = 0

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        sizes = ("patch_length", "context_length", "d_model", "num_layers", "num_heads", "d_ff")
        counts = ("num_future_covariates", "num_past_covariates", "num_static")
        problems = [*whole_problems(values, 1, *sizes), *whole_problems(values, 0, *counts)]
        if not problems and self.context_length % self.patch_length:
            whole = -(-self.context_length // self.patch_length) * self.patch_length
            problems.append(
                f"context_length {self.context_length} is no multiple of patch_length "
                f"{self.patch_length}; try {whole}."
            )
        if not problems and self.d_model % (2 * self.num_heads):
            problems.append(
                f"d_model {self.d_model} doesn't split into {self.num_heads} heads of an even size."
            )
        levels = self.quantile_levels
        if (
            list(levels) != sorted(set(levels))
            or not all(0 < q < 1 for q in levels)
            or 0.5 not in levels
        ):
            problems.append(f"quantile_levels {list(levels)} must rise inside (0, 1) and hold 0.5.")
        problems += choice_problems(
            norm=(self.norm, ("layer", "rms")),
            activation=(self.activation, ("swiglu", "relu")),
            positions=(self.positions, ("rotary", "sinusoidal")),
        )
        problems += share_problems(values, ")", "dropout")
        if problems:
            raise OptionError(problems)

    @property
    def head_dim(self) -> int:
        """Dimensions of a head, D."""
        return self.d_model // self.num_heads


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingConfig(LoopConfig):
    """How a forecaster is trained; see `LoopConfig` for the loop.

    Attributes:
        batch_size: Windows a step, over all processes together.
        validation: Hold back the last horizon of each series that is long enough, choose the
            weights that forecast it best, and stop early by `patience`; False trains on everything.
        mask_share: Share of windows in which contiguous patches are hidden.
        mixing: Share of windows that are a random blend of two series.
        sign_flip: Share of windows that are turned upside down.
    """

    batch_size: int = 64
    validation: bool = True
    mask_share: float = 0.9
    mixing: float = 0.3
    sign_flip: float = 0.2

    def problems(self) -> list[str]:
        """Say what is out of its range."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return [
            *LoopConfig.problems(self),
            *whole_problems(values, 1, "batch_size"),
            *share_problems(values, "]", "mask_share", "mixing", "sign_flip"),
        ]
