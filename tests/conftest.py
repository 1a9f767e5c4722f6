"""Fixtures for all tests: tiny models, trained and exported by the product's own way."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

from foretell.data.options import Columns

# Two workers with two spinning threads each on two cores take many times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A property holds or not; how long an example takes on a busy machine says nothing.
settings.register_profile(
    "foretell", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("foretell")

TINY = {
    "patch_length": 4,
    "context_length": 48,
    "d_model": 16,
    "num_layers": 2,
    "num_heads": 2,
    "d_ff": 32,
    "quantile_levels": (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
}


def daily_table(num_series: int = 6, steps: int = 80, *, covariates: bool = False) -> pd.DataFrame:
    """Return daily series with a weekly season, trend and noise."""
    rng = np.random.default_rng(7)
    frames = []
    for number in range(num_series):
        time = np.arange(steps)
        y = 20 + number + 0.05 * time + 3 * np.sin(2 * np.pi * time / 7) + rng.normal(0, 0.5, steps)
        frame = {
            "unique_id": f"s{number}",
            "ds": pd.date_range("2024-01-01", periods=steps, freq="D"),
            "y": y,
        }
        if covariates:
            promo = (rng.random(steps) < 0.2).astype(float)
            frame |= {
                "y": y + 8 * promo,
                "promo": promo,
                "visits": y + rng.normal(0, 1, steps),
                "size": float(number),
            }
        frames.append(pd.DataFrame(frame))
    return pd.concat(frames, ignore_index=True)


def build_bundle(
    table: pd.DataFrame, folder: Path, *, freq: str, columns: Columns, steps: int = 60
) -> Path:
    """Train a tiny forecaster and export it as folder/models/tiny/1."""
    from foretell.export.build import export_run
    from foretell.model.config import ForecasterConfig, TrainingConfig
    from foretell.model.fit import fit_forecaster

    config = ForecasterConfig(
        **TINY,
        num_future_covariates=len(columns.future_covariates),
        num_past_covariates=len(columns.past_covariates),
        num_static=len(columns.static),
    )
    training = TrainingConfig(
        steps=steps, batch_size=16, warmup_steps=5, ema_decay=0.9, validate_every=steps
    )
    run = folder / "run"
    fit_forecaster(
        table, columns=columns, freq=freq, horizon=7, model=config, training=training, run=run
    )
    target = folder / "models" / "tiny" / "1"
    export_run(run, target)
    return target


@pytest.fixture(scope="session")
def bundle_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny forecaster for any frequency, without covariates: .../models/tiny/1."""
    folder = tmp_path_factory.mktemp("bundle")
    return build_bundle(daily_table(), folder, freq="any", columns=Columns())


@pytest.fixture(scope="session")
def daily_bundle_path(tmp_path_factory: pytest.TempPathFactory, bundle_path: Path) -> Path:
    """The same for daily series alone."""
    folder = tmp_path_factory.mktemp("daily")
    return build_bundle(daily_table(), folder, freq="D", columns=Columns(), steps=5)


@pytest.fixture(scope="session")
def covariate_bundle_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny daily forecaster with `promo` (future), `visits` (past) and `size` (static)."""
    columns = Columns(future_covariates=("promo",), past_covariates=("visits",), static=("size",))
    folder = tmp_path_factory.mktemp("covariates")
    return build_bundle(daily_table(covariates=True), folder, freq="D", columns=columns)
