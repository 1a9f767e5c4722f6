"""Build the tiny bundles of the tests: trained and exported by the product's own way.

`python tests/bundles.py NAME FOLDER` writes FOLDER/run and FOLDER/models/tiny/1. It runs in a
process of its own, as an export does, and not under the tests' type checker.

The forecasters know a weekly season; the translators turn English number words into German ones.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from foretell.data.series.options import Columns
from foretell.data.text.number_words import english_words, german_words

COVARIATES = Columns(future_covariates=("promo",), past_covariates=("visits",), static=("size",))
# Name: frequency, columns, training steps.
BUNDLES: dict[str, tuple[str, Columns, int]] = {
    "any": ("any", Columns(), 60),
    "daily": ("D", Columns(), 5),
    "covariates": ("D", COVARIATES, 60),
}

# Training steps of the translators.
STEPS = {"transformer": 150, "recurrent": 200}


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

    if name in BUNDLES:
        train_forecaster(name, folder / "run")
    else:
        train_translator(name, folder / "run")
    export_run(folder / "run", folder / "models" / "tiny" / "1")


def train_forecaster(name: str, run: Path) -> None:
    """Train a forecaster on daily series."""
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
        run=run,
    )


def train_translator(name: str, run: Path) -> None:
    """Train a translator on number words, until it knows most of the small ones."""
    from foretell.model.fit_translator import Corpus, fit_translator
    from foretell.model.translator_config import (
        RecurrentConfig,
        TransformerConfig,
        TranslatorTraining,
    )

    size = {"vocab_size": 400, "d_model": 32, "max_source_length": 40, "max_target_length": 40}
    models = {
        "transformer": TransformerConfig(
            **size, num_heads=4, d_ff=64, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0
        ),
        "recurrent": RecurrentConfig(**size, cell="gru", attention="additive", dropout=0.0),
    }
    numbers = [*range(100), *range(100, 1000, 30)]
    pairs = [(english_words(number), german_words(number)) for number in numbers]
    src, tgt = zip(*pairs, strict=True)
    fit_translator(
        Corpus(src, tgt),
        model=models[name],
        training=TranslatorTraining(
            steps=STEPS[name],
            batch_tokens=300,
            learning_rate=1e-2,
            warmup_steps=20,
            label_smoothing=0.0,
            ema_decay=0.9,
            validate_every=STEPS[name],
        ),
        run=run,
        src_language="en",
        tgt_language="de",
    )


if __name__ == "__main__":
    build(sys.argv[1], Path(sys.argv[2]))
