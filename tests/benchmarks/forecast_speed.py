"""Series per second of onnxruntime against torch on the same weights, and the price of a gRPC call.

`python tests/benchmarks/forecast_speed.py` compares, side by side and in turns, `Forecaster` of
foretell.runtime with the torch model it was exported from (eager, inference mode) at batch 1, 32
and 1024, context 512, horizon 48, with the same number of threads. Then it asks a real server, in a
process of its own, for 64 series a request, beside the same call in process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from foretell.client import Client
from foretell.data.bundles.bundle import read_bundle
from foretell.data.series.options import Columns
from foretell.export.build import export_run
from foretell.export.forecaster_proof import through_runtime
from foretell.model.config import ForecasterConfig, TrainingConfig
from foretell.model.fit import fit_forecaster
from foretell.model.run import read_run
from foretell.runtime import load
from foretell.runtime.session import Session

CONTEXT, HORIZON = 512, 48
PAUSE_S = 0.4
MODELS = {
    "0.7 M": {"d_model": 128, "num_layers": 4, "num_heads": 4, "d_ff": 256},
    "2 M": {"d_model": 192, "num_layers": 5, "num_heads": 6, "d_ff": 384},
}


def build(shape: dict[str, int], folder: Path) -> tuple[Path, Path]:
    """Export a model of that shape; how well it is trained does not matter here."""
    config = ForecasterConfig(patch_length=16, context_length=CONTEXT, **shape)
    fit_forecaster(
        table(8),
        columns=Columns(),
        freq="h",
        horizon=HORIZON,
        model=config,
        training=TrainingConfig(steps=1, batch_size=2, validation=False),
        run=folder / "run",
    )
    bundle = folder / "models" / "speed" / "1"
    export_run(folder / "run", bundle)
    return folder / "run", bundle


def table(num_series: int) -> pd.DataFrame:
    """Return hourly series of CONTEXT steps."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(num_series, CONTEXT)).cumsum(axis=1)
    return pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i}" for i in range(num_series)], CONTEXT),
            "ds": np.tile(pd.date_range("2024-01-01", periods=CONTEXT, freq="h"), num_series),
            "y": values.ravel(),
        }
    )


def in_turns(
    calls: dict[str, Callable[[], object]], *, rounds: int, burst: int
) -> dict[str, list[float]]:
    """Time the calls in turns, so that a busy moment of the machine meets all of them.

    Each turn is a pause, one call that isn't timed, and a burst of timed ones: threads of the side
    that ran before spin for a while, and would take a core from the one that is timed.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(PAUSE_S)
            call()
            for _ in range(burst):
                start = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - start)
    return times


def compare_with_torch(run: Path, bundle_path: Path, threads: int) -> list[dict[str, float]]:
    """Time both sides on the same arrays; onnxruntime by the whole production path."""
    model = read_run(run).model()
    bundle = read_bundle(bundle_path)
    spec = bundle.manifest.forecaster
    session = Session(bundle, "forecaster.onnx", device="cpu", threads=threads)
    torch.set_num_threads(threads)
    results = []
    for batch in (1, 32, 1024):
        context = np.random.default_rng(1).normal(size=(batch, CONTEXT)).cumsum(axis=1)
        placeholder = np.full((batch, HORIZON), np.nan)
        tensors = torch.from_numpy(context), torch.from_numpy(placeholder)

        def run_torch(tensors=tensors) -> None:
            with torch.inference_mode():
                model(*tensors)

        inputs = {"context": context, "horizon_placeholder": placeholder}

        def run_runtime(inputs=inputs) -> None:
            through_runtime(session, spec, inputs)

        burst = {1: 40, 32: 8, 1024: 1}[batch]
        calls = {"torch": run_torch, "runtime": run_runtime}
        times = in_turns(calls, rounds=5, burst=burst)
        best = {name: batch / min(values) for name, values in times.items()}
        median = {name: statistics.median(values) for name, values in times.items()}
        results.append(
            {
                "threads": threads,
                "batch": batch,
                "torch_series_per_s": round(best["torch"], 1),
                "runtime_series_per_s": round(best["runtime"], 1),
                "ratio_of_best": round(best["runtime"] / best["torch"], 2),
                "ratio_of_medians": round(median["torch"] / median["runtime"], 2),
            }
        )
    return results


def price_of_a_call(bundle: Path, series: int = 64) -> dict[str, float]:
    """Time the same table in process and through a server in a process of its own."""
    df = table(series)
    forecaster = load(bundle)
    server = subprocess.Popen(
        [sys.executable, "-m", "foretell.cli.main", "serve", bundle, "--listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        address = next(
            word for line in server.stderr for word in line.split() if word.startswith("127.0.0.1:")
        )
        with Client(address.rstrip(".,;")) as client:
            calls = {
                "in process": lambda: forecaster.forecast(df, HORIZON, freq="h"),
                "over gRPC": lambda: client.forecast(df, HORIZON, freq="h"),
            }
            times = in_turns(calls, rounds=5, burst=8)
    finally:
        server.terminate()
        server.wait()
    inside, over = (statistics.median(times[name]) * 1e3 for name in calls)
    return {
        "series": series,
        "in_process_ms": round(inside, 1),
        "over_grpc_ms": round(over, 1),
        "share_added": round(over / inside - 1, 3),
    }


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="where to write the numbers as JSON")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    results = {}
    for name, shape in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            run, bundle = build(shape, Path(folder))
            rows = [
                row
                for threads in arguments.threads
                for row in compare_with_torch(run, bundle, threads)
            ]
            call = price_of_a_call(bundle)
        results[name] = {"onnxruntime_against_torch": rows, "grpc": call}
        print(f"\n{name} weights, context {CONTEXT}, horizon {HORIZON}")
        print("threads  batch  torch/s  runtime/s  ratio of best  of medians")
        for row in rows:
            print(
                f"{row['threads']:7d}  {row['batch']:5d}  {row['torch_series_per_s']:7.1f}"
                f"  {row['runtime_series_per_s']:9.1f}  {row['ratio_of_best']:13.2f}"
                f"  {row['ratio_of_medians']:12.2f}"
            )
        print(
            f"a call with {call['series']} series: {call['in_process_ms']} ms in process, "
            f"{call['over_grpc_ms']} ms over gRPC: {call['share_added']:.1%} more"
        )
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
