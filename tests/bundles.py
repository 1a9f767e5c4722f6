"""Build the tiny bundles of the tests: trained and exported by the product's own way.

`python tests/bundles.py NAME FOLDER` writes FOLDER/run and FOLDER/models/tiny/1. It runs in a
process of its own, as an export does, and not under the tests' type checker.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from foretell.data.options import Columns

COVARIATES = Columns(future_covariates=("promo",), past_covariates=("visits",), static=("size",))
# Name: frequency, columns, training steps.
BUNDLES: dict[str, tuple[str, Columns, int]] = {
    "any": ("any", Columns(), 60),
    "daily": ("D", Columns(), 5),
    "covariates": ("D", COVARIATES, 60),
}


def daily_table(num_series: int = 6, steps: int = 80) -> pd.DataFrame:
    """Return daily series with a weekly season, trend, noise and covariates."""
    rng = np.random.default_rng(7)
    time = np.arange(steps)
    frames = []
    for number in range(num_series):
        season = 3 * np.sin(2 * np.pi * time / 7)
        promo = (rng.random(steps) < 0.2).astype(float)
        y = 20 + number + 0.05 * time + season + 8 * promo + rng.normal(0, 0.5, steps)
        frames.append(
            pd.DataFrame(
                {
                    "unique_id": f"s{number}",
                    "ds": pd.date_range("2024-01-01", periods=steps, freq="D"),
                    "y": y,
                    "promo": promo,
                    "visits": y + rng.normal(0, 1, steps),
                    "size": float(number),
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def build(name: str, folder: Path) -> None:
    """Train and export one of the bundles."""
    from foretell.export.build import export_run
    from foretell.model.config import ForecasterConfig, TrainingConfig
    from foretell.model.fit import fit_forecaster

    freq, columns, steps = BUNDLES[name]
    fit_forecaster(
        daily_table(),
        columns=columns,
        freq=freq,
        horizon=7,
        model=ForecasterConfig(
            patch_length=4,
            context_length=48,
            d_model=16,
            num_layers=2,
            num_heads=2,
            d_ff=32,
            quantile_levels=(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
            num_future_covariates=len(columns.future_covariates),
            num_past_covariates=len(columns.past_covariates),
            num_static=len(columns.static),
        ),
        training=TrainingConfig(
            steps=steps, batch_size=16, warmup_steps=5, ema_decay=0.9, validate_every=steps
        ),
        run=folder / "run",
    )
    export_run(folder / "run", folder / "models" / "tiny" / "1")


if __name__ == "__main__":
    build(sys.argv[1], Path(sys.argv[2]))
