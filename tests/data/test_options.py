"""What a caller may ask of a forecast: all that is wrong with a question is told at once."""

import inspect
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from foretell.data.calendars.calendar import Frequency
from foretell.data.errors import FrequencyError, OptionError
from foretell.data.series.options import Columns, ForecastOptions


def unchecked(kind: type, **fields: object) -> object:
    """Callers have no type checker at hand, so neither have the classes here."""
    made = object.__new__(kind)
    inspect.unwrap(kind.__init__)(made, **fields)
    return made


from_call = partial(
    inspect.unwrap(ForecastOptions.from_call.__func__), partial(unchecked, ForecastOptions)
)


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
        ({"quantiles": "0.5"}, r"quantiles is '0.5'; give a flat list of numbers, such as \[0.1"),
        ({"quantiles": np.array(0.5)}, r"quantiles is array\(0.5\); give a flat list"),
        ({"quantiles": Fraction(1, 2)}, r"quantiles is Fraction\(1, 2\); give a flat list"),
        ({"level": 80.0}, r"level is 80.0; give a flat list of numbers, such as \[80, 95\]"),
        ({"quantiles": np.array([[0.1, 0.5]])}, "quantiles holds ndarray; give a flat list"),
        ({"quantiles": [0.1, [0.5]]}, "quantiles holds list; give a flat list"),
        ({"level": [[80], (90,)]}, "level holds list, tuple; give a flat list"),
        ({"quantiles": [True, None, "0.5", 1j]}, "holds bool, NoneType, str, complex"),
        ({"quantiles": [np.True_]}, "quantiles holds bool"),
        ({"quantiles": [Decimal("sNaN")]}, "quantile nan is not inside"),
        ({"quantiles": [Fraction(10**400)]}, "quantile nan is not inside"),
        ({"quantiles": [Fraction(1, 10**400)]}, "quantile 0.0 is not inside"),
        ({"level": [Decimal(100)]}, r"level 100.0 is not inside \(0, 100\)"),
        ({"allow_other_frequency": "no"}, "allow_other_frequency is 'no'; give True or False"),
        ({"allow_other_frequency": 1}, "allow_other_frequency is 1; give True or False"),
        ({"allow_other_frequency": None}, "allow_other_frequency is None"),
        ({"level": [0.0]}, r"level 0.0 is not inside \(0, 100\)"),
        ({"quantiles": [float("nan")]}, "quantile nan is not inside"),
        ({"quantiles": [0.5, 0.5]}, "name a level twice"),
    ],
)
def test_what_can_not_be_asked_is_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        from_call(3, **options)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        ForecastOptions(horizon=0, quantile_levels=(0.0, 1.5), freq="")
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize("number", [float, Decimal, Fraction, np.float64, np.float32])
def test_levels_of_any_real_type_are_floats(number: type) -> None:
    """One door computes with them, another packs them: what one takes the other must take."""
    found = from_call(3, quantiles=[number("0.25"), number("0.5")]).quantile_levels
    assert found == (0.25, 0.5)
    assert {type(level) for level in found} == {float}
    assert from_call(3, level=[number("50")]).quantile_levels == (0.25, 0.75)


@pytest.mark.parametrize("name", ["quantiles", "level"])
def test_the_number_of_levels_is_bounded(name: str) -> None:
    """A million of them held a worker of the server for 15 seconds, for one small request."""
    scale = 1 if name == "quantiles" else 100
    many = scale * (np.arange(1_000_000) + 0.5) / 1_000_000
    with pytest.raises(OptionError, match="more than 1,000") as caught:
        from_call(3, **{name: many})
    assert len(caught.value.problems) == 1
    with pytest.raises(OptionError, match="more than 1,000"):
        ForecastOptions(horizon=1, quantile_levels=tuple(many.tolist()))
    assert len(from_call(3, **{name: many[1000::2000]}).quantile_levels) in {500, 1000}


@pytest.mark.parametrize(
    "freq", ["", " ", "fortnight", 0, True, 10**5000, "9" * 5000, 2.5], ids=lambda freq: "freq"
)
def test_a_frequency_that_is_none_is_refused_before_anybody_is_asked(freq: object) -> None:
    """On the wire an empty name means "infer", so a client must never get so far."""
    with pytest.raises(FrequencyError, match="frequency"):
        from_call(3, freq=freq)


def test_frequencies_of_any_kind_are_text() -> None:
    assert ForecastOptions.from_call(3, freq=5).freq == "5"
    assert ForecastOptions.from_call(3, freq="H").freq == "H"
    assert from_call(3, freq=Frequency.parse("H")).freq == "h"


@pytest.mark.parametrize(
    "horizon", [0, -1, 100_001, 10**5000, True, 1.0, "3", None], ids=lambda horizon: "horizon"
)
def test_the_horizon_is_a_whole_number_in_range(horizon: object) -> None:
    with pytest.raises(OptionError, match=r"it must be .*1 to 100,000"):
        from_call(horizon)


def test_a_column_has_one_role() -> None:
    with pytest.raises(OptionError, match="column 'y' is given more than one role"):
        Columns(future_covariates=("y",))


@pytest.mark.parametrize("name", [None, ["y"], {}])
def test_a_column_has_a_name(name: object) -> None:
    with pytest.raises(OptionError, match=r"a column is named .*; give the name of one column"):
        unchecked(Columns, unique_id=name)
    assert unchecked(Columns, unique_id=5).unique_id == 5, "pandas names columns by numbers too"
