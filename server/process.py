"""One serving process, from its models in memory to its drained end."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from foretell.server.application import Application, Ending
from foretell.server.models.repository import Repository
from foretell.server.options import ServerOptions
from foretell.server.security import open_doors
from foretell.server.telemetry.tracing import trace_to

STOP_LATER, STOP_NOW, HURRY = b"t", b"i", b"h"
"""What a supervisor writes to its workers: stop after the delay, without one, or at once."""

# A thread that computes hands Python's lock to one that waits after so long. Answers and health
# need it several times each, and with Python's own 5 ms they wait for all batches each time.
_SWITCH_S = 0.0001

# gRPC's calls hold themselves, so each of them waits for the collector. The third number is 10 with
# Python itself: there, after some thousands of calls, nobody is answered for 20 ms and more.
_COLLECTIONS = (700, 10, 2)

STOP_SIGNALS = {signal.SIGTERM: False, signal.SIGHUP: False, signal.SIGINT: True}
"""What asks a server to stop, and whether without the delay."""

_log = logging.getLogger(__name__)


class StopRequest:
    """Whether a server is asked to stop, and how; belongs to its event loop.

    Attributes:
        asked: Is set once it is.
        hurry: Is set where nothing may be waited for.
        skips_delay: Whether new calls are refused at once.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()
        self.skips_delay = False

    def ask(self, *, skip_delay: bool) -> None:
        """Ask it to stop; to ask again changes nothing."""
        if not self.asked.is_set():
            self.skips_delay = skip_delay
            self.asked.set()

    def ask_harder(self, *, skip_delay: bool) -> None:
        """Ask it to stop; to ask again means at once."""
        if self.asked.is_set():
            self.hurry.set()
        self.ask(skip_delay=skip_delay)


Listen = Callable[[StopRequest], None]
"""Begins to listen for what may ask a server to stop."""


def heard_signals() -> list[signal.Signals]:
    """Those of `STOP_SIGNALS` that this process hears: under `nohup` not the end of a terminal."""
    is_deaf = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in STOP_SIGNALS if not (is_deaf and number == signal.SIGHUP)]


def on_signals(request: StopRequest) -> None:
    """Stop at SIGTERM after the delay, at SIGINT without it, at a second signal at once."""
    loop = asyncio.get_running_loop()
    for number in heard_signals():
        ask = partial(request.ask_harder, skip_delay=STOP_SIGNALS[number])
        loop.add_signal_handler(number, ask)


def on_orders(orders: int) -> Listen:
    """Stop when a supervisor says so, or is gone.

    A signal asks as well, but never hurries: one that is sent to all processes of a terminal or a
    service comes twice, once by way of the supervisor.

    Args:
        orders: The end of a pipe to read from.
    """

    def listen(request: StopRequest) -> None:
        loop = asyncio.get_running_loop()

        def read() -> None:
            order = os.read(orders, 1)
            if not order:
                loop.remove_reader(orders)
            if order == HURRY:
                request.hurry.set()
            request.ask(skip_delay=order == STOP_NOW)

        loop.add_reader(orders, read)
        for number in heard_signals():
            ask = partial(request.ask, skip_delay=STOP_SIGNALS[number])
            loop.add_signal_handler(number, ask)

    return listen


def flush_streams() -> None:
    """Write out what the standard streams hold; they may be closed, full, or read by nobody."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # None where it was closed
            stream.flush()


def serve_process(
    repository: Repository,
    options: ServerOptions,
    listen: Listen,
    on_listening: Callable[[str], None] | None = None,
) -> Ending:
    """Serve until asked to stop.

    Args:
        repository: The loaded models.
        options: How to serve.
        listen: For what may ask to stop.
        on_listening: Gets the address with the bound port, once the server answers.

    Raises:
        ListenError: The address can't be had.
    """
    # What is there by now stays; so a collection when a version goes takes no 40 ms of all callers.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_S)
    return asyncio.run(_serve(repository, options, listen, on_listening))


async def _serve(
    repository: Repository,
    options: ServerOptions,
    listen: Listen,
    on_listening: Callable[[str], None] | None,
) -> Ending:
    application = Application(repository, options, trace_to(options.trace_endpoint))
    await application.start()
    request = StopRequest()
    listen(request)
    for model in repository.models.values():
        _log.info(
            "model=%s version=%d provider=%s", model.name, model.version, model.served.provider
        )
    _log.info("listening on %s", application.address)
    if application.status is not None:
        _log.info("status page and metrics at %s", application.status.url)
    metrics = "" if application.status is None else application.status.address
    for door in open_doors(application.address, options.security, metrics):
        _log.warning("%s", door)
    if on_listening is not None:
        on_listening(application.address)
    await request.asked.wait()
    delay_s = 0.0 if request.skips_delay else options.drain_delay_s
    _log.info(
        "stopping; new requests are answered for %g s more, those in work have %g s",
        delay_s,
        options.grace_s,
    )
    ending = await application.stop(request.hurry, delay_s=delay_s)
    _log.info(ending.value)
    return ending
