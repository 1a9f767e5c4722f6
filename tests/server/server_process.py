"""A real server process over fake models, and what its log says while it runs.

Nothing here waits for a time to pass: a test goes on when the log has the line that it waits for.
"""

import json
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from grpc_health.v1 import health_pb2, health_pb2_grpc

# Serves fake models through the real `serve`, as the command line does. A version with a file
# `bad` in it can't be loaded; the provider tells which process answers.
PROGRAM = r"""
import json, os, runpy, sys
import foretell.server.serve as module
from foretell.data.errors import BundleError, ForetellError
from foretell.server.models.repository import ModelControl

fake, models, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
delay_s = options.pop("delay_s")
control = ModelControl(**options.pop("control"))

class Forecaster(runpy.run_path(fake)["FakeForecaster"]):
    provider = property(lambda self: f"pid-{os.getpid()}")

    def forecast_rows(self, *arguments, **named):
        os.write(2, b"computing\n")  # at once: several threads and processes write here
        return super().forecast_rows(*arguments, **named)

def load(path, device, threads):
    if (path / "bad").exists():
        raise BundleError(f"bundle {path}: forecaster.onnx is damaged.")
    return Forecaster(delay_s=delay_s)

module.load_warm = load
try:
    module.serve(models, model_control=control, **options)
except ForetellError as error:
    sys.exit(f"error: {error}")
"""
FAKE = Path(__file__).with_name("fake_forecaster.py")
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING
_LONG_S = 120.0  # nothing takes so long, except on a machine that does much else


class ServerProcess:
    """A server of fake models that was started; kill it, or let it end, in a `with` block.

    Attributes:
        log: What it has written so far.
        address: Where it listens, once `wait_until_it_listens` is back.
    """

    def __init__(self, models, *, delay_s=0.0, control=None, listen="127.0.0.1:0", **options):
        options = {
            "delay_s": delay_s,
            "control": control or {},
            "listen": listen,
            "metrics": "none",  # the port after a given one may be anybody's
            "instances": 4,
            "drain_delay_s": 0.0,
            "grace_s": 60.0,
            **options,
        }
        command = [sys.executable, "-c", PROGRAM, str(FAKE), str(models), json.dumps(options)]
        self._start(command, options.get("workers", 1))

    def _start(self, command, workers=1, **how):
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **how)
        self.log = ""
        self._workers = workers
        self.address = None
        self._lines = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self._reader.join(timeout=_LONG_S)  # until nobody has the log open any more
        assert not self._reader.is_alive(), "a worker stays, and nobody watches it"
        self.process.stderr.close()

    def wait_for(self, pattern, count=1):
        """Read the log on until so many more lines match; return the last one's match."""
        match = None
        while count:
            line = self._lines.get(timeout=_LONG_S)
            assert line is not None, f"the log ends without {pattern!r}:\n{self.log}"
            self.log += line
            if found := re.search(pattern, line):
                match, count = found, count - 1
        return match

    def wait_until_it_listens(self):
        """Wait until it does, in all its workers; return where."""
        of_all = rf" with {self._workers} workers" if self._workers > 1 else ""
        self.address = self.wait_for(rf"listening on (\S+){of_all}$")[1]
        return self.address

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def end(self):
        """Wait for the process to end; its exit code."""
        code = self.process.wait(timeout=_LONG_S)
        self._reader.join(timeout=_LONG_S)
        while (line := self._lines.get(timeout=_LONG_S)) is not None:
            self.log += line
        return code

    def _read(self):
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put(None)


class CommandProcess(ServerProcess):
    """`foretell serve` with real models, as a shell starts it.

    Args:
        models: A folder of models, or one's.
        flags: As they are typed.
        how: For `subprocess.Popen`.
    """

    def __init__(self, models, *flags, **how):
        serve = [sys.executable, "-m", "foretell.cli.main", "serve", str(models)]
        places = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        self._start([*serve, *places, *map(str, flags)], **how)


def watch_health(channel, service=""):
    """What health says of a service, one status after another."""
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=service)
    return (answer.status for answer in stub.Watch(request))


def wait_for_health(channel, status, service=""):
    """Wait until health says so."""
    for found in watch_health(channel, service):
        if found == status:
            return
