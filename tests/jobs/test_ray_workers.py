"""Jobs on Ray: a cluster of two nodes on this machine, real actors, real kills.

What a job writes must not depend on where it is computed, and no worker's end may cost an answer.
"""
# ruff: noqa: E402 - where Ray is missing nothing below can be imported

import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

ray = pytest.importorskip("ray", reason="the extra [ray] is not installed")

from ray import cloudpickle
from ray.cluster_utils import Cluster

from foretell.data.errors import ForetellError, OptionError
from foretell.data.series.options import Columns
from foretell.data.tables.reading import CsvFormat
from foretell.data.text.number_words import number_pairs
from foretell.jobs.lines.doors import local_translator
from foretell.jobs.lines.translate import TranslateJob, run_translate_job
from foretell.jobs.ray.cluster import RayWorkers, ray_cluster
from foretell.jobs.ray.doors import ray_door, ray_translator
from foretell.jobs.ray.workers import run_on_ray
from foretell.jobs.tables.batch import Listeners, run_job
from foretell.jobs.tables.doors import local_door
from foretell.jobs.tables.forecast_job import ForecastJob

# Ray leaves sockets and files to the end of the process, and uses what others call outdated.
pytestmark = pytest.mark.filterwarnings("ignore")

ONE, TWO = RayWorkers(num_workers=1), RayWorkers(num_workers=2)


@pytest.fixture(scope="module")
def address():
    """Two nodes with a processor each; this process is connected to them."""
    before = signal.getsignal(signal.SIGTERM)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        # Actors can't import tests.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()
        signal.signal(signal.SIGTERM, before)


