"""What several processes of one server counted, told by each as if it were one.

Any of them may be asked for metrics or statistics, as any may be asked for an answer. So each
writes what it counted into a folder, again and again, and reads there what the others did. A
process that takes the place of one that died goes on from its counts, so none of them ever falls.
"""

import asyncio
import contextlib
import logging
import os
import pickle
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from foretell.server.telemetry.call_statistics import MethodStatistics, add_by_method
from foretell.server.telemetry.observing import Observer
from foretell.server.telemetry.statistics import ModelStatistics, add_by_version

_STEP_S = 1.0  # between two writings: so old is what one process knows of the others
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a process tells of itself and of those whose place it has: how many, what they did.

    One that has ended as it should is no process any more, and its successor no restart.
    """

    process: int = 0
    restarts: int = 0
    models: tuple[ModelStatistics, ...] = ()
    methods: tuple[MethodStatistics, ...] = ()


class Peers:
    """Lets an observer's numbers be those of all processes that share a folder."""

    def __init__(self, folder: Path, worker: int, observer: Observer) -> None:
        """Add the numbers of the others from now on.

        Args:
            folder: Of the processes of this server, and of nobody else: it is read by unpickling.
            worker: Number of this process among them; one that died may have had it before.
            observer: Of this process.
        """
        self._folder = folder
        self._file = folder / f"{worker}.counts"
        self._observer = observer
        self._inherited = _read(self._file)
        self._restarts = self._inherited.restarts + bool(self._inherited.process)
        self._writing = threading.Lock()  # the last word must be the last one
        self._is_over = False
        observer.read_restarts = self._all_restarts
        observer.statistics.read_peers = self._models
        observer.calls.read_peers = self._methods

    async def keep_telling(self) -> None:
        """Write again and again, until cancelled; then once more."""
        try:
            while True:
                await asyncio.to_thread(self.tell)
                await asyncio.sleep(_STEP_S)
        finally:
            self.tell(is_over=True)

    def tell(self, *, is_over: bool = False) -> None:
        """Write what this process counted, for the others.

        Args:
            is_over: It ends now, as it should.
        """
        own, calls = self._observer.statistics.own(), self._observer.calls.own()
        told = _Told(
            0 if is_over else os.getpid(),
            self._restarts,
            tuple(add_by_version([*own, *_of_the_dead(self._inherited.models, own)])),
            tuple(add_by_method([*calls, *self._inherited.methods])),
        )
        with self._writing:
            if is_over or not self._is_over:
                self._write(told)
            self._is_over |= is_over

    def _write(self, told: _Told) -> None:
        draft = self._file.with_suffix(".draft")
        try:
            draft.write_bytes(pickle.dumps(told))
            draft.replace(self._file)
        except OSError as error:  # a full disk must not end the server
            _log.warning("what this process counted can't be told to the others: %s", error)

    def _others(self) -> list[_Told]:
        return [_read(path) for path in self._folder.glob("*.counts") if path != self._file]

    def _models(self) -> list[ModelStatistics]:
        own = self._observer.statistics.own()
        found = _of_the_dead(self._inherited.models, own)
        for told in self._others():
            found += told.models if _is_alive(told.process) else _of_the_dead(told.models, own)
        return found

    def _all_restarts(self) -> int:
        return self._restarts + sum(told.restarts for told in self._others())

    def _methods(self) -> list[MethodStatistics]:
        return [one for told in [self._inherited, *self._others()] for one in told.methods]


def _of_the_dead(
    models: Iterable[ModelStatistics], loaded: Iterable[ModelStatistics]
) -> list[ModelStatistics]:
    """What counts of a process that is gone: its versions that others have, and no work."""
    names = {(one.name, one.version) for one in loaded}
    return [
        replace(one, in_work=0, waiting=0, held_bytes=0)
        for one in models
        if (one.name, one.version) in names
    ]


def _read(file: Path) -> _Told:
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
        told = pickle.loads(file.read_bytes())
        if isinstance(told, _Told):
            return told
    return _Told()


def _is_alive(process: int) -> bool:
    if not process:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
