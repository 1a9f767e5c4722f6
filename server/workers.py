"""Several processes on one port: started, watched, replaced when one dies, and stopped together.

The supervisor forks before anything of gRPC or onnxruntime is made, and makes nothing of them
itself, so that it can fork again whenever a worker dies. It keeps the port, without listening.
"""

import asyncio
import logging
import math
import os
import pickle
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType

from foretell.data.errors import ForetellError, OptionError
from foretell.server.errors import ListenError
from foretell.server.listen import check_address, split_address
from foretell.server.process import (
    HURRY,
    STOP_LATER,
    STOP_NOW,
    STOP_SIGNALS,
    flush_streams,
    heard_signals,
)

Serve = Callable[[int, int, Callable[[str], None]], int]
"""Serves as the worker of a number, listens to orders from a pipe, and tells when it answers.

It tells that from its event loop, and returns the exit code.
"""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0  # before a worker that keeps dying is replaced
_LONG_LIFE_S = 60.0
_KILL_AFTER_S = 10.0  # beyond what stopping may take
_KILL_IN_A_HURRY_S = 2.0
_BEAT_S = 1.0  # between two signs of life of a worker
_LONGEST_WAIT_S = 3600.0  # `select` takes no more than 24 days, and a grace may be longer

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Worker:
    number: int
    process: int
    orders: int  # the end of a pipe to write to
    news: int  # the end of a pipe to read from; its end is the worker's
    started: float
    is_ready: bool = False
    told: bytes = b""
    silent: int = 0  # looks since its last sign of life


