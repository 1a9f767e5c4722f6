"""What can be chosen about a forecaster and about its training; checked once, when it is made."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from foretell.data.errors import OptionError

DEFAULT_LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


Config = TypeVar("Config")


class _Json:
    """JSON in and out for frozen dataclasses; unknown and missing keys are refused, all at once."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))  # type: ignore[call-overload]
        return values

    @classmethod
    def from_json(cls: type[Config], values: dict[str, Any]) -> Config:
        """Read what `to_json` wrote.

        Raises:
            OptionError: A key is unknown or missing, or a value is out of its range.
        """
        known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        problems = [f"{cls.__name__} has no key {key!r}." for key in values if key not in known]
        problems += [
            f"{cls.__name__} lacks the key {key!r}." for key in sorted(known - set(values))
        ]
        if problems:
            raise OptionError(problems)
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecasterConfig(_Json):
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
        problems = [
            f"{name} is {getattr(self, name)!r}; it must be a whole number of at least {least}."
            for name, least in (
                *((n, 1) for n in ("patch_length", "context_length", "d_model", "num_layers")),
                *((n, 1) for n in ("num_heads", "d_ff")),
                *((f"num_{n}", 0) for n in ("future_covariates", "past_covariates", "static")),
            )
            if not (_is_int(getattr(self, name)) and getattr(self, name) >= least)
        ]
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
        problems += _choice_problems(
            norm=(self.norm, ("layer", "rms")),
            activation=(self.activation, ("swiglu", "relu")),
            positions=(self.positions, ("rotary", "sinusoidal")),
        )
        if not 0 <= self.dropout < 1:
            problems.append(f"dropout is {self.dropout}; it must be inside [0, 1).")
        if problems:
            raise OptionError(problems)

    @property
    def head_dim(self) -> int:
        """Dimensions of a head, D."""
        return self.d_model // self.num_heads


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingConfig(_Json):
    """How a model is trained.

    Attributes:
        steps: Optimiser steps.
        batch_size: Windows a step, over all processes together.
        learning_rate: Peak of the schedule: linear warm-up, then half a cosine down to 0.
        warmup_steps: Steps of the warm-up.
        weight_decay: Of AdamW, on weight matrices only.
        clip_norm: Gradients of a larger global norm are scaled down to it; their direction stays.
        ema_decay: The weights that are kept are a moving average of the trained ones; 0 turns it
            off.
        precision: "fp32", or "bf16" to multiply in bfloat16 (the scaling stays in float64).
        seed: Fixes weights, batches and dropout.
        validation: Hold back the last horizon of each series that is long enough, choose the
            weights that forecast it best, and stop early by `patience`; False trains on everything.
        validate_every: Steps between validations.
        patience: Validations without a better loss before training stops; 0 = never.
        checkpoint_every: Steps between checkpoints, which are at most a minute apart anyway; a
            killed run resumes from the last one.
        mask_share: Share of windows in which contiguous patches are hidden.
        mixing: Share of windows that are a random blend of two series.
        sign_flip: Share of windows that are turned upside down.
    """

    steps: int = 2000
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 100
    weight_decay: float = 0.05
    clip_norm: float = 1.0
    ema_decay: float = 0.995
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = 0
    validation: bool = True
    validate_every: int = 200
    patience: int = 0
    checkpoint_every: int = 200
    mask_share: float = 0.9
    mixing: float = 0.3
    sign_flip: float = 0.2

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)!r}; it must be a whole number of at least {least}."
            for name, least in (
                *((n, 1) for n in ("steps", "batch_size", "validate_every", "checkpoint_every")),
                *((n, 0) for n in ("warmup_steps", "seed", "patience")),
            )
            if not (_is_int(getattr(self, name)) and getattr(self, name) >= least)
        ]
        problems += [
            f"{name} is {getattr(self, name)}; it must be above 0."
            for name in ("learning_rate", "clip_norm")
            if not getattr(self, name) > 0
        ]
        problems += [
            f"{name} is {getattr(self, name)}; it must be inside [0, 1{end}."
            for name, end in (
                ("mask_share", "]"),
                ("mixing", "]"),
                ("sign_flip", "]"),
                ("ema_decay", ")"),
            )
            if not 0 <= getattr(self, name) <= 1 or (end == ")" and getattr(self, name) == 1)
        ]
        problems += _choice_problems(precision=(self.precision, ("fp32", "bf16")))
        if self.weight_decay < 0:
            problems.append(f"weight_decay is {self.weight_decay}; it must not be negative.")
        if problems:
            raise OptionError(problems)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _choice_problems(**choices: tuple[str, tuple[str, ...]]) -> list[str]:
    return [
        f"{name} is {value!r}; it must be one of {', '.join(allowed)}."
        for name, (value, allowed) in choices.items()
        if value not in allowed
    ]
