"""Quantiles in order, whatever is asked for: a planner who sees q0.1 above q0.2 trusts neither."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import OptionError
from foretell.runtime.quantiles import at_levels, check_levels

TRAINED = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
VALUES = st.lists(st.floats(-1e100, 1e100), min_size=7, max_size=7).map(sorted)
LEVELS = st.lists(st.floats(0.05, 0.95), min_size=1, max_size=12)


def read(values: list[float], levels: list[float]) -> list[float]:
    return at_levels(np.array(values, dtype=np.float64).reshape(1, 1, -1), TRAINED, levels)[
        0, 0
    ].tolist()


def test_trained_levels_are_taken_as_they_are() -> None:
    values = [1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7]
    assert read(values, [0.9, 0.05, 0.5]) == [6.6, 1.1, 4.4]


def test_between_them_runs_a_straight_line() -> None:
    assert read([0, 10, 40, 80, 90, 95, 100], [0.4, 0.3]) == pytest.approx([64, 48])


def test_rounding_in_a_level_makes_no_new_level() -> None:
    trained = (0.1, 0.3, 0.5)
    quantiles = np.array([[[1.0, 2.0, 3.0]]])
    assert at_levels(quantiles, trained, [0.1 + 0.2])[0, 0, 0] == 2.0
    check_levels((0.1, 0.5, 0.9), [1 - 0.9])


@given(values=VALUES, levels=LEVELS)
def test_order_holds_to_the_last_bit(values: list[float], levels: list[float]) -> None:
    """HA11, with no tolerance."""
    answers = read(values, sorted(levels))
    assert answers == sorted(answers)
    assert values[0] <= answers[0]
    assert answers[-1] <= values[-1]


@given(values=VALUES, levels=LEVELS, data=st.data())
def test_an_answer_does_not_depend_on_what_else_is_asked(
    values: list[float], levels: list[float], data: st.DataObject
) -> None:
    """HA11: fewer levels, or another order, change none of the others."""
    answers = dict(zip(levels, read(values, levels), strict=True))
    some = data.draw(st.permutations(sorted(set(levels))))[:3]
    assert read(values, some) == [answers[level] for level in some]


@given(constant=st.floats(-1e100, 1e100), levels=LEVELS)
def test_equal_quantiles_stay_equal(constant: float, levels: list[float]) -> None:
    """A constant series has no spread, at any level (HA06)."""
    assert read([constant] * 7, levels) == [constant] * len(levels)


def test_no_levels_give_no_columns() -> None:
    assert at_levels(np.zeros((2, 3, 7)), TRAINED, []).shape == (2, 3, 0)


def test_levels_beyond_the_trained_ones_are_refused_with_the_range() -> None:
    with pytest.raises(OptionError) as caught:
        check_levels(TRAINED, [0.01, 0.5, 0.99])
    assert "quantile 0.01 is outside the range this model was trained for, 0.05 to 0.95" in str(
        caught.value
    )
    assert "quantile 0.99 is outside" in str(caught.value)
    assert len(caught.value.problems) == 2