@contextmanager
def open_counter(folder, *, dies_at=None, always=False, fails_at=None):
    """Returns each number with its node; notes in `folder` what it was asked."""

    def work(number):
        tries = Path(folder, str(number))
        with tries.open("a") as file:
            file.write("x")
        if number == dies_at and (always or tries.stat().st_size == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if number == fails_at:
            raise ForetellError(f"{number} is no good")
        return number, ray.get_runtime_context().get_node_id()

    yield work


def results_of(items, open_worker, workers, **options):
    with (
        ray_cluster(workers) as placed,
        closing(run_on_ray(items, open_worker, placed, **options)) as results,
    ):
        yield from results


def test_a_worker_that_is_killed_loses_nothing(address, tmp_path):
    """Its item is computed again, and the results keep their order; both nodes take part."""
    found = list(results_of(range(40), partial(open_counter, tmp_path, dies_at=7), TWO))
    assert [number for number, _ in found] == list(range(40))
    assert len({node for _, node in found}) == 2
    assert (tmp_path / "7").read_text() == "xx"


def test_what_ends_its_worker_every_time_ends_the_job(address, tmp_path, monkeypatch):
    """Else it would be tried for ever, as an item that takes all memory is."""
    monkeypatch.setattr("foretell.jobs.ray.workers.MOST_RETRIES", 1)
    open_worker = partial(open_counter, tmp_path, dies_at=1, always=True)
    with pytest.raises(ForetellError, match=r"ended its worker 2 times.*\(num_workers, threads\)"):
        list(results_of(range(2), open_worker, ONE))
    assert (tmp_path / "1").read_text() == "xx"


def test_an_error_is_that_of_the_item_and_comes_once(address, tmp_path):
    """After the results before it, which a journal keeps; Ray neither wraps nor retries it."""
    found = []
    with pytest.raises(ForetellError, match=r"^5 is no good$") as raised:
        found += results_of(range(9), partial(open_counter, tmp_path, fails_at=5), ONE)
    assert type(raised.value) is ForetellError
    assert (tmp_path / "5").read_text() == "x"


def test_a_node_that_lacks_the_input_is_named_before_any_work(address, tmp_path, monkeypatch):
    open_worker = partial(open_counter, tmp_path)
    with pytest.raises(ForetellError, match=r"nowhere can't be read on the node .*\n.*every node"):
        list(results_of(range(3), open_worker, ONE, paths=[tmp_path, tmp_path / "nowhere"]))
    monkeypatch.setattr("foretell.jobs.ray.workers.version", lambda _: "0.0.1")
    with pytest.raises(ForetellError, match=r"has foretell .*, the command 0\.0\.1; install"):
        list(results_of(range(3), open_worker, ONE))
    assert not os.listdir(tmp_path)


def test_workers_that_do_not_fit_are_refused(address):
    """Ray would wait for more nodes, for ever."""
    for workers, what in (
        (RayWorkers(num_workers=3), "3 workers with 1 threads each don't fit"),
        (RayWorkers(num_workers=1, threads=3), "1 workers with 3 threads each don't fit"),
        (RayWorkers(device="cuda"), "0 GPUs"),
    ):
        with pytest.raises(OptionError, match=what), ray_cluster(workers):
            pass


def test_where_there_is_no_cluster_the_cure_can_be_typed(monkeypatch):
    """Ray would have its own flags given, which no command of ours has. (It looks for clusters
    among all processes of the machine, so the real one may find somebody's.)
    """

    def nothing_found(**_):
        raise ConnectionError("Could not find any; specify one by `--address` or `RAY_ADDRESS`.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", nothing_found)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    told = "^this machine belongs to no Ray cluster that runs; give the HOST:PORT"
    with pytest.raises(ForetellError, match=told), ray_cluster(RayWorkers(address="auto")):
        pass


class Stopped(Exception):
    pass


def table(path):
    """40 series, of which two are refused, in rows of one series after the other."""
    days = pd.date_range("2024-01-01", periods=30)
    series = [
        pd.DataFrame({"unique_id": f"s{i:02d}", "ds": days, "y": [(i + t) % 7 for t in range(30)]})
        for i in range(40)
    ]
    for refused in (3, 31):
        series[refused] = pd.concat([series[refused], series[refused].tail(1)])
    pd.concat(series).to_csv(path, index=False)


def test_a_table_gives_the_same_bytes_on_ray_and_goes_on_here(address, tmp_path, bundle_path):
    table(tmp_path / "in.csv")
    model = bundle_path.parent
    job = {
        "data": str(tmp_path / "in.csv"),
        "columns": Columns(),
        "csv": CsvFormat(),
        "horizon": 5,
        "freq": "D",
        "allow_other_frequency": True,
        "chunk_rows": 100,
    }
    local, on_ray = partial(local_door, model, device="cpu"), partial(ray_door, model, TWO)
    here, there, moved = (tmp_path / f"{name}.csv" for name in ("here", "there", "moved"))
    expected = run_job(ForecastJob(**job, output=here), local)
    assert (expected.num_answered, expected.refused.count) == (38, 2)
    done = run_job(ForecastJob(**job, output=there), on_ray)
    assert (done.num_answered, done.refused.count) == (38, 2)
    assert done.where.startswith("2 workers on cpu")
    assert there.read_bytes() == here.read_bytes()

    def stop(progress):
        raise Stopped

    with pytest.raises(Stopped):
        run_job(ForecastJob(**job, output=moved), on_ray, Listeners(progress=stop))
    assert not moved.exists()
    run_job(ForecastJob(**job, output=moved, resume=True), local)
    assert moved.read_bytes() == here.read_bytes()
    refused = [path.with_name(f"{path.name}.refused.csv") for path in (here, there, moved)]
    assert len({path.read_bytes() for path in refused}) == 1


def test_a_text_gives_the_same_bytes_from_the_command(address, tmp_path, translator_bundle_path):
    """From a process of its own, which finds the cluster by its address and says nothing more."""
    lines = [english for english, _ in number_pairs(60, seed=3)]
    lines[10], lines[20] = "", "\0 is no text"
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    job = TranslateJob(source=str(tmp_path / "in.txt"), output=tmp_path / "here.txt")
    run_translate_job(job, partial(local_translator, translator_bundle_path, device="cpu"))
    command = [sys.executable, "-m", "foretell.cli", "translate", "in.txt", "--output", "there.txt"]
    command += ["--ray", address, "--num-workers", "2", "--chunk-lines", "7"]
    done = subprocess.run(
        [*command, "--model", translator_bundle_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    assert "59 lines translated by 2 workers on cpu, Ray at" in done.stderr
    told = [line for line in done.stderr.splitlines() if " of 60 lines done" not in line]
    assert len(told) == 4, done.stderr  # what was done, one line refused, which, and where it is
    for ending in ("", ".refused.csv"):
        here, there = (tmp_path / f"{name}.txt{ending}" for name in ("here", "there"))
        assert there.read_bytes() == here.read_bytes()


def test_what_an_interrupted_text_has_done_is_not_done_again(
    address, tmp_path, translator_bundle_path
):
    lines = [english for english, _ in number_pairs(60, seed=4)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    whole, broken = ({"source": str(tmp_path / "in.txt"), "output": tmp_path / n} for n in "ab")
    local = partial(local_translator, translator_bundle_path, device="cpu")

    def stop(progress):
        raise Stopped

    with pytest.raises(Stopped):
        run_translate_job(TranslateJob(**broken, chunk_lines=13), local, tell=stop)
    on_ray = partial(ray_translator, translator_bundle_path, TWO)
    seen = []
    result = run_translate_job(
        TranslateJob(**broken, chunk_lines=10, resume=True), on_ray, tell=seen.append
    )
    assert [progress.done for progress in seen] == [23, 33, 43, 53, 60]
    assert result.done.num_lines == 60
    run_translate_job(TranslateJob(**whole), local)
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()
