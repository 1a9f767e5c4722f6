"""The baselines of `evaluate forecaster` on M4's official data, and how fast they are.

`python tests/benchmarks/baselines.py --data FOLDER` with the competition's Hourly-train.csv,
Hourly-test.csv, Weekly-train.csv and Weekly-test.csv (those that are there); prints the table of
tests/benchmarks/README.md. Nothing is trained but Ridge.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from foretell.data.measures.baselines import naive2, seasonal_naive
from foretell.data.measures.metrics import (
    coverage,
    mase,
    mean_over_series,
    owa,
    seasonal_scale,
    smape,
    weighted_quantile_loss,
)
from foretell.data.measures.ridge import fit_ridge
from foretell.data.measures.theta import theta
from foretell.jobs.evaluation.tally import INTERVALS, LEVELS, LOSS_LEVELS

SETS = {"Hourly": (24, 48), "Weekly": (1, 13)}


def read_wide(path: Path) -> list[np.ndarray]:
    """Read a series a line: id, then its values."""
    with path.open(newline="") as file:
        return [np.array([float(x) for x in row[1:] if x]) for row in list(csv.reader(file))[1:]]


def ridge_quantiles(target, indptr, season, horizon) -> np.ndarray:
    """Fit and forecast, as an evaluation does."""
    found = fit_ridge(target, indptr[:-1], indptr[1:], season, horizon, LEVELS)
    return found.forecast(target, indptr)


def methods():
    """Quantiles of each baseline, by name; Naive2 first, which the OWA is relative to."""
    normal = {"Naive2": naive2, "SeasonalNaive": seasonal_naive, "Theta": theta}
    made = {name: lambda *past, of=of: of(*past).quantiles(LEVELS) for name, of in normal.items()}
    return {**made, "Ridge": ridge_quantiles}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    for name, (season, horizon) in SETS.items():
        if not (data / f"{name}-train.csv").is_file():
            print(f"no {name}-train.csv in {data}; skipped.")
            continue
        train, test = (read_wide(data / f"{name}-{part}.csv") for part in ("train", "test"))
        target, indptr = np.concatenate(train), np.cumsum([0, *map(len, train)])
        actual, scale = np.stack(test), seasonal_scale(target, indptr, season)
        base = None
        for method, forecast in methods().items():
            begun = time.perf_counter()
            quantiles = forecast(target, indptr, season, horizon)
            seconds = time.perf_counter() - begun
            median = quantiles[..., LEVELS.index(0.5)]
            own = {
                "smape": mean_over_series(smape(actual, median)),
                "mase": mean_over_series(mase(actual, median, scale)),
            }
            base = base or own
            of_loss = quantiles[..., [LEVELS.index(level) for level in LOSS_LEVELS]]
            inside = [
                coverage(actual, *(quantiles[..., LEVELS.index(level)] for level in pair))
                for pair in INTERVALS.values()
            ]
            print(
                f"| {name} {method} | {own['smape']:.3f} | {own['mase']:.3f} | "
                f"{owa(**own, naive2_smape=base['smape'], naive2_mase=base['mase']):.3f} | "
                f"{weighted_quantile_loss(actual, of_loss, LOSS_LEVELS):.4f} | "
                f"{' / '.join(f'{100 * share:.0f}' for share in inside)} | {seconds:.1f} |"
            )


if __name__ == "__main__":
    main()
