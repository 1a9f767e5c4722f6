"""The models that answer: looked up by name, held while a call needs them, exchanged in one step.

A name has one version that serves. One that was replaced goes on answering calls that name it,
until nobody has asked for it for a while, so that a table of many requests is answered by one
version; one that was unloaded answers only the calls that it has. When the last call has left, the
version is dropped and its memory given back.
"""

import ctypes
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from foretell.data.errors import ModelNotFoundError
from foretell.data.quoting import quoted
from foretell.server.errors import ModelNotReadyError
from foretell.server.models.served import Model
from foretell.server.telemetry.call_notes import note_model
from foretell.server.telemetry.observing import Observer

KEEP_S = 30.0
"""Seconds without a request after which a version that was replaced is let go."""

_log = logging.getLogger(__name__)


class State(Enum):
    """What becomes of a version."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    UNLOADING = "unloading"
    UNAVAILABLE = "unavailable"  # there, and not to be loaded


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """The state of one version of a model, and the reason where there is one to tell."""

    name: str
    version: int
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A version that could not be loaded, and why."""

    name: str
    version: int
    reason: str


@dataclass(slots=True, eq=False)
class _Loaded:
    model: Model
    leases: int = 0
    last_used: float = 0.0  # on the clock of time.monotonic, once it is replaced
    is_closed: bool = False  # to new calls


