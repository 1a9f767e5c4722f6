"""Takes all of gRPC's wake-ups of the event loop at once, so that its thread never waits for us."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_MOST = 4096  # bytes taken at a time
_LOOK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)


@contextmanager
def taken_together(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have whatever gRPC begins to read in this block be read in whole, not byte by byte.

    gRPC's thread writes a byte into a socket for each thing that has happened, and the loop reads
    one byte an iteration, though it then takes all that has happened. Under load the bytes pile up;
    the socket holds a few hundred of them (each costs about a KiB there), then the thread waits
    until three quarters are gone: two hundred iterations in which nobody hears of new calls.

    Args:
        loop: Where gRPC is used for the first time in the block, with asyncio's own `add_reader`.
    """
    add_reader: Any = loop.add_reader

    def add(wakes: Any, callback: Callable[..., object], *arguments: object) -> object:
        if not isinstance(wakes, socket.socket):
            return add_reader(wakes, callback, *arguments)

        def take_and_call() -> None:
            # gRPC takes each byte by itself: another loop of the process, such as a client's, reads
            # the same socket, and what we took beside gRPC could be the byte of what it has not
            # heard of. Where it stops, at what has happened to a loop that is closed, the rest is
            # left to the next iteration.
            with suppress(BlockingIOError):  # another loop was sooner
                for _ in wakes.recv(_MOST, _LOOK):
                    callback(*arguments)

        return add_reader(wakes, take_and_call)

    try:
        loop.add_reader = add  # type: ignore[assignment, method-assign]
    except AttributeError:  # a loop of compiled code: let it be
        yield
        return
    try:
        yield
    finally:
        del loop.add_reader
