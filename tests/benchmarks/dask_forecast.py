"""Forecasts and translations inside Dask: a loaded model is an argument like any other.

`python tests/benchmarks/dask_forecast.py FORECASTER TRANSLATOR` (bundles; needs dask[dataframe])
forecasts generated series and translates lines by `map_partitions`, with threads that share one
model and with processes that load it by path, compares every number and text with those of this
process, and tells the times.
"""

import argparse
import time
from pathlib import Path

import dask
import dask.dataframe as dd
import pandas as pd
from dask.base import tokenize
from random_walks import random_walks

from foretell.data.errors import RefusedSeriesError
from foretell.runtime import Forecaster, Translator, load_forecaster, load_translator

HORIZON, STEPS, PARTITIONS = 24, 200, 8


def forecast(series: pd.DataFrame, model: Forecaster) -> pd.DataFrame:
    """Forecast the series of a partition, indexed by their ids."""
    try:
        return model.forecast(series.reset_index(), HORIZON, allow_other_frequency=True)
    except RefusedSeriesError as refused:
        return refused.forecast  # all other series


def translate(lines: pd.Series, model: Translator) -> pd.Series:
    """Translate the lines of a partition."""
    texts = [found.text for found in model.translate(lines.tolist())]
    return pd.Series(texts, lines.index, dtype="str")


def timed(work):
    """Its answer, and its seconds."""
    start = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - start


def main() -> None:
    """Compare, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("forecaster", type=Path)
    parser.add_argument("translator", type=Path)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--lines", type=int, default=4000)
    given = parser.parse_args()

    # One thread: Dask itself gives every core a partition.
    model = load_forecaster(given.forecaster, threads=1)
    again = load_forecaster(given.forecaster, threads=1)
    assert tokenize(model) == tokenize(again), "Dask would compute the same thing twice"
    table = random_walks(given.series, STEPS)
    here, here_s = timed(lambda: model.forecast(table, HORIZON, allow_other_frequency=True))
    # By a sorted index no partition ends within a series.
    frame = dd.from_pandas(table.set_index("unique_id"), npartitions=PARTITIONS)
    there = frame.map_partitions(forecast, model, meta=here.iloc[:0])
    told = [f"in process, one thread {here_s:.1f} s"]
    for scheduler in ("threads", "processes"):
        with dask.config.set(scheduler=scheduler, num_workers=2):
            found, seconds = timed(there.compute)
        found = found.reset_index(drop=True).astype(here.dtypes)  # Dask has strings of its own
        pd.testing.assert_frame_equal(found, here, check_exact=True)
        told.append(f"Dask with 2 {scheduler} {seconds:.1f} s")
    print(f"{given.series:,} series, the same to the last bit: {', '.join(told)}")

    translator = load_translator(given.translator, threads=1)
    words = ["seven", "twenty one", "sixty four", "ninety nine", "", "eleven"]
    lines = pd.Series([words[number % len(words)] for number in range(given.lines)], dtype="str")
    here, here_s = timed(lambda: translate(lines, translator))
    there = dd.from_pandas(lines, npartitions=PARTITIONS).map_partitions(
        translate, translator, meta=here.iloc[:0]
    )
    told = [f"in process, one thread {here_s:.1f} s"]
    for scheduler in ("threads", "processes"):
        with dask.config.set(scheduler=scheduler, num_workers=2):
            found, seconds = timed(there.compute)
        assert found.tolist() == here.tolist()
        told.append(f"Dask with 2 {scheduler} {seconds:.1f} s")
    print(f"{given.lines:,} lines, the same: {', '.join(told)}")


if __name__ == "__main__":
    main()
