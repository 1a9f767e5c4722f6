"""A job whose forecasts a server computes: the same bytes, through restarts, and of one model."""

import shutil
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from foretell.client import RemoteError
from foretell.client.retries import Retries
from foretell.data.errors import ForetellError
from foretell.data.series.options import Columns
from foretell.data.tables.reading import CsvFormat
from foretell.jobs.tables.batch import run_job
from foretell.jobs.tables.doors import local_door
from foretell.jobs.tables.forecast_job import ForecastJob
from foretell.jobs.tables.remote_door import remote_door
from foretell.runtime import load
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.options import ServerOptions

NUM_SERIES, STEPS = 12, 30


@pytest.fixture
def table(tmp_path):
    """Hourly series, of which one can't be forecast."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i}" for i in range(NUM_SERIES)], STEPS),
            "ds": np.tile(pd.date_range("2024-01-01", periods=STEPS, freq="h"), NUM_SERIES),
            "y": rng.normal(size=NUM_SERIES * STEPS).cumsum(),
        }
    )
    frame.loc[frame["unique_id"] == "s4", "y"] = np.nan
    path = tmp_path / "in.parquet"
    frame.to_parquet(path, index=False)
    return path


@pytest.fixture
def models(tmp_path, bundle_path):
    """Two folders of models: in one is version 1 of demand, in the other version 2."""
    for version in ("1", "2"):
        shutil.copytree(bundle_path, tmp_path / f"models{version}" / "demand" / version)
    return [tmp_path / "models1", tmp_path / "models2"]


class Server:
    """A server that can be stopped, and started again at the same address."""

    def __init__(self):
        self.address = "127.0.0.1:0"
        self._running = ExitStack()

    def start(self, models):
        repository = Repository.load(models, partial(load, device="cpu", threads=1))
        options = ServerOptions(listen=self.address)
        self.address = self._running.enter_context(serve_in_background(repository, options))

    def stop(self):
        self._running.close()


@pytest.fixture
def server():
    one = Server()
    yield one
    one.stop()


def job_of(table, output, **options):
    return ForecastJob(
        data=str(table),
        columns=Columns(),
        csv=CsvFormat(),
        horizon=5,
        output=output,
        chunk_rows=2 * STEPS,
        **options,
    )


@pytest.fixture
def local_bytes(table, tmp_path, models):
    """What the model writes in this process: the answer, and the refused series."""
    output = tmp_path / "local.csv"
    run_job(
        job_of(table, output), partial(local_door, models[0] / "demand", device="cpu", threads=1)
    )
    return output.read_bytes(), output.with_name("local.csv.refused.csv").read_bytes()


def written(output):
    return output.read_bytes(), output.with_name(f"{output.name}.refused.csv").read_bytes()


@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_server_gives_the_bytes_of_this_process(
    table, tmp_path, models, server, local_bytes, in_flight
):
    server.start(models[0])
    output = tmp_path / "out.csv"
    result = run_job(
        job_of(table, output), partial(remote_door, server.address, in_flight=in_flight)
    )
    assert written(output) == local_bytes
    assert (result.num_answered, result.refused.count) == (NUM_SERIES - 1, 1)
    assert result.summary.busy_share is None, "this process computed nothing"
    assert f"demand version 1 at {server.address}" in result.where


def test_a_job_goes_on_from_here_to_a_server_that_has_the_same_model(
    table, tmp_path, models, server, local_bytes
):
    """The machine that began it may be the one that failed."""
    output = tmp_path / "out.csv"
    with pytest.raises(ForetellError, match="enough"):
        run_job(job_of(table, output), lambda: interrupted(local_door(models[0] / "demand")))
    server.start(models[0])
    run_job(job_of(table, output, resume=True), partial(remote_door, server.address))
    assert written(output) == local_bytes


@contextmanager
def interrupted(opened, *, act=None, after=2):
    """A door at which something happens once so many chunks have been answered, one by one."""
    with opened as door:
        answered = []

        def ask(rows, future, options):
            if len(answered) == after:
                if act is None:
                    raise ForetellError("enough")
                act()
            answer = door.forecast_rows(rows, future, options)
            answered.append(answer)
            return answer

        yield replace(door, forecast_rows=ask, in_flight=1)


def test_a_server_that_is_started_anew_is_waited_for(
    table, tmp_path, models, server, local_bytes, monkeypatch
):
    """The server is away when it is asked, and comes once a look at it has failed."""
    server.start(models[0])
    wait_s, has_failed = Retries.wait_s, threading.Event()

    def note(retries, error):
        has_failed.set()
        return wait_s(retries, error)

    def come_back():
        has_failed.wait()
        server.start(models[0])

    back = threading.Thread(target=come_back)

    def go_away():
        monkeypatch.setattr(Retries, "wait_s", note)
        server.stop()
        back.start()

    output = tmp_path / "out.csv"
    opened = remote_door(server.address, in_flight=1)
    run_job(job_of(table, output), lambda: interrupted(opened, act=go_away))
    back.join()
    assert has_failed.is_set()
    assert written(output) == local_bytes


def test_another_model_than_the_one_that_began_is_refused(
    table, tmp_path, models, server, local_bytes
):
    """Half of the output would be of another model, and nobody would see where it begins."""
    server.start(models[0])

    def change():
        server.stop()
        server.start(models[1])

    output = tmp_path / "out.csv"
    opened = remote_door(server.address)
    with pytest.raises(ForetellError, match="version 2 of demand now, and the job was begun with"):
        run_job(job_of(table, output, resume=True), lambda: interrupted(opened, act=change))
    assert not output.exists()
    server.stop()
    server.start(models[0])
    result = run_job(job_of(table, output, resume=True), partial(remote_door, server.address))
    assert result.summary.num_items == NUM_SERIES - 4, "the first two chunks were kept"
    assert written(output) == local_bytes


def test_where_no_server_is_at_the_beginning_nothing_is_waited_for(table, tmp_path):
    """The address may be wrong, and somebody sits there."""
    output = tmp_path / "out.csv"
    with pytest.raises(RemoteError, match=r"127\.0\.0\.1:1"):
        run_job(job_of(table, output), partial(remote_door, "127.0.0.1:1"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]
