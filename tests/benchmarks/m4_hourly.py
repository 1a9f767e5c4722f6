"""Train on M4 Hourly alone, export, and measure the bundle's forecasts on the official test part.

`python tests/benchmarks/m4_hourly.py --data FOLDER --run FOLDER` with the competition's
Hourly-train.csv and Hourly-test.csv, and Hourly-starts.csv (series_id, start, n_total). A killed
run goes on where it stopped. The protocol is the competition's: the last 48 steps, MASE with m = 24
scaled in sample, sMAPE, OWA against Naive2; the weighted quantile loss over the levels 0.1 to 0.9.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from foretell.cli.progress import training_progress
from foretell.data.measures.baselines import naive2, seasonal_naive
from foretell.data.measures.metrics import (
    coverage,
    mase,
    mean_over_series,
    owa,
    seasonal_scale,
    smape,
)
from foretell.data.measures.metrics import weighted_quantile_loss as wql
from foretell.data.measures.theta import theta
from foretell.data.series.options import Columns
from foretell.export.build import export_run
from foretell.model.config import ForecasterConfig, TrainingConfig
from foretell.model.fit import fit_forecaster
from foretell.runtime import load

HORIZON, SEASON = 48, 24
LEVELS = tuple(round(0.1 * i, 1) for i in range(1, 10))
MODEL = ForecasterConfig(
    patch_length=12,
    context_length=336,
    d_model=192,
    num_layers=5,
    num_heads=6,
    d_ff=384,
    dropout=0.1,
)


def read_wide(path: Path) -> dict[str, np.ndarray]:
    """Read a series a line: id, then its values."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {row[0]: np.array([float(x) for x in row[1:] if x]) for row in rows}


def as_table(series: dict[str, np.ndarray], starts: pd.Series) -> pd.DataFrame:
    """Return the series in long form, with their true stamps."""
    return pd.concat(
        (
            pd.DataFrame(
                {
                    "unique_id": name,
                    "ds": pd.date_range(starts[name], periods=len(values), freq="h"),
                    "y": values,
                }
            )
            for name, values in series.items()
        ),
        ignore_index=True,
    )


def measure(actual, point, quantiles, scale, naive2_measures=None) -> dict[str, float]:
    """Return all measures of one method."""
    measures = {
        "MASE": mean_over_series(mase(actual, point, scale)),
        "sMAPE": mean_over_series(smape(actual, point)),
        "WQL": wql(actual, quantiles, LEVELS),
        "coverage 80 %": coverage(actual, quantiles[..., 0], quantiles[..., -1]),
    }
    if naive2_measures is not None:
        measures["OWA"] = owa(
            smape=measures["sMAPE"],
            mase=measures["MASE"],
            naive2_smape=naive2_measures["sMAPE"],
            naive2_mase=naive2_measures["MASE"],
        )
    return measures


def train_and_export(table: pd.DataFrame, run: Path, steps: int, seed: int) -> dict[str, float]:
    """Train, or go on with a killed run, and export; return what it took."""
    training = TrainingConfig(
        steps=steps,
        batch_size=64,
        learning_rate=1.2e-3,
        warmup_steps=200,
        ema_decay=0.998,
        weight_decay=0.05,
        validation=False,
        checkpoint_every=100,
        seed=seed,
    )
    with training_progress() as progress:
        summary = fit_forecaster(
            table,
            columns=Columns(),
            freq="h",
            horizon=HORIZON,
            model=MODEL,
            training=training,
            run=run,
            resume=True,
            progress=progress,
        )
    bundle = run / "bundle"
    parity = export_run(run, bundle, overwrite=bundle.exists())
    return {
        "parameters": summary.num_parameters,
        "steps": summary.state.step,
        "seconds": summary.seconds,
        "parity_used": parity.used,
    }


def measure_all(
    train: dict[str, np.ndarray], test: dict[str, np.ndarray], answer: pd.DataFrame
) -> dict[str, dict[str, float]]:
    """Measure the answer beside the seasonal naive forecast, both against Naive2."""
    actual = np.stack([test[name] for name in train])
    values = answer[[f"q{level:g}" for level in LEVELS]].to_numpy()
    quantiles = values.reshape(len(actual), HORIZON, len(LEVELS))
    indptr = np.cumsum([0, *map(len, train.values())])
    past = np.concatenate(list(train.values()))
    scale = seasonal_scale(past, indptr, SEASON)
    rivals = {
        "Naive2": naive2(past, indptr, SEASON, HORIZON),
        "SeasonalNaive": seasonal_naive(past, indptr, SEASON, HORIZON),
        "Theta": theta(past, indptr, SEASON, HORIZON),
    }
    base = measure(actual, rivals["Naive2"].mean, rivals["Naive2"].quantiles(LEVELS), scale)
    return {
        "foretell": measure(actual, quantiles[..., 4], quantiles, scale, base),
        **{
            name: measure(actual, rival.mean, rival.quantiles(LEVELS), scale, base)
            for name, rival in rivals.items()
        },
    }


def main() -> None:
    """Train, export, forecast, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if not (arguments.data / "Hourly-train.csv").is_file():
        sys.exit(f"no Hourly-train.csv in {arguments.data}; skipped.")
    train, test = (read_wide(arguments.data / f"Hourly-{part}.csv") for part in ("train", "test"))
    starts = pd.read_csv(arguments.data / "Hourly-starts.csv", index_col="series_id")["start"]
    table = as_table(train, pd.to_datetime(starts))
    took = train_and_export(table, arguments.run, arguments.steps, arguments.seed)
    answer = load(arguments.run / "bundle").forecast(table, HORIZON, quantiles=LEVELS)
    results = measure_all(train, test, answer)
    for name, measures in results.items():
        print(f"{name:14s}", "  ".join(f"{k} {v:.4g}" for k, v in measures.items()))
    (arguments.run / "result.json").write_text(json.dumps({**took, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
