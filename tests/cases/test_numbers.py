"""Numbers that broke other products, through every door: constants, units, order of quantiles."""

import numpy as np
import pytest

from foretell.data.errors import OptionError

CONSTANTS = [7.25, 0.0, -3e-05, 123456789.0]
LEVELS = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]


def test_ha06_constants_are_forecast_as_they_are(forecast):
    answer = forecast("HA06.csv", 12, quantiles=[0.1, 0.5, 0.9])
    ids = answer.table["unique_id"].unique().tolist()
    assert len(ids) == len(CONSTANTS)
    for unique_id, constant in zip(ids, CONSTANTS, strict=True):
        values = answer.values(unique_id)
        assert values.shape == (12, 4)
        assert np.isfinite(values).all()
        assert (np.abs(values - constant) <= (1e-5 * abs(constant) or 1e-6)).all()
        assert answer.stamps(unique_id)[0] == "2024-01-03"


def test_ha07_a_change_of_unit_changes_the_unit_alone(forecast):
    answer = forecast("HA07.csv", 24, quantiles=[0.1, 0.25, 0.5, 0.75, 0.9])
    base, spread = answer.values("base"), 9.2
    for unique_id, factor, offset in (
        ("affine", 1000.0, 5.0),
        ("giant", 1e12, 0.0),
        ("dwarf", 1e-12, 0.0),
    ):
        values = answer.values(unique_id)
        assert np.isfinite(values).all()
        assert (np.abs(values - (factor * base + offset)) <= 1e-3 * factor * spread).all()


def test_ha11_quantiles_are_in_order(forecast):
    answer = forecast("HA11.csv", 30, quantiles=LEVELS)
    assert answer.table["unique_id"].unique().tolist() == ["ramp", "saw", "spike", "drop"]
    assert answer.table.columns.tolist()[2:] == ["forecast", *(f"q{level}" for level in LEVELS)]
    quantiles = answer.table.iloc[:, 3:].to_numpy()
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0).all(), "exactly, no tolerance"
    assert answer.table["forecast"].tolist() == answer.table["q0.5"].tolist()
    for unique_id in ("ramp", "saw", "spike", "drop"):
        assert answer.stamps(unique_id)[0] == "2024-03-01"


@pytest.mark.parametrize("levels", [[0.9, 0.05, 0.5, 0.1], [0.95, 0.25], [0.75]])
def test_ha11_asking_for_fewer_in_any_order_changes_none(forecast, levels):
    every = forecast("HA11.csv", 30, quantiles=LEVELS).table
    some = forecast("HA11.csv", 30, quantiles=levels).table
    assert some.columns.tolist()[2:] == ["forecast", *(f"q{level}" for level in levels)]
    for column in some.columns[2:]:
        assert some[column].tolist() == every[column].tolist()


def test_ha11_levels_between_the_trained_ones_are_in_order_too(forecast):
    levels = [0.06, 0.0999, 0.1, 0.1001, 0.4, 0.49999, 0.5, 0.50001, 0.94]
    quantiles = forecast("HA11.csv", 30, quantiles=levels).table.iloc[:, 3:].to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()


@pytest.mark.parametrize("levels", [[0.0], [1.0], [1.5], [0.5, -0.1]])
def test_ha11_levels_that_are_none_are_refused(forecast, levels):
    with pytest.raises(OptionError, match=r"quantile .* is not inside \(0, 1\)"):
        forecast("HA11.csv", 3, quantiles=levels)


def test_ha11_a_decimal_comma_is_refused(command):
    """Only text can hold one: it reads as two levels, both out of range."""
    with pytest.raises(OptionError, match=r"(?s)quantile 0.0 is not inside .*quantile 5.0 is not"):
        command("HA11.csv", 3, quantiles="0,5")


def test_ha11_a_tail_that_was_never_learned_is_refused(forecast):
    with pytest.raises(OptionError, match=r"0.99 is outside the range .* 0.05 to 0.95"):
        forecast("HA11.csv", 3, quantiles=[0.5, 0.99])
