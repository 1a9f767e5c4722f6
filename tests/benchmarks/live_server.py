"""`foretell serve` as a process of its own, for scripts that load it, watch it and shoot at it."""

import os
import queue
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import grpc

TESTS = Path(__file__).parents[1]
OWN_CONNECTION = [
    ("grpc.use_local_subchannel_pool", 1),  # channels to one address share a connection else
    ("grpc.enable_retries", 0),  # they would hide a loss
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
_LONG_S = 300.0


def tests_bundle(name: str) -> Path:
    """One of the tests' tiny bundles, built when it isn't there: "any", "transformer", ..."""
    path: Path = runpy.run_path(str(TESTS / "conftest.py"))["_built"](name)
    return path


def fill_models(folder: Path, **bundles: Path) -> Path:
    """Make a folder of models, by name, each with a version 1."""
    for name, bundle in bundles.items():
        shutil.copytree(bundle, folder / name / "1")
    return folder


def connect(address: str) -> grpc.aio.Channel:
    """Make a channel with a connection of its own."""
    return grpc.aio.insecure_channel(address, options=OWN_CONNECTION)


class LiveServer:
    """A server that was started; whatever happens it is dead after its `with` block.

    Attributes:
        log: The lines that it has written and `wait_for` has read.
        address: Where it listens.
        http: Where its metrics are.
        process: Of the server, or of the first of several.
    """

    def __init__(
        self,
        models: Path,
        *flags: str,
        listen: str = "127.0.0.1:0",
        cores: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command = [
            *(["taskset", "--cpu-list", cores] if cores else []),
            *(sys.executable, "-m", "foretell.cli.main", "serve", str(models), "--listen", listen),
            *("--metrics", "127.0.0.1:0", *flags),
        ]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )
        self.log: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._is_shared = "--workers" in flags
        self.http = self.address = ""

    def __enter__(self) -> "LiveServer":
        pattern = r"listening on (\S+)" + (" with" if self._is_shared else "")
        self.address = self.wait_for(pattern)[1]
        self.http = self.find(r"metrics at http://(\S+)") or self.wait_for(r"http://(\S+)")[1]
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # workers end when their first process is gone
        self.process.wait()

    def wait_for(self, pattern: str, count: int = 1) -> re.Match[str]:
        """Read the log on until so many more lines match; return the last one's match."""
        while True:
            line = self._lines.get(timeout=_LONG_S)
            if line is None:
                raise RuntimeError(f"the log ends without {pattern!r}:\n{''.join(self.log)}")
            self.log.append(line)
            if match := re.search(pattern, line):
                count -= 1
                if not count:
                    return match

    def find(self, pattern: str) -> str:
        """What a pattern's group holds in the log as read so far; empty where nothing matches."""
        match = re.search(pattern, "".join(self.log))
        return match[1] if match else ""

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, read the log to its end; the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=_LONG_S)
        while (line := self._lines.get(timeout=_LONG_S)) is not None:
            self.log.append(line)
        return code

    def metrics(self) -> dict[str, float]:
        """Sums of the metrics over their labels.

        Of methods but health's and reflection's, `handled_CODE` are the calls that ended so, and
        `open_calls` those that have not ended. `watches` of health were begun.
        """
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=_LONG_S) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, value = re.split(r"[{ ]", line, maxsplit=1)[0], float(line.rsplit(" ", 1)[1])
            names = [name]
            if 'grpc_service="grpc.' in line:  # health and reflection may be watched for ever
                is_watch = name == "grpc_server_started_total" and 'grpc_method="Watch"' in line
                names = ["watches"] if is_watch else []
            if name == "grpc_server_handled_total" and (
                code := re.search('grpc_code="(.*?)"', line)
            ):
                names.append(f"handled_{code[1]}")
            for one in names:
                found[one] = found.get(one, 0.0) + value
        found["open_calls"] = found.get("grpc_server_started_total", 0.0) - found.get(
            "grpc_server_handled_total", 0.0
        )
        return found

    def memory_mib(self) -> float:
        """Resident memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 2**20

    def open_files(self) -> int:
        """How many files and sockets the process has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put(None)
