"""A graph that stays usable in the children of the process that opened it."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foretell.data.errors import BundleError, DeviceError


class ForkSafe:
    """An onnxruntime session, for the process that opened it and for all that are forked from it.

    onnxruntime locks a session's memory while it computes. A child that is forked in that moment
    inherits the lock without the thread that would open it, and its first run would never end. So
    runs are noted: a child goes on with what it inherited, and shares its memory, where nothing
    was computing, and else opens the graph anew. CUDA survives no fork at all.
    """

    def __init__(self, open_session: Callable[[], Any], graph: Path | bytes) -> None:
        """Open a session.

        Args:
            open_session: Opens it, here and maybe in children.
            graph: Its file, or its bytes.

        Raises:
            Exception: What onnxruntime raises where it can't be opened.
        """
        self._open = open_session
        self._file = graph if isinstance(graph, Path) else None
        self._state = _state(self._file)
        self._session = open_session()
        self._on_cpu = self._session.get_providers()[0] == "CPUExecutionProvider"
        self._process = os.getpid()
        self._running: set[int] = set()  # threads; to add and to discard are one step each
        self._locks: dict[int, threading.Lock] = {}  # by process: an inherited one may be locked
        self._inherited: list[Any] = []

    def run(
        self, outputs: Sequence[str] | None, inputs: Mapping[str, Any], options: Any = None
    ) -> list[Any]:
        """Run it, as onnxruntime's session does."""
        session, thread = self._here(), threading.get_ident()
        self._running.add(thread)
        try:
            return session.run(outputs, inputs, options)  # type: ignore[no-any-return]
        finally:
            self._running.discard(thread)

    def run_with_iobinding(self, binding: Any, options: Any = None) -> None:
        """Run it with what is bound, as onnxruntime's session does."""
        session, thread = self._here(), threading.get_ident()
        self._running.add(thread)
        try:
            session.run_with_iobinding(binding, options)
        finally:
            self._running.discard(thread)

    def __getattr__(self, name: str) -> Any:
        """All else, which IOBinding also asks for, is the session's own."""
        if name.startswith("__") or "_process" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._here(), name)

    def _here(self) -> Any:
        """The session to use in this process."""
        process = os.getpid()
        if process != self._process:
            with self._locks.setdefault(process, threading.Lock()):
                if process != self._process:
                    self._settle()
                    self._process = process
        return self._session

    def _settle(self) -> None:
        """Make it usable in a process that was forked from the one it was opened in."""
        if not self._on_cpu:
            raise DeviceError(
                "the model was loaded on CUDA before this process was forked, and CUDA survives no "
                "fork; load it in this process, or start processes with 'spawn'."
            )
        if self._running:
            if _state(self._file) != self._state:
                raise BundleError(
                    f"{self._file} has changed since the process loaded it that this one was "
                    "forked from; load the model again."
                )
            self._inherited.append(self._session)  # to free it would take its locks
            self._session = self._open()
            self._running = set()


def _state(file: Path | None) -> tuple[int, ...] | None:
    """What tells one state of a file from another; None where there is none."""
    try:
        found = None if file is None else file.stat()
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
