"""A server beside other work in one process: for a demonstration, a notebook, a test."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from foretell.server.application import Application
from foretell.server.models.repository import Repository
from foretell.server.options import ServerOptions


@contextmanager
def serve_in_background(
    repository: Repository,
    options: ServerOptions | None = None,
    *,
    on_status: Callable[[str], None] | None = None,
) -> Iterator[str]:
    """Serve in a thread of its own while the block runs; then drain and stop.

    gRPC likes one event loop a process: where another one runs beside, an `AsyncClient` for
    instance, it may log a harmless BlockingIOError now and then.

    Args:
        repository: The loaded models.
        options: How to serve; by default on a free port of this machine.
        on_status: Gets HOST:PORT of the status page and metrics, where the options ask for them.

    Yields:
        The address, HOST:PORT, of a server that answers.

    Raises:
        ListenError: The address can't be had.
    """
    options = options or ServerOptions(listen="127.0.0.1:0")
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        stop = asyncio.Event()
        try:
            application = Application(repository, options)
            await application.start()
        except BaseException as error:
            started.set_exception(error)
            return
        if on_status is not None and application.status is not None:
            on_status(application.status.address)
        started.set_result((application.address, asyncio.get_running_loop(), stop))
        await stop.wait()
        await application.stop(asyncio.Event())

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="foretell-server")
    thread.start()
    try:
        address, loop, stop = started.result()
    except BaseException:
        thread.join()
        raise
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
