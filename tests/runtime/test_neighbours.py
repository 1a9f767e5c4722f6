"""On real graphs: what an answer may depend on, and what it must not, to the last bit.

Without this, a series would be forecast otherwise on a busy day, in another order or on another
machine's number of cores, and nobody could reproduce yesterday's answer.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foretell.data.bundles.bundle import ForecasterSpec
from foretell.runtime import Forecaster, load

VALUES = ["forecast", "q0.1", "q0.5", "q0.9"]


@pytest.fixture(scope="module")
def forecaster(bundle_path: Path) -> Forecaster:
    return load(bundle_path, device="cpu", threads=2)


def ragged(count: int, seed: int = 0) -> pd.DataFrame:
    """Integer-time walks of 1 to 70 steps, on levels from 1e-6 to 1e6, a tenth of it missing."""
    rng = np.random.default_rng(seed)
    frames = []
    for number, steps in enumerate(rng.integers(1, 70, count)):
        y = (rng.normal(size=steps).cumsum() + 10) * 10.0 ** rng.integers(-6, 7)
        y[:-1][rng.random(steps - 1) < 0.1] = np.nan
        frames.append(pd.DataFrame({"unique_id": number, "ds": np.arange(steps), "y": y}))
    return pd.concat(frames, ignore_index=True)


def answers(model: Forecaster, frame: pd.DataFrame, horizon: int = 9) -> dict[int, np.ndarray]:
    table = model.forecast(frame, horizon, freq=1)
    return {key: group[VALUES].to_numpy() for key, group in table.groupby("unique_id")}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_neighbours_change_no_bit(forecaster: Forecaster, size: int) -> None:
    frame = ragged(257)
    together = answers(forecaster, frame)
    for start in range(0, min(257, 12 * size), size):
        some = frame[frame["unique_id"].between(start, start + size - 1)]
        for key, values in answers(forecaster, some).items():
            np.testing.assert_array_equal(values, together[key])


def test_order_changes_no_bit(forecaster: Forecaster) -> None:
    frame = ragged(100)
    expected = answers(forecaster, frame)
    shuffled = answers(forecaster, frame.sample(frac=1, random_state=1))
    for key, values in shuffled.items():
        np.testing.assert_array_equal(values, expected[key])


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_cores_changes_no_bit(
    forecaster: Forecaster, bundle_path: Path, threads: int
) -> None:
    """HC06: the same answer in a container of one core."""
    frame = ragged(100)
    other = answers(load(bundle_path, device="cpu", threads=threads), frame)
    for key, values in answers(forecaster, frame).items():
        np.testing.assert_array_equal(values, other[key])


def test_neighbours_change_no_bit_beside_covariates(covariate_bundle_path: Path) -> None:
    model = load(covariate_bundle_path, device="cpu", threads=2)
    rng = np.random.default_rng(3)
    days = pd.date_range("2024-01-01", periods=40)
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(30), 40),
            "ds": np.tile(days, 30),
            "y": rng.normal(20, 2, 1200),
            "promo": rng.integers(0, 2, 1200),
            "visits": rng.normal(20, 2, 1200),
            "size": np.repeat(rng.normal(size=30), 40),
        }
    )
    history, future = frame[frame["ds"] < days[33]], frame[frame["ds"] >= days[33]]
    together = model.forecast(history, 7, future=future)
    for key in (0, 17, 29):
        alone = model.forecast(
            history[history["unique_id"] == key], 7, future=future[future["unique_id"] == key]
        )
        expected = together[together["unique_id"] == key]
        np.testing.assert_array_equal(alone[VALUES], expected[VALUES])


def test_patches_that_fill_no_vector_change_no_bit(make_bundle, softplus: str) -> None:
    """onnxruntime rounds the last elements of an array otherwise; none may be a series' own."""
    spec = ForecasterSpec(
        context_length=7,
        patch_length=7,
        horizon=3,
        frequency="any",
        season_length=1,
        quantile_levels=(0.1, 0.5, 0.9),
    )
    model = load(make_bundle(spec, level=softplus), device="cpu", threads=1)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(99), 7),
            "ds": np.tile(np.arange(7), 99),
            "y": rng.normal(0, 3, 99 * 7),
        }
    )
    together = answers(model, frame, 3)
    for key, expected in together.items():
        alone = answers(model, frame[frame["unique_id"] == key], 3)[key]
        np.testing.assert_array_equal(alone, expected)


def test_constants_are_forecast_as_themselves(forecaster: Forecaster) -> None:
    """HA06, to the last bit: no spread, no other level, no NaN from a scale of 0."""
    constants = [7.25, 0.0, -3e-05, 123456789.0]
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(4), 48),
            "ds": np.tile(pd.date_range("2024-01-01", periods=48, freq="h"), 4),
            "y": np.repeat(constants, 48),
        }
    )
    table = forecaster.forecast(frame, 12)
    assert str(table["ds"].iloc[0]) == "2024-01-03 00:00:00"
    for column in VALUES:
        np.testing.assert_array_equal(table[column], np.repeat(constants, 12))


def test_the_unit_does_not_matter(forecaster: Forecaster) -> None:
    """HA07: cents or millions, the forecast is the same but for the unit."""
    rng = np.random.default_rng(7)
    y = 20 + 3 * np.sin(np.arange(96) / 4) + rng.normal(0, 0.5, 96)
    units = {"base": y, "affine": 1000 * y + 5, "giant": 1e12 * y, "dwarf": 1e-12 * y}
    frame = pd.concat(
        [
            pd.DataFrame({"unique_id": name, "ds": np.arange(96), "y": values})
            for name, values in units.items()
        ]
    )
    table = forecaster.forecast(frame, 24, quantiles=[0.1, 0.5, 0.9])
    found = {name: group[VALUES].to_numpy() for name, group in table.groupby("unique_id")}
    spread = np.ptp(y)
    for name, expected, unit in (
        ("affine", 1000 * found["base"] + 5, 1000),
        ("giant", 1e12 * found["base"], 1e12),
        ("dwarf", 1e-12 * found["base"], 1e-12),
    ):
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-6 * unit * spread)


@pytest.mark.parametrize(
    "levels", [(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95), (0.9, 0.05), (0.33, 0.34, 0.6, 0.06)]
)
def test_quantiles_never_cross(forecaster: Forecaster, levels: tuple[float, ...]) -> None:
    """HA11: exactly, for ramps, saws, spikes and drops, whatever is asked in whatever order."""
    time = np.arange(60)
    shapes = {
        "ramp": 2.0 * time,
        "saw": 50 + 10.0 * (time % 7),
        "spike": np.where(time == 50, 1000.0, 10.0),
        "drop": np.where(time < 55, 500.0, 2.0),
    }
    days = pd.date_range("2024-01-01", periods=60)
    frame = pd.concat(
        [pd.DataFrame({"unique_id": k, "ds": days, "y": y}) for k, y in shapes.items()]
    )
    table = forecaster.forecast(frame, 30, quantiles=levels)
    everything = forecaster.forecast(frame, 30, quantiles=sorted({0.2, *levels}))
    ordered = [f"q{level:g}" for level in sorted(levels)]
    assert (np.diff(table[ordered].to_numpy(), axis=1) >= 0).all()
    np.testing.assert_array_equal(table[ordered], everything[ordered])
    assert np.isfinite(table[ordered].to_numpy()).all()
    assert str(table["ds"].iloc[0]) == "2024-03-01 00:00:00"
