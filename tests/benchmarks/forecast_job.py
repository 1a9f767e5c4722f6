"""The forecast job over a file larger than one would hold: speed, memory, and kills.

`python tests/benchmarks/forecast_job.py --folder FOLDER` makes 100,000 hourly series of 200 steps,
as CSV and as Parquet, and forecasts them with `foretell forecast`, in a process of its own. Beside
it, in turns, the bare runtime: `Forecaster.forecast_rows` over the same series as typed rows that
lie in memory. Then it kills the job with signal 9 at three random moments, resumes it, and compares
the bytes with those of the run that was left alone.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import Rows
from foretell.jobs.tables.text import table_lines
from foretell.runtime import load_forecaster

RESULT = Path(__file__).with_suffix(".json")
HOUR_NS = 3_600_000_000_000
START = pd.Timestamp("2024-01-01").value
PIECE = 2_000  # series that are made, or forecast, together
KILLS = 3


@dataclass(frozen=True)
class Ended:
    """A process that has ended.

    Attributes:
        code: Of its exit; negative where a signal ended it.
        wall_s: How long it took.
        cpu_s: Of all its threads.
        peak_mib: Most memory that it held.
        told: What it wrote to standard error.
    """

    code: int
    wall_s: float
    cpu_s: float
    peak_mib: float
    told: str


def values(first: int, count: int, steps: int) -> np.ndarray:
    """Make series: a level, a daily season and a walk, each from its number alone."""
    rng = np.random.default_rng(first)
    level = rng.uniform(10, 1000, (count, 1))
    season = np.sin(2 * np.pi * np.arange(steps) / 24) * level / 4
    walk = rng.normal(size=(count, steps)).cumsum(axis=1) * level / 50
    return np.round(level + season + walk, 3)


def piece(first: int, count: int, steps: int) -> pa.Table:
    """Make some series as a table."""
    ids = pa.array([f"series-{number:06d}" for number in range(first, first + count)])
    hours = pa.array(START + np.arange(steps) * HOUR_NS).cast(pa.timestamp("ns"))
    return pa.table(
        {
            "unique_id": ids.take(pa.array(np.repeat(np.arange(count), steps))),
            "ds": hours.take(pa.array(np.tile(np.arange(steps), count))),
            "y": values(first, count, steps).ravel(),
        }
    )


def make_files(folder: Path, num_series: int, steps: int) -> dict[str, Path]:
    """Write the table as CSV and as Parquet, unless it stands there already."""
    targets = {form: folder / f"in-{num_series}x{steps}.{form}" for form in ("csv", "parquet")}
    if all(path.exists() for path in targets.values()):
        return targets
    schema = piece(0, 1, steps).schema
    plain = pacsv.WriteOptions(quoting_style="none")
    text = schema.set(1, pa.field("ds", pa.timestamp("s")))
    with (
        pacsv.CSVWriter(targets["csv"], text, write_options=plain) as csv,
        pq.ParquetWriter(targets["parquet"], schema) as parquet,
    ):
        for first in range(0, num_series, PIECE):
            table = piece(first, min(PIECE, num_series - first), steps)
            csv.write_table(table.cast(text))
            parquet.write_table(table)
    return targets


def run_bare(bundle: Path, num_series: int, steps: int, horizon: int, threads: int) -> None:
    """Forecast typed rows that lie in memory; print the seconds that it took, wall and CPU."""
    forecaster = load_forecaster(bundle, device="cpu", threads=threads)
    options = ForecastOptions(horizon=horizon)
    wall_s = cpu_s = 0.0
    for first in range(0, num_series, PIECE):
        count = min(PIECE, num_series - first)
        rows = Rows(
            ids=pd.Index([f"series-{number:06d}" for number in range(first, first + count)]),
            indptr=np.arange(count + 1) * steps,
            stamps=np.tile(START + np.arange(steps) * HOUR_NS, count),
            stamp_kind="naive",
            time_zone=None,
            target=values(first, count, steps).ravel(),
            covariates=np.empty((count * steps, 0)),
            static=np.empty((count, 0)),
            positions=np.arange(count),
        )
        begun, used = time.perf_counter(), time.process_time()
        answer = forecaster.forecast_rows(rows, None, options)
        wall_s += time.perf_counter() - begun
        cpu_s += time.process_time() - used
        assert len(answer.ids) == count
    print(json.dumps({"wall_s": wall_s, "cpu_s": cpu_s}))


def start(arguments: list[str], told: Path) -> subprocess.Popen[bytes]:
    with told.open("wb") as file:
        return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=file)


def end(process: subprocess.Popen[bytes], told: Path, begun: float) -> Ended:
    """Wait for a process, and see what it took."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(
        code=process.returncode,
        wall_s=time.perf_counter() - begun,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mib=used.ru_maxrss / 1024,
        told=told.read_text(),
    )


class Job:
    """`foretell forecast` of one file, with one model."""

    def __init__(self, bundle: Path, horizon: int, threads: int, folder: Path) -> None:
        self._words = ["--model", str(bundle), "--horizon", str(horizon), "--device", "cpu"]
        self._words += ["--threads", str(threads)]
        self._told = folder / "stderr.txt"

    def start(self, data: Path, output: Path, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "foretell.cli.main", "forecast", str(data)]
        return start([*command, *self._words, "--output", str(output), *words], self._told)

    def end(self, process: subprocess.Popen[bytes], begun: float) -> Ended:
        return end(process, self._told, begun)

    def run(self, data: Path, output: Path, *words: str) -> Ended:
        begun = time.perf_counter()
        ended = self.end(self.start(data, output, *words), begun)
        assert ended.code == 0, ended.told
        return ended


