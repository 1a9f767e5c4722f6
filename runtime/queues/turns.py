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

_PATIENCE_S = 0.05  # longer than any step of a search takes between two runs of a graph

_mine = threading.local()
_turn = threading.Lock()


def _forget() -> None:
    """Begin anew in a forked process: whoever had the turn isn't there."""
    global _mine, _turn
    _mine, _turn = threading.local(), threading.Lock()


os.register_at_fork(after_in_child=_forget)


@contextmanager
def in_turn() -> Iterator[None]:
    """Run a block when it is this thread's turn, or when somebody has had his for long."""
    _take()
    try:
        yield
    finally:
        _leave()


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
    had_turn = _leave()
    try:
        yield
    finally:
        if had_turn:
            _take()


def _take() -> None:
    # Whoever doesn't come out of his turn, as he waits for something, must not hold up all others.
    _mine.is_turn = _turn.acquire(timeout=_PATIENCE_S)


def _leave() -> bool:
    """Give the turn back, if this thread has it; tell whether it had."""
    had_turn = getattr(_mine, "is_turn", False)
    if had_turn:
        _mine.is_turn = False
        _turn.release()
    return had_turn
