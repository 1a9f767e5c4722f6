"""Shapes of translators and their training: all mistakes at once, and JSON that comes back."""

import copy
from dataclasses import replace

import pytest

from foretell.data.errors import OptionError
from foretell.model.run import make_translator, translator_config
from foretell.model.translator_config import (
    RecurrentConfig,
    TransformerConfig,
    TranslatorTraining,
)

TRANSFORMER = TransformerConfig(vocab_size=100)
RECURRENT = RecurrentConfig(vocab_size=100)


def check(config, **values):
    """Check values that the tests' own type checker would stop at the door."""
    unchecked = copy.copy(config)
    for name, value in values.items():
        object.__setattr__(unchecked, name, value)
    unchecked.__post_init__()


@pytest.mark.parametrize(
    ("config", "mistakes"),
    [
        (
            TRANSFORMER,
            {"vocab_size": 4, "d_ff": 0, "dropout": 1.0, "norm": "batch", "max_source_length": 1},
        ),
        (RECURRENT, {"cell": "rnn", "attention": "luong", "num_layers": 0, "input_feeding": 2}),
        (TranslatorTraining(), {"label_smoothing": 1.0, "batch_tokens": 0, "learning_rate": -1}),
    ],
)
def test_all_mistakes_are_told_at_once(config, mistakes):
    """Whoever gets three options wrong should not have to start three times."""
    with pytest.raises(OptionError) as told:
        check(config, **mistakes)
    assert [problem.split(" is ")[0] for problem in told.value.problems] == sorted(
        mistakes, key=str(told.value).index
    )


@pytest.mark.parametrize(
    ("config", "shape", "message"),
    [
        (TRANSFORMER, {"d_model": 10, "num_heads": 4}, "d_model 10 doesn't split into 4 heads"),
        (TRANSFORMER, {"d_model": 9, "num_heads": 3}, "d_model 9 is odd; sines and cosines come"),
        (
            TRANSFORMER,
            {"activation": "gelu"},
            "activation is 'gelu'; it must be one of swiglu, relu",
        ),
        (TRANSFORMER, {"dropout": -0.1}, r"dropout is -0.1; it must be inside \[0, 1\)"),
        (TRANSFORMER, {"norm_first": "yes"}, "norm_first is 'yes'; it must be one of True, False"),
        (TRANSFORMER, {"num_heads": True}, "num_heads is True; it must be a whole number"),
        (RECURRENT, {"d_model": 9}, "d_model 9 is odd; two directions share it"),
        (RECURRENT, {"attention": None}, "it must be one of none, dot, scaled_dot, additive"),
        (RECURRENT, {"cell": "GRU"}, "cell is 'GRU'; it must be one of tanh, gru, lstm"),
        (RECURRENT, {"max_target_length": 1}, "max_target_length is 1; it must be a whole number"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(config, shape, message):
    with pytest.raises(OptionError, match=message):
        check(config, **shape)


def test_an_odd_width_is_fine_where_one_direction_has_all_of_it():
    model = make_translator(RecurrentConfig(vocab_size=10, d_model=9, bidirectional=False))
    assert model.encoder[0][0].d_hidden == 9


@pytest.mark.parametrize(
    "config",
    [
        replace(TRANSFORMER, num_heads=2, norm_first=False),
        replace(RECURRENT, cell="lstm", attention="none"),
    ],
)
def test_json_comes_back_and_names_what_is_unknown_or_missing(config):
    """A run's file says what the model is; a key that nobody reads would be a silent change."""
    arch = "transformer" if isinstance(config, TransformerConfig) else "recurrent"
    assert translator_config(arch, config.to_json()) == config
    values = {**config.to_json(), "rotary": True}
    del values["d_model"]
    with pytest.raises(OptionError, match=r"no key 'rotary'.*\n.*lacks the key 'd_model'"):
        translator_config(arch, values)


def test_families_are_told_apart_by_their_name():
    values = TRANSFORMER.to_json()
    with pytest.raises(OptionError, match="RecurrentConfig has no key 'num_heads'"):
        translator_config("recurrent", values)


def test_training_options_come_back_from_json():
    training = TranslatorTraining(steps=7, batch_tokens=500, label_smoothing=0.0, precision="bf16")
    assert TranslatorTraining.from_json(training.to_json()) == training
