"""A job of hours outlives its server, and never gets half of its lines from another model."""

import runpy
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from foretell.client import RemoteError
from foretell.client.retries import Retries
from foretell.data.errors import ForetellError
from foretell.jobs.lines import remote_door
from foretell.jobs.lines.remote_door import remote_translator
from foretell.jobs.lines.translate import TranslateJob, run_translate_job
from foretell.jobs.servers import job_server
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions

FAKES = Path(__file__).parents[1] / "server"
FakeTranslator = runpy.run_path(str(FAKES / "fake_translator.py"))["FakeTranslator"]
TEXT = "".join(f"line {i}\n" for i in range(300))


class Servers:
    """One address, at which servers come and go."""

    def __init__(self, stack):
        self.address = "127.0.0.1:0"
        self._stack, self._running = stack, None

    def start(self, model, name="ende"):
        self._running = ExitStack()
        repository = Repository([Model(name, 1, model)])
        served = serve_in_background(repository, ServerOptions(listen=self.address))
        self.address = self._running.enter_context(served)

    def stop(self):
        if self._running is not None:
            self._running.close()
            self._running = None


@pytest.fixture
def servers():
    with ExitStack() as stack:
        servers = Servers(stack)
        servers.start(FakeTranslator())
        stack.callback(servers.stop)
        yield servers


@pytest.fixture
def translate(tmp_path, servers):
    """Translates through the server; something happens there when the first chunk is written."""
    (tmp_path / "in.txt").write_text(TEXT)

    def run(then=lambda: None, **options):
        happened = []

        def tell(_):
            if not happened:
                happened.append(then())

        job = TranslateJob(
            source=str(tmp_path / "in.txt"),
            output=tmp_path / "out.txt",
            chunk_lines=10,
            overwrite=True,
            **options,
        )
        run_translate_job(job, lambda: remote_translator(servers.address), tell=tell)
        return (tmp_path / "out.txt").read_text()

    return run


@pytest.fixture
def missed(monkeypatch):
    """Is set once the job has found no server."""
    heard, wait_s = threading.Event(), Retries.wait_s

    def hear(self, error):
        heard.set()
        return wait_s(self, error)

    monkeypatch.setattr(Retries, "wait_s", hear)
    return heard


def replace_by(servers, missed, model):
    """Stop the server, and start another once the job has found none."""

    def start_again():
        assert missed.wait(60)
        servers.start(model)

    servers.stop()
    threading.Thread(target=start_again).start()


def test_a_server_that_is_started_anew_loses_no_line(servers, translate, missed):
    whole = translate()
    assert len(whole.splitlines()) == 300
    again = FakeTranslator()
    assert translate(lambda: replace_by(servers, missed, again)) == whole
    assert sum(len(sentences) for sentences, _, _ in again.calls) >= 200


def test_another_model_at_the_same_place_ends_the_job(servers, translate, missed, tmp_path):
    """The name and the version are the same, and so is the address."""
    other = FakeTranslator(training={"steps": 7})
    with pytest.raises(ForetellError, match="has another model as version 1 of ende now") as error:
        translate(lambda: replace_by(servers, missed, other))
    assert other.calls == []
    assert "kept; go on with --resume." in error.value.__notes__[0]
    assert not (tmp_path / "out.txt").exists()


def test_a_server_that_was_never_there_is_told_at_once(servers, translate):
    servers.stop()
    with pytest.raises(RemoteError, match="UNAVAILABLE"):
        translate()


def test_patience_ends(servers):
    with job_server(servers.address, model=None, in_flight=1, patience_s=0.5) as server:
        server.check_model()
        servers.stop()
        with pytest.raises(RemoteError, match="UNAVAILABLE"):
            server.check_model()


def test_who_stops_a_job_waits_for_no_server(servers, monkeypatch, missed):
    """Ctrl-C, or a fault elsewhere in the job, while the next try is a minute away."""
    monkeypatch.setattr("foretell.client.retries._FIRST_S", 60.0)
    monkeypatch.setattr("foretell.client.retries._LONGEST_S", 60.0)
    with job_server(servers.address, model=None, in_flight=1) as server:
        servers.stop()

        def stop():
            assert missed.wait(60)
            server.stop()

        threading.Thread(target=stop).start()
        with pytest.raises(ValueError, match="closed"):
            server.check_model()


@pytest.mark.parametrize(("in_flight", "chunks", "requests"), [(1, 1, 1), (4, 2, 2), (7, 2, 3)])
def test_no_more_requests_are_on_their_way_than_may_be(
    servers, monkeypatch, in_flight, chunks, requests
):
    asked = []

    def connect(target, **options):
        asked.append(options["in_flight"])
        return job_server(target, **options)

    monkeypatch.setattr(remote_door, "job_server", connect)
    with remote_translator(servers.address, in_flight=in_flight) as door:
        assert (door.in_flight, asked) == (chunks, [requests])