class Supervisor:
    """Keeps a number of workers alive.

    Args:
        count: How many.
        serve: What each of them does.
        stop_s: Seconds that a worker may take to stop when it is asked to.
        max_hang_s: Seconds for which its event loop may stand still; 0 for any time. They are
            counted in looks of the supervisor, so a pause of all processes kills none.
    """

    def __init__(self, count: int, serve: Serve, stop_s: float, *, max_hang_s: float = 0.0) -> None:
        if not hasattr(os, "fork"):
            raise OptionError(f"workers is {count}, but this system can't fork; take one worker.")
        if threading.active_count() > 1:
            raise OptionError(
                f"workers is {count}, but a process with threads can't be forked safely; serve "
                "from a program of its own, such as `foretell serve`."
            )
        self._count = count
        self._serve = serve
        self._stop_s = stop_s
        self._most_silent = math.ceil(max_hang_s / _BEAT_S)
        self._look_at = 0.0
        self._workers: dict[int, _Worker] = {}  # by the number of the file of its news
        self._due: dict[int, float] = {}  # workers to be started, by number: when
        self._pauses: dict[int, float] = {}
        self._kill_at = float("inf")
        self._num_signals = 0
        self._restarts = 0
        self._code = 0
        self._selector = selectors.DefaultSelector()

    def run(self, on_listening: Callable[[], None]) -> int:
        """Start the workers, and keep them until a signal says stop.

        SIGTERM and SIGHUP stop them after their delay, SIGINT without one, a second signal at once.

        Args:
            on_listening: Called when all of them answer for the first time.

        Returns:
            The exit code: the largest of theirs, once all are to stop.

        Raises:
            ForetellError: What a worker said that could not start, where none had before.
        """
        is_first = True
        with _Signals(self._selector) as signals:
            self._due = dict.fromkeys(range(self._count), 0.0)
            while self._workers or self._due:
                self._start_due()
                for key, _ in self._selector.select(self._wait_s()):
                    if key.fileobj is signals.pipe:
                        for number in signals.read():
                            self._on_signal(number)
                    else:
                        self._hear(self._workers[key.fd], is_first=is_first)
                if time.monotonic() >= self._kill_at:
                    self._kill()
                if self._looks and time.monotonic() >= self._look_at:
                    self._look()
                ready = [worker.is_ready for worker in self._workers.values()]
                if is_first and len(ready) == self._count and all(ready):
                    is_first = False
                    on_listening()
        return self._code

    def _start_due(self) -> None:
        now = time.monotonic()
        for number in [number for number, at in self._due.items() if at <= now]:
            try:
                worker = self._fork(number)
            except OSError as error:  # the system has no room for one just now
                _log.error("worker=%d can't be started: %s", number, error)
                self._due[number] = now + _LONGEST_PAUSE_S
                continue
            del self._due[number]
            self._workers[worker.news] = worker
            self._selector.register(worker.news, selectors.EVENT_READ)

    def _fork(self, number: int) -> _Worker:
        orders, send = os.pipe()
        news, tell = os.pipe()
        flush_streams()
        try:
            process = os.fork()
        except OSError:
            for end in (orders, send, news, tell):
                os.close(end)
            raise
        if process:
            os.close(orders)
            os.close(tell)
            return _Worker(number, process, send, news, time.monotonic())
        code = 1
        try:
            # A pipe that another worker holds open would hide that the supervisor is gone.
            for mine in (send, news, *self._pipes()):
                os.close(mine)
            self._selector.close()
            _Signals.forget()
            code = self._serve(number, orders, partial(_tell, tell))
        except ForetellError as error:
            _send(tell, error)
        except BaseException:
            _log.exception("worker=%d can't serve", number)
        finally:
            logging.shutdown()
            flush_streams()
            os._exit(code)

    def _pipes(self) -> list[int]:
        return [end for worker in self._workers.values() for end in (worker.orders, worker.news)]

    def _hear(self, worker: _Worker, *, is_first: bool) -> None:
        told = os.read(worker.news, 65_536)
        worker.silent = 0
        if told:
            if worker.is_ready:
                return  # signs of life
            worker.told += told
            if isinstance(_read(worker.told), str):
                worker.is_ready = True
                _log.info("worker=%d pid=%d answers", worker.number, worker.process)
            return
        code = self._bury(worker)
        error = _read(worker.told)
        if isinstance(error, ForetellError) and is_first and not self._num_signals:
            for other in self._workers.values():  # nobody was told of them yet
                os.kill(other.process, signal.SIGKILL)
                os.waitpid(other.process, 0)
            raise error
        if isinstance(error, ForetellError):
            _log.error("worker=%d can't start: %s", worker.number, error)
        if not self._num_signals:
            self._replace(worker, code)

    def _bury(self, worker: _Worker) -> int:
        self._selector.unregister(worker.news)
        del self._workers[worker.news]
        os.close(worker.news)
        os.close(worker.orders)
        code = os.waitstatus_to_exitcode(os.waitpid(worker.process, 0)[1])
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if self._num_signals:
            # A signal ends one that only loads.
            is_bad = code < 0 and (worker.is_ready or -code not in STOP_SIGNALS)
            self._code = max(self._code, int(is_bad), code)
            _log.info("worker=%d pid=%d ended (%s)", worker.number, worker.process, how)
        elif code:
            _log.error("worker=%d pid=%d ended by itself (%s)", worker.number, worker.process, how)
        return code

    def _replace(self, worker: _Worker, code: int) -> None:
        is_old = worker.is_ready and time.monotonic() - worker.started > _LONG_LIFE_S
        pause_s = _FIRST_PAUSE_S if is_old else self._pauses.get(worker.number, _FIRST_PAUSE_S)
        self._pauses[worker.number] = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._due[worker.number] = time.monotonic() + pause_s
        if not code:  # somebody asked it to, by a signal of its own
            told = "worker=%d pid=%d ended (exit code 0); replaced in %g s"
            _log.warning(told, worker.number, worker.process, pause_s)
            return
        self._restarts += 1
        _log.warning(
            "worker=%d is replaced in %g s; replaced so far: %d",
            worker.number,
            pause_s,
            self._restarts,
        )

    def _on_signal(self, number: int) -> None:
        self._num_signals += 1
        self._due.clear()
        if self._num_signals > 1:
            self._stop_all(HURRY)
            self._kill_at = min(self._kill_at, time.monotonic() + _KILL_IN_A_HURRY_S)
            return
        self._stop_all(STOP_NOW if STOP_SIGNALS[signal.Signals(number)] else STOP_LATER)
        for worker in self._workers.values():
            if not worker.is_ready:  # it reads no orders before all is loaded
                os.kill(worker.process, number)
        self._kill_at = time.monotonic() + self._stop_s + _KILL_AFTER_S

    def _stop_all(self, order: bytes) -> None:
        for worker in self._workers.values():
            try:
                os.write(worker.orders, order)
            except BrokenPipeError:
                continue  # it is dead, and its news will tell

    def _kill(self) -> None:
        for worker in self._workers.values():
            _log.error("worker=%d pid=%d doesn't end; killed", worker.number, worker.process)
            os.kill(worker.process, signal.SIGKILL)
        self._kill_at = float("inf")

    @property
    def _looks(self) -> bool:
        """Whether workers are looked after; those that are to stop have their own time."""
        return bool(self._most_silent) and not self._num_signals

    def _look(self) -> None:
        """Kill workers that serve and don't move; their end is heard of, and they are replaced."""
        self._look_at = time.monotonic() + _BEAT_S
        for worker in self._workers.values():
            worker.silent += worker.is_ready
            if worker.silent == self._most_silent + 1:
                _log.error(
                    "worker=%d pid=%d has stood still for %g s (--max-hang-s); killed",
                    worker.number,
                    worker.process,
                    self._most_silent * _BEAT_S,
                )
                os.kill(worker.process, signal.SIGKILL)

    def _wait_s(self) -> float:
        looks = [self._look_at] if self._looks else []
        next_at = min([self._kill_at, *looks, *self._due.values()])
        return min(max(0.0, next_at - time.monotonic()), _LONGEST_WAIT_S)


