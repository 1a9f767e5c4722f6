"""What a caller may ask of a forecast: all that is wrong with a question is told at once."""

import inspect
from functools import partial

import pytest

from foretell.data.errors import OptionError
from foretell.data.options import Columns, ForecastOptions


def test_levels_are_central_intervals() -> None:
    options = ForecastOptions.from_call(3, level=[80.0, 90.0])
    assert options.quantile_levels == (0.05, 0.1, 0.9, 0.95)
    assert ForecastOptions.from_call(3).quantile_levels == (0.1, 0.5, 0.9)
    assert ForecastOptions.from_call(3, quantiles=[0.9, 0.2]).quantile_levels == (0.9, 0.2)
    assert ForecastOptions.from_call(3, quantiles=[]).quantile_levels == ()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"quantiles": [0.5], "level": [80.0]}, "both quantiles and level"),
        ({"quantiles": "0.5"}, r"quantiles is '0.5'; give a list, such as \[0.1, 0.5, 0.9\]"),
        ({"level": 80.0}, r"level is 80.0; give a list, such as \[80, 95\]"),
        ({"level": [0.0]}, r"level 0.0 is not inside \(0, 100\)"),
        ({"quantiles": [float("nan")]}, "quantile nan is not inside"),
        ({"quantiles": [0.5, 0.5]}, "name a level twice"),
    ],
)
def test_what_can_not_be_asked_is_refused(options: dict[str, object], match: str) -> None:
    """Callers have no type checker at hand, so neither has the function here."""
    from_call = partial(inspect.unwrap(ForecastOptions.from_call.__func__), ForecastOptions)
    with pytest.raises(OptionError, match=match):
        from_call(3, **options)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        ForecastOptions(horizon=0, quantile_levels=(0.0, 1.5))
    assert len(caught.value.problems) == 3


def test_a_column_has_one_role() -> None:
    with pytest.raises(OptionError, match="column 'y' is given more than one role"):
        Columns(future_covariates=("y",))
