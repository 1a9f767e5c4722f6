"""Stopping a training between two steps, so that what was done is kept."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from foretell.model.ranks import world_size


class TrainingStopped(KeyboardInterrupt):
    """A signal stopped the training; its checkpoint holds all steps done."""

    def __init__(self, step: int) -> None:
        self.step = step
        super().__init__(f"stopped after step {step:,}; nothing is lost, go on with it (resume).")


class StopRequest:
    """Whether somebody asked the training to stop."""

    def __init__(self) -> None:
        self.is_set = False

    def __bool__(self) -> bool:
        return self.is_set


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request; a second SIGINT interrupts at once.

    One of several processes that leaves the block by an error is ending, and stays so guarded.

    Outside the main thread signals can't be caught, and there is never a request.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        request.is_set = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield request
    except BaseException:
        if world_size() == 1:  # else `torchrun` ends this process too, which has to say why first
            _restore(before)
        raise
    _restore(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
