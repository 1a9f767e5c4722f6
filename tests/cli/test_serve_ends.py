"""How `foretell serve` is started and ended by terminals, services and scripts."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

COMMAND = [sys.executable, "-m", "foretell.cli.main", "serve"]
WORKERS = ["1", "2"]


class Server:
    """The command in a shell that has changed something first; `log` is what it has written."""

    def __init__(self, process):
        self.process = process
        self.log = ""

    def wait_for(self, pattern, count=1):
        """Read the log on until so many lines match; return the last one's match."""
        while count:
            line = self.process.stderr.readline()
            assert line, f"the log ends without {pattern!r}:\n{self.log}"
            self.log += line
            if found := re.search(pattern, line):
                match, count = found, count - 1
        return match

    def end(self):
        """Wait until nobody has the log open any more; the exit code."""
        self.log += self.process.stderr.read()
        return self.process.wait()


@pytest.fixture
def serve(bundle_path):
    @contextmanager
    def start(*arguments, models=bundle_path, shell='exec "$@"'):
        given = [str(models), "--listen", "127.0.0.1:0", "--drain-delay-s", "0", *arguments]
        call = ["sh", "-c", shell, "sh", *COMMAND, *given]
        with subprocess.Popen(call, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield Server(process)
            finally:
                process.kill()

    return start


@pytest.mark.parametrize("workers", WORKERS)
def test_a_terminal_that_closes_lets_calls_finish(serve, workers):
    """SIGHUP is no Ctrl-C of a job: who has a server asks it to stop, and its workers stop too."""
    with serve("--workers", workers, "--grace-s", "1e9") as server:  # more than `poll` can wait
        server.wait_for(r"listening on", 1 if workers == "1" else 3)
        server.process.send_signal(signal.SIGHUP)
        assert server.end() == 0
    assert server.log.count("stopping; new requests") == int(workers)
    assert "interrupted" not in server.log


def test_a_worker_drains_when_its_terminal_closes(serve):
    """The kernel tells all processes of a terminal, in any order."""
    with serve("--workers", "2") as server:
        server.wait_for("with 2 workers")
        os.kill(int(re.search(r"worker=1 pid=(\d+) answers", server.log)[1]), signal.SIGHUP)
        assert "(exit code 0)" in server.wait_for(r"worker=1 pid=\d+ ended.*")[0]
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
    assert "Traceback" not in server.log


@pytest.mark.parametrize("workers", WORKERS)
def test_under_nohup_a_server_stays(serve, workers):
    given = ["--workers", workers, "--drain-delay-s", "1000"]
    with serve(*given, shell='trap "" HUP; exec "$@"') as server:
        server.wait_for(r"listening on", 1 if workers == "1" else 3)
        server.process.send_signal(signal.SIGHUP)  # which would begin a stop with a delay
        server.process.send_signal(signal.SIGINT)
        assert server.end() == 0
    assert server.log.count("new requests are answered for 0 s more") == int(workers)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_server_that_only_loads_ends_cleanly(serve, bundle_path, tmp_path, workers):
    """Who replaces it must not see a failure, nor onnxruntime's abort in the middle of a load."""
    for number in range(30):
        shutil.copytree(bundle_path, tmp_path / f"model{number}" / "1")
    with serve("--log-format", "json", "--workers", workers, models=tmp_path) as server:
        server.wait_for("onnx runs on")
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
    assert workers == "2" or "stopped before it served" in server.log
    assert "listening" not in server.log


@pytest.mark.parametrize("workers", WORKERS)
def test_closed_standard_streams_are_no_hindrance(serve, workers):
    """Service managers and `ssh -n` may give none of them; nothing of a server needs them."""
    with serve("--workers", workers, shell='exec "$@" <&- >&-') as server:
        server.wait_for(r"listening on", 1 if workers == "1" else 3)
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0


def test_warnings_name_the_port_that_is_open(serve):
    """Port 0 is what was asked for, and nothing that anybody could close."""
    with serve("--listen", ":0", "--metrics", "none") as server:
        address = server.wait_for(r"listening on (\S+)$")[1]
        for problem in ("in clear", "without --tokens"):
            assert server.wait_for(rf"listening on (\S+) {problem}")[1] == address
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