class _Signals:
    """Makes signals that ask to stop readable, so that one `select` waits for everything."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.pipe, self._write = socket.socketpair()
        self.pipe.setblocking(False)
        self._write.setblocking(False)
        self._selector = selector

    def __enter__(self) -> "_Signals":
        self._before = {number: signal.signal(number, _nothing) for number in heard_signals()}
        self._wakeup = signal.set_wakeup_fd(self._write.fileno())
        self._selector.register(self.pipe, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.unregister(self.pipe)
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self.pipe.close()
        self._write.close()

    def read(self) -> list[int]:
        return list(self.pipe.recv(64))

    @staticmethod
    def forget() -> None:
        """Undo it in a forked process."""
        signal.set_wakeup_fd(-1)
        for number in heard_signals():
            signal.signal(number, signal.SIG_DFL)


def hold_port(address: str) -> tuple[socket.socket, str]:
    """Take a port for several processes.

    Args:
        address: HOST:PORT; port 0 takes a free one.

    Returns:
        A socket that keeps the port and never listens, and the address with the port.

    Raises:
        ListenError: It is no address, or can't be had; the reason and the port are named.
    """
    check_address(address)
    host, port = split_address(address)
    family, kind, protocol, _, at = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM
    )[0]
    holder = socket.socket(family, kind, protocol)
    try:
        # As gRPC's own sockets are, or they could not be bound beside it.
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        holder.bind(at)
    except OSError as error:
        holder.close()
        raise ListenError(f"can't listen on {address}: {error.strerror}.") from error
    return holder, f"{host}:{holder.getsockname()[1]}"


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """The wakeup file tells; without a handler Python would not write to it."""


def _send(pipe: int, news: object) -> None:
    os.write(pipe, pickle.dumps(news))


def _tell(pipe: int, address: str) -> None:
    """Tell that a worker answers, and then that it is alive, for as long as its event loop runs."""
    _send(pipe, address)
    os.set_blocking(pipe, False)  # a supervisor that hangs must not hold its workers up
    _beat(asyncio.get_running_loop(), pipe)


def _beat(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    with suppress(OSError):  # full, or nobody reads it any more, which orders tell as well
        os.write(pipe, b".")
    loop.call_later(_BEAT_S, _beat, loop, pipe)


def _read(told: bytes) -> object:
    """What a worker has told; None while it is not whole. Only our own processes write to it."""
    try:
        return pickle.loads(told)
    except (EOFError, pickle.UnpicklingError):
        return None