class ServedModels:
    """The served models by name; all methods may be called from any thread.

    Args:
        models: One version a name.
        failures: What could not be loaded.
        observer: Hears of versions that come and go.
        keep_s: See `KEEP_S`.
    """

    def __init__(
        self,
        models: Sequence[Model] = (),
        failures: Sequence[Failure] = (),
        *,
        observer: Observer | None = None,
        keep_s: float = KEEP_S,
    ) -> None:
        self.observer = observer or Observer()
        self._keep_s = keep_s
        self._lock = threading.Lock()
        self._serving = {model.name: _Loaded(model) for model in models}
        self._leaving: list[_Loaded] = []
        self._notes = {
            (bad.name, bad.version): VersionStatus(bad.name, bad.version, State.FAILED, bad.reason)
            for bad in failures
        }
        self._listeners: list[Callable[[], None]] = []
        for model in models:
            self.observer.on_loaded(model.name, model.version, 0.0)

    @property
    def models(self) -> Mapping[str, Model]:
        """The version that serves of each model, in the order of names; a snapshot."""
        with self._lock:
            return {name: self._serving[name].model for name in sorted(self._serving)}

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What could not be loaded, in the order of names, and the newest version first."""
        with self._lock:
            failed = [note for note in self._notes.values() if note.state is State.FAILED]
        failed.sort(key=lambda note: (note.name, -note.version))
        return tuple(Failure(note.name, note.version, note.reason) for note in failed)

    def statuses(self) -> list[VersionStatus]:
        """The state of every version that is there, by name and version.

        A version whose files have changed since it was loaded serves on as it was; what is wrong
        with the new ones is its reason.
        """
        with self._lock:
            found = dict(self._notes)
            for state, loaded in [
                *((State.UNLOADING, one) for one in self._leaving),
                *((State.READY, one) for one in self._serving.values()),
            ]:
                key = (loaded.model.name, loaded.model.version)
                reason = self._notes[key].reason if key in self._notes else ""
                found[key] = VersionStatus(*key, state, reason)
        return [found[key] for key in sorted(found)]

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called after every change, in the thread that made it.

        Returns:
            Ends that.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def get(self, name: str, version: int) -> Model:
        """Look up a model.

        Args:
            name: Its name; empty where exactly one is served.
            version: Its version; 0 for the one that serves.

        Raises:
            ModelNotFoundError: There is none; those there are are listed.
            ModelNotReadyError: It is being loaded.
        """
        with self._lock:
            model = self._find(name, version).model
        note_model(model.name, model.version)
        return model

    @contextmanager
    def lease(self, name: str, version: int) -> Iterator[Model]:
        """Look up a model as `get` does, and keep that version loaded until left.

        Raises:
            ModelNotFoundError: There is none; those there are are listed.
            ModelNotReadyError: It is being loaded.
        """
        with self._lock:
            loaded = self._find(name, version)
            loaded.leases += 1
        note_model(loaded.model.name, loaded.model.version)
        try:
            yield loaded.model
        finally:
            with self._lock:
                loaded.leases -= 1
                loaded.last_used = time.monotonic()

    def note(self, status: VersionStatus) -> None:
        """Note the state of a version that doesn't serve."""
        with self._lock:
            self._notes[status.name, status.version] = status
        self._tell()

    def forget(self, name: str, version: int) -> None:
        """Note that a version is no longer there."""
        with self._lock:
            known = self._notes.pop((name, version), None)
        if known is not None:
            self._tell()

    def put(self, model: Model, seconds: float) -> None:
        """Let a version serve from now on, in place of the one that served.

        Args:
            model: Loaded, checked and warm.
            seconds: That this took.
        """
        self.observer.on_loaded(model.name, model.version, seconds)  # before it counts anything
        with self._lock:
            before = self._serving.get(model.name)
            self._serving[model.name] = _Loaded(model)
            self._notes.pop((model.name, model.version), None)
            if before is not None:
                self._leave(before, is_closed=False)
        self._tell()

    def withdraw(self, name: str) -> VersionStatus | None:
        """Let a model serve no more; the calls it has are finished. None where none served."""
        with self._lock:
            loaded = self._serving.pop(name, None)
            if loaded is None:
                return None
            self._leave(loaded, is_closed=True)
        self._tell()
        return VersionStatus(name, loaded.model.version, State.UNLOADING)

    def sweep(self) -> bool:
        """Drop the versions that nobody needs any more.

        Returns:
            Whether others are still leaving.
        """
        now = time.monotonic()
        with self._lock:
            gone = [
                one
                for one in self._leaving
                if not one.leases and (one.is_closed or now - one.last_used >= self._keep_s)
            ]
            self._leaving = [one for one in self._leaving if one not in gone]
            is_more = bool(self._leaving)
            serving = {name: one.model.version for name, one in self._serving.items()}
        if gone:
            names = [(one.model.name, one.model.version) for one in gone]
            gone.clear()
            self._tell()
            _give_memory_back()
            for name, version in names:
                _log.info(
                    "model=%s version=%d is unloaded%s",
                    name,
                    version,
                    _why(version, serving.get(name)),
                )
                self.observer.on_unloaded(name, version)
        return is_more

    def _leave(self, loaded: _Loaded, *, is_closed: bool) -> None:
        loaded.last_used = time.monotonic()
        for one in self._leaving:  # two replaced versions of a model would be one too many
            one.is_closed |= one.model.name == loaded.model.name
        loaded.is_closed = is_closed
        self._leaving.append(loaded)

    def _find(self, name: str, version: int) -> _Loaded:
        if not name and len(self._serving) == 1:
            loaded = next(iter(self._serving.values()))
        elif name in self._serving:
            loaded = self._serving[name]
        else:
            raise self._not_found(name)
        if version in (0, loaded.model.version):
            return loaded
        for one in self._leaving:
            key = (one.model.name, one.model.version)
            if key == (loaded.model.name, version) and not one.is_closed:
                return one
        raise ModelNotFoundError(
            f"version {version} of {loaded.model.name} is not served; there are: {self._list()}."
        )

    def _not_found(self, name: str) -> ModelNotFoundError | ModelNotReadyError:
        notes = [note for note in self._notes.values() if note.name == name]
        if any(note.state is State.LOADING for note in notes):
            return ModelNotReadyError(f"model {name} is being loaded; ask again later.")
        if not self._serving:
            return ModelNotReadyError("no model is served yet; ask again later.")
        if not name:
            return ModelNotFoundError(f"no model is named, and there are several: {self._list()}.")
        return ModelNotFoundError(f"there is no model {quoted(name)}; there are: {self._list()}.")

    def _list(self) -> str:
        models = [self._serving[name].model for name in sorted(self._serving)]
        return ", ".join(f"{model.name!r} (version {model.version})" for model in models)

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()


def _why(version: int, serving: int | None) -> str:
    """What an unloaded version was, beside the one that serves."""
    if serving is None:
        return ""
    now = "its files have changed" if serving == version else f"version {serving} serves"
    return f"; it was replaced: {now}"


def _give_memory_back() -> None:
    """Return what was freed to the system; glibc would keep it for later."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