def bare(bundle: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """Run `run_bare` in a process of its own."""
    sizes = [arguments.series, arguments.steps, arguments.horizon, arguments.threads]
    command = [sys.executable, __file__, "--bare", str(bundle), *map(str, sizes)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kill_and_resume(
    job: Job, data: Path, whole: Path, wall_s: float, seed: int
) -> dict[str, object]:
    """Kill the job at random moments of a run, resume it, and compare its bytes."""
    rng = random.Random(seed)
    output = whole.with_name(f"killed-{whole.name}")
    for left in output.parent.glob(f"*{output.name}*"):  # of an earlier run of this script
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    moments = []
    for _ in range(KILLS):
        begun = time.perf_counter()
        process = job.start(data, output, "--resume")
        moment = rng.uniform(0.05, 0.95) * wall_s / KILLS  # so that none comes too late
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            moments.append(round(time.perf_counter() - begun, 1))
        assert process.returncode in (0, -9)
        assert process.returncode == 0 or not output.exists(), "nothing stands there before the end"
    job.run(data, output, "--resume")
    same = digest(output) == digest(whole)
    return {"killed_after_s": moments, "same_bytes": same}


def measure(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Run everything; a row for each model and form of file."""
    files = make_files(arguments.folder, arguments.series, arguments.steps)
    rows: list[dict[str, object]] = []
    for name in arguments.models:
        bundle = arguments.folder / f"model-{name.replace(' ', '')}" / "models" / "speed" / "1"
        if not bundle.exists():  # in a process of its own, or torch would count as the job's memory
            command = [sys.executable, __file__, "--build", name, str(bundle.parents[2])]
            subprocess.run(command, check=True)
        job = Job(bundle, arguments.horizon, arguments.threads, arguments.folder)
        for form in arguments.forms:
            data, output = files[form], arguments.folder / f"out.{form}"
            before = bare(bundle, arguments)
            ended = job.run(data, output, "--overwrite")
            after = bare(bundle, arguments)
            bare_s, bare_cpu_s = ((before[one] + after[one]) / 2 for one in ("wall_s", "cpu_s"))
            row: dict[str, object] = {
                "model": name,
                "form": form,
                "bare_series_per_s": arguments.series / bare_s,
                "job_series_per_s": arguments.series / ended.wall_s,
                "of_bare": bare_s / ended.wall_s,
                "of_bare_by_cpu": bare_cpu_s / ended.cpu_s,
                "peak_mib": ended.peak_mib,
                "told": ended.told.strip().splitlines()[-1],
            }
            if arguments.kills:
                seed = arguments.seed + len(rows)
                row |= kill_and_resume(job, data, output, ended.wall_s, seed)
            rows.append(row)
            print(json.dumps(row, indent=1), file=sys.stderr)
    return rows


def measure_text(num_series: int = 5_000, horizon: int = 28) -> dict[str, float]:
    """Write answers as CSV, in turns with pandas; return lines a second of CPU time."""
    count = num_series * horizon
    numbers = np.random.default_rng(0).normal(size=(count, 3)).cumsum(axis=0)
    table = pd.DataFrame(
        {
            "unique_id": np.repeat(
                [f"series-{number:06d}" for number in range(num_series)], horizon
            ),
            "ds": np.tile(pd.date_range("2024-01-01", periods=horizon, freq="h"), num_series),
            "forecast": numbers[:, 1],
            **{f"q{level}": numbers[:, place] for place, level in enumerate((0.1, 0.5, 0.9))},
        }
    )
    writers = {
        "foretell": lambda: bytes(table_lines(table, horizon)),
        "pandas": lambda: table.to_csv(index=False, header=False, lineterminator="\n").encode(),
    }
    assert writers["foretell"]() == writers["pandas"]()
    best = dict.fromkeys(writers, 0.0)
    for _ in range(5):
        for name, write in writers.items():
            begun = time.process_time()
            write()
            best[name] = max(best[name], count / (time.process_time() - begun))
    return best


def show(rows: list[dict[str, object]]) -> str:
    lines = ["| model | file | bare series/s | job series/s | of bare | by CPU time | peak MiB |"]
    lines.append("|---|---|---|---|---|---|---|")
    lines += [
        f"| {row['model']} | {row['form']} | {row['bare_series_per_s']:,.0f} | "
        f"{row['job_series_per_s']:,.0f} | {row['of_bare']:.2f} | "
        f"{row['of_bare_by_cpu']:.2f} | {row['peak_mib']:,.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def build(name: str, folder: Path) -> None:
    """Export a model; how well it is trained does not matter here."""
    import forecast_speed

    forecast_speed.build(forecast_speed.MODELS[name], folder)


def main() -> None:
    if sys.argv[1:2] == ["--build"]:
        build(sys.argv[2], Path(sys.argv[3]))
        return
    if sys.argv[1:2] == ["--bare"]:
        run_bare(Path(sys.argv[2]), *map(int, sys.argv[3:]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for the files; some GB")
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--horizon", type=int, default=28)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=["0.7 M", "2 M"])
    parser.add_argument("--forms", nargs="+", default=["csv", "parquet"])
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--no-kills", dest="kills", action="store_false")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    text = measure_text()
    print("lines of CSV a second:", text, file=sys.stderr)
    rows = measure(arguments)
    print(show(rows))
    if arguments.write:
        sizes = {
            name: getattr(arguments, name) for name in ("series", "steps", "horizon", "threads")
        }
        RESULT.write_text(
            json.dumps({**sizes, "csv_lines_per_s": text, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
