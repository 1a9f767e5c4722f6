"""What every configuration of model/ shares: JSON in and out, and how a training loop runs."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from foretell.data.errors import OptionError

Config = TypeVar("Config")


class JsonConfig:
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
class LoopConfig(JsonConfig):
    """How a training loop runs, whatever it trains.

    Attributes:
        steps: Optimiser steps.
        learning_rate: Peak of the schedule: linear warm-up, then half a cosine down to 0.
        warmup_steps: Steps of the warm-up.
        weight_decay: Of AdamW, on weight matrices only.
        clip_norm: Gradients of a larger global norm are scaled down to it; their direction stays.
        ema_decay: The weights that are kept are a moving average of the trained ones; 0 turns it
            off.
        precision: "fp32", or "bf16" to multiply in bfloat16.
        seed: Fixes weights, batches and dropout.
        validate_every: Steps between validations.
        patience: Validations without a better one before training stops; 0 = never.
        checkpoint_every: Steps between checkpoints, which are at most a minute apart anyway; a
            killed run resumes from the last one.
    """

    steps: int = 2000
    learning_rate: float = 1e-3
    warmup_steps: int = 100
    weight_decay: float = 0.05
    clip_norm: float = 1.0
    ema_decay: float = 0.995
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = 0
    validate_every: int = 200
    patience: int = 0
    checkpoint_every: int = 200

    def __post_init__(self) -> None:
        if problems := self.problems():
            raise OptionError(problems)

    def problems(self) -> list[str]:
        """Say what is out of its range."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return [
            *whole_problems(values, 1, "steps", "validate_every", "checkpoint_every"),
            *whole_problems(values, 0, "warmup_steps", "seed", "patience"),
            *[
                f"{name} is {values[name]!r}; it must be a finite number above 0."
                for name in ("learning_rate", "clip_norm")
                if not (is_finite(values[name]) and values[name] > 0)
            ],
            *share_problems(values, ")", "ema_decay"),
            *choice_problems(precision=(self.precision, ("fp32", "bf16"))),
            *(
                []
                if is_finite(self.weight_decay) and self.weight_decay >= 0
                else [
                    f"weight_decay is {self.weight_decay!r}; it must be a finite number from 0 on."
                ]
            ),
        ]


def is_finite(value: object) -> bool:
    """Tell whether this is a number that a float can hold, and neither infinite nor NaN."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -sys.float_info.max <= value <= sys.float_info.max  # type: ignore[operator]


def whole_problems(values: Mapping[str, Any], least: int, *names: str) -> list[str]:
    """Name those that are no whole number of at least `least`."""
    return [
        f"{name} is {values[name]!r}; it must be a whole number of at least {least}."
        for name in names
        if isinstance(values[name], bool)
        or not isinstance(values[name], int)
        or values[name] < least
    ]


def share_problems(values: Mapping[str, Any], end: Literal[")", "]"], *names: str) -> list[str]:
    """Name those that lie outside [0, 1) or [0, 1]."""
    return [
        f"{name} is {values[name]!r}; it must be inside [0, 1{end}."
        for name in names
        if not is_finite(values[name])
        or not 0 <= values[name] <= 1
        or (end == ")" and values[name] == 1)
    ]


def choice_problems(**choices: tuple[object, tuple[object, ...]]) -> list[str]:
    """Name those that are none of the allowed values."""
    return [
        f"{name} is {value!r}; it must be one of {', '.join(map(str, allowed))}."
        for name, (value, allowed) in choices.items()
        if value not in allowed
    ]
