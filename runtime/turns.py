"""Whose turn it is to run Python among the threads that compute batches.

They hold Python's lock in turns anyway. If all of them ask for it, whatever else the process does,
such as a server's event loop, gets it after each of them has had it; if one asks for them all, the
event loop is next.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")

_mine = threading.local()
_turn = threading.Lock()


def _forget() -> None:
    """Begin anew in a forked process: whoever had the turn isn't there."""
    global _turn  # noqa: PLW0603
    _turn = threading.Lock()


os.register_at_fork(after_in_child=_forget)


@contextmanager
def in_turn() -> Iterator[None]:
    """Run a block when it is this thread's turn."""
    with _turn:
        _mine.is_turn = True
        try:
            yield
        finally:
            _mine.is_turn = False


def in_my_place(work: Callable[[Item], None]) -> Callable[[Item], None]:
    """Return work for other threads while this one waits: if it has turns, theirs are the same."""
    if not getattr(_mine, "is_turn", False):
        return work

    def work_in_turn(item: Item) -> None:
        with in_turn():
            work(item)

    return work_in_turn


@contextmanager
def out_of_turn() -> Iterator[None]:
    """Let others have their turn while a block runs that needs no Python; else do nothing."""
    if not getattr(_mine, "is_turn", False):
        yield
        return
    _turn.release()
    try:
        yield
    finally:
        _turn.acquire()
