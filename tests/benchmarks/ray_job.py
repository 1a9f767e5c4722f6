"""The forecast job on Ray beside the same job in one process, on as many cores; a killed actor.

`python tests/benchmarks/ray_job.py --folder FOLDER` makes a table as `forecast_job.py` does, starts
a Ray cluster of one node with as many processors as `--workers`, and forecasts the table in turns:
in one process with as many threads, and on Ray with as many workers of one thread. Then once more
on Ray, with a worker killed by signal 9 in the middle. All outputs must be the same bytes.

What counts is the rate between the first part and the last: starting actors takes seconds, however
long a job is. The rate of the whole job, the actors' start in it, is told beside it.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from forecast_job import digest, make_files
from ray.cluster_utils import Cluster

from foretell.data.series.options import Columns
from foretell.data.tables.reading import CsvFormat
from foretell.jobs.summary import JobProgress
from foretell.jobs.tables.batch import Listeners, run_job
from foretell.jobs.tables.doors import local_door
from foretell.jobs.tables.forecast_job import CHUNK_ROWS, ForecastJob

RESULT = Path(__file__).with_suffix(".json")


def run_one(data: str, model: str, output: str, options: str) -> None:
    """Run one job; print its rates."""
    chosen = json.loads(options)
    count, address = chosen["workers"], chosen["address"]
    if address is None:
        door = partial(local_door, Path(model), device="cpu", threads=count)
    else:
        from foretell.jobs.ray.cluster import RayWorkers
        from foretell.jobs.ray.doors import ray_door

        workers = RayWorkers(address=address, num_workers=count, threads=1, device="cpu")
        door = partial(ray_door, Path(model), workers)
    seen: list[tuple[float, int]] = []
    has_killed = False

    def progress(done: JobProgress) -> None:
        nonlocal has_killed
        if done.reading is not None:
            return
        seen.append((time.perf_counter(), done.done))
        assert done.total is not None
        if chosen["kill"] and not has_killed and done.done > done.total / 3:
            has_killed = kill_a_worker()

    job = ForecastJob(
        data=data,
        columns=Columns(),
        csv=CsvFormat(),
        horizon=chosen["horizon"],
        output=Path(output),
        overwrite=True,
        allow_other_frequency=True,
        chunk_rows=chosen["chunk_rows"],
    )
    begun = time.perf_counter()
    result = run_job(job, door, Listeners(progress=progress))
    wall_s = time.perf_counter() - begun
    assert has_killed or not chosen["kill"]
    (first_s, first), (last_s, last) = seen[0], seen[-1]
    rates = {
        "steady": (last - first) / (last_s - first_s),
        "whole": result.num_answered / wall_s,
        "until_first_s": first_s - begun,
    }
    print(json.dumps(rates))


def kill_a_worker() -> bool:
    """Kill a process that computes; their names are Ray's."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(b"ray::MapWorker"):
                os.kill(int(entry.name), signal.SIGKILL)
                return True
    return False


def measure(arguments: argparse.Namespace, address: str) -> dict[str, object]:
    data = make_files(arguments.folder, arguments.series, arguments.steps)[arguments.form]

    def run(name: str, *, on_ray: bool, kill: bool = False) -> dict[str, float]:
        options = {
            "workers": arguments.workers,
            "address": address if on_ray else None,
            "horizon": arguments.horizon,
            "chunk_rows": arguments.chunk_rows,
            "kill": kill,
        }
        output = arguments.folder / f"{name}.{arguments.form}"
        words = [str(data), str(arguments.model), str(output), json.dumps(options)]
        command = [sys.executable, __file__, "--one", *words]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found: dict[str, float] = json.loads(done.stdout)
        print(f"{name}: {found}", file=sys.stderr)
        return found

    runs: dict[str, list[dict[str, float]]] = {"local": [], "ray": []}
    for _ in range(arguments.rounds):
        for name, found in runs.items():
            found.append(run(name, on_ray=name == "ray"))
    killed = run("killed", on_ray=True, kill=True)
    files = [arguments.folder / f"{name}.{arguments.form}" for name in ("local", "ray", "killed")]

    def median(name: str, rate: str) -> float:
        return statistics.median(found[rate] for found in runs[name])

    return {
        **{f"{name}_{rate}": median(name, rate) for name in runs for rate in runs[name][0]},
        "of_local": median("ray", "steady") / median("local", "steady"),
        "of_local_whole": median("ray", "whole") / median("local", "whole"),
        "killed_whole": killed["whole"],
        "same_bytes": len({digest(file) for file in files}) == 1,
    }


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        run_one(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for the files; some GB")
    parser.add_argument("--model", type=Path, required=True, help="a forecaster's bundle")
    parser.add_argument("--form", choices=["csv", "parquet"], default="parquet")
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--horizon", type=int, default=28)
    parser.add_argument("--chunk-rows", type=int, default=CHUNK_ROWS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", metavar="NAME", help=f"of the model, for {RESULT.name}")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": arguments.workers})
    try:
        found = measure(arguments, cluster.address)
    finally:
        cluster.shutdown()
    print(json.dumps(found, indent=1))
    if arguments.write:
        sizes = {
            name: getattr(arguments, name)
            for name in ("form", "series", "steps", "horizon", "workers", "rounds")
        }
        known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        known[arguments.write] = {**sizes, **found}
        RESULT.write_text(json.dumps(known, indent=1) + "\n")
    sys.exit(0 if found["same_bytes"] else 1)


if __name__ == "__main__":
    main()
