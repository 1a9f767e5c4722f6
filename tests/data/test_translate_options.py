"""Options of a translation come from files, wires and notebooks: what is wrong is told, by name."""

import inspect
import math

import numpy as np
import pytest

from foretell.data.errors import OptionError
from foretell.data.text.translation import MOST_BANNED, TranslateOptions

WHOLE = (
    *("beam_size", "n_best", "min_length", "max_length", "max_length_margin"),
    *("no_repeat_ngram_size", "top_k", "seed"),
)
NUMBERS = (
    *("length_penalty", "max_length_ratio", "repetition_penalty", "temperature", "top_p"),
    "patience",
)
TRUTHS = ("sample", "replace_unknowns", "attention", "truncate_source")


def make(**fields: object) -> TranslateOptions:
    """Past the type checks that tests put around constructors: callers have none."""
    made = object.__new__(TranslateOptions)
    inspect.unwrap(TranslateOptions.__init__)(made, **fields)
    return made


HUGE = (10**400, 10**5000, -(10**5000))
ODD = (np.array([1, 2]), np.ones(3), "1", [1], {}, (10**5000,), object(), math.nan)


@pytest.mark.parametrize("name", [*WHOLE, *NUMBERS, *TRUTHS, "banned", "length_formula"])
@pytest.mark.parametrize("value", [*HUGE, *ODD], ids=lambda value: type(value).__name__)
def test_whatever_is_given_the_field_is_named(name: str, value: object) -> None:
    """Numbers too long to print, and arrays that have no truth, once ended in a traceback."""
    with pytest.raises(OptionError, match=rf"^{name} is .*; (it must|expected)") as caught:
        make(**{name: value})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("value", ["no", "yes", None, 0, 1, np.True_])
def test_yes_and_no_are_said_as_such(name: str, value: object) -> None:
    """The text "no" is true in Python, and a sentence would have been drawn at random."""
    with pytest.raises(OptionError, match=f"{name} is .*; it must be True or False"):
        make(**{name: value})


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        make(beam_size=0, patience=-1.0, sample="no", prefix=None)
    assert len(caught.value.problems) == 4


def test_a_patience_may_be_without_end() -> None:
    assert TranslateOptions(patience=math.inf).patience == math.inf
    with pytest.raises(OptionError, match="temperature is inf"):
        TranslateOptions(temperature=math.inf)


def test_no_more_texts_are_banned_than_a_step_can_bear() -> None:
    texts = tuple(f"word {number}" for number in range(MOST_BANNED + 1))
    assert len(TranslateOptions(banned=texts[1:]).banned) == MOST_BANNED
    with pytest.raises(OptionError, match="banned has 1,001 texts; at most 1,000 can be banned"):
        TranslateOptions(banned=texts)
