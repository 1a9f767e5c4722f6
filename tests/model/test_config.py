"""Options are checked once, all at a time, and survive a trip through JSON."""

import copy
import json
import math
from dataclasses import replace

import pytest

from foretell.data.errors import OptionError
from foretell.model.config import ForecasterConfig, TrainingConfig

TINY = ForecasterConfig(
    patch_length=4,
    context_length=48,
    d_model=16,
    num_layers=2,
    num_heads=2,
    d_ff=32,
    quantile_levels=(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
)


def check(config, **values):
    """Check values that the tests' own type checker would stop at the door."""
    unchecked = copy.copy(config)
    for name, value in values.items():
        object.__setattr__(unchecked, name, value)
    unchecked.__post_init__()


def test_every_problem_is_reported_at_once():
    with pytest.raises(OptionError) as error:
        check(TINY, context_length=50, norm="batch", positions="none", dropout=1.0)
    text = str(error.value)
    for part in (
        "context_length 50 is no multiple of patch_length 4; try 52.",
        "norm is 'batch'; it must be one of layer, rms.",
        "positions is 'none'",
        "dropout is 1.0; it must be inside [0, 1).",
    ):
        assert part in text


@pytest.mark.parametrize("levels", [(), (0.1, 0.9), (0.5, 0.1), (0.0, 0.5), (0.5, 1.0), (0.5, 0.5)])
def test_levels_must_rise_inside_0_and_1_around_the_median(levels):
    with pytest.raises(OptionError, match="must rise inside"):
        replace(TINY, quantile_levels=levels)


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_sizes_are_whole_numbers(size):
    with pytest.raises(OptionError, match=r"num_layers is .*; it must be a whole number"):
        check(TINY, num_layers=size)


def test_heads_must_split_the_width_evenly():
    with pytest.raises(OptionError, match="d_model 16 doesn't split into 3 heads"):
        replace(TINY, num_heads=3)


@pytest.mark.parametrize("config", [TINY, TrainingConfig(steps=7)])
def test_json_and_back(config):
    assert type(config).from_json(json.loads(json.dumps(config.to_json()))) == config


def test_unknown_and_missing_keys_are_refused_together():
    values = {**TrainingConfig().to_json(), "stepz": 1}
    del values["seed"]
    with pytest.raises(OptionError, match=r"no key 'stepz'[\s\S]*lacks the key 'seed'"):
        TrainingConfig.from_json(values)


def test_training_options_are_checked():
    with pytest.raises(OptionError) as error:
        check(TrainingConfig(), steps=0, learning_rate=0, ema_decay=1.0, precision="fp8", mixing=2)
    assert len(error.value.problems) == 5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, None, "1"])
@pytest.mark.parametrize(
    "name", ["learning_rate", "clip_norm", "weight_decay", "ema_decay", "mixing", "sign_flip"]
)
def test_what_is_no_finite_number_trains_nothing(name, value):
    """A learning rate of NaN made weights of NaN, and the training succeeded."""
    with pytest.raises(OptionError, match=f"^{name} is .*; it must be (a finite number|inside)"):
        check(TrainingConfig(), **{name: value})
