"""The models that a server has: brought in from a folder, at the start or while it serves.

A repository is a folder of models, models/NAME/VERSION; the newest version that loads is served,
and one that doesn't load is reported and never served. What happens after the start is the mode's
to say: nothing, or what the folder shows, or what callers ask for.
"""

import asyncio
import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar, cast, get_args

from foretell.data.errors import BundleError, ForetellError, ModelNotFoundError, OptionError
from foretell.data.quoting import quoted
from foretell.server.errors import ModelControlError
from foretell.server.models.loader import Load, ModelLoader
from foretell.server.models.served import Model
from foretell.server.models.served_models import KEEP_S, Failure, ServedModels, State, VersionStatus
from foretell.server.telemetry.call_notes import note_model
from foretell.server.telemetry.observing import Observer

__all__ = ["Failure", "Load", "ModelControl", "Repository", "State", "VersionStatus"]

Mode = Literal["none", "poll", "explicit"]
Done = TypeVar("Done")

_VERSION = re.compile("[0-9]{1,18}")
_UNLOADED = "unloaded by a caller; it serves again when one loads it."
_SWEEP_S = 0.5  # between looks at whether versions that leave are free by now
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelControl:
    """What changes the models of a server that runs.

    Attributes:
        mode: "none": nothing does. "poll": the folder is looked at again and again. "explicit":
            callers load and unload models.
        poll_s: Seconds between two looks.
        pins: The only version that may serve, by name, where it isn't the newest good one.
    """

    mode: Mode = "none"
    poll_s: float = 10.0
    pins: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        problems = []
        if self.mode not in get_args(Mode):
            problems.append(
                f"model_control is {self.mode!r}; expected one of {', '.join(get_args(Mode))}."
            )
        if not 0.05 <= self.poll_s <= 86_400:
            problems.append(f"poll_s is {self.poll_s}; it must be 0.05 to 86,400 seconds.")
        problems += [
            f"the pinned version of {name} is {version}; it must be 0 or more."
            for name, version in self.pins.items()
            if version < 0
        ]
        if problems:
            raise OptionError(problems)

    @classmethod
    def parse(cls, mode: str, poll_s: float, pins: Sequence[str]) -> "ModelControl":
        """Read what stands on a command line.

        Args:
            mode: As above.
            poll_s: As above.
            pins: NAME=VERSION each.

        Raises:
            OptionError: Something is out of its range, or no NAME=VERSION.
        """
        read: dict[str, int] = {}
        problems = []
        for pin in pins:
            name, _, version = pin.rpartition("=")
            if not name or not _VERSION.fullmatch(version):
                problems.append(f"pin is {pin!r}; expected NAME=VERSION, such as demand=3.")
            elif read.setdefault(name, int(version)) != int(version):
                problems.append(f"{name} is pinned to {read[name]} and to {version}; give one.")
        if problems:
            raise OptionError(problems)
        return cls(mode=cast(Mode, mode), poll_s=poll_s, pins=read)


class Repository(ServedModels):
    """The served models, and what brings them in.

    Attributes:
        models: One version a name, in the order of names.
        failures: What could not be loaded.
    """

    def __init__(
        self,
        models: Sequence[Model] = (),
        failures: Sequence[Failure] = (),
        *,
        observer: Observer | None = None,
        control: ModelControl | None = None,
        keep_s: float = KEEP_S,
    ) -> None:
        super().__init__(models, failures, observer=observer, keep_s=keep_s)
        self.control = control or ModelControl()
        self._loader: ModelLoader | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._unloaded: dict[str, int] = {}  # by callers

    @classmethod
    def load(
        cls,
        path: Path,
        load: Load,
        *,
        observer: Observer | None = None,
        control: ModelControl | None = None,
        keep_s: float = KEEP_S,
    ) -> "Repository":
        """Load the newest good version of each model under `path`.

        Args:
            path: A folder of models, a model's folder, or a bundle.
            load: Loads one bundle.
            observer: Hears of versions that come and go.
            control: What changes the models later on; by default nothing.
            keep_s: Seconds without a request after which a replaced version is let go.

        Raises:
            BundleError: There is nothing to serve, and nothing may come later; all that was tried
                is named.
            ModelNotFoundError: A version that is pinned is not there.
            DeviceError: The device can't be had.
        """
        repository = cls(observer=observer, control=control, keep_s=keep_s)
        repository._loader = ModelLoader(path, load, repository, repository.control.pins)
        repository._loader.load_all()
        if not repository.models:
            passed_over = repository._loader.passed_over
            error = _nothing_served(path, repository.failures, passed_over)
            if repository.control.mode == "none":
                raise error
            _log.warning("not ready yet: %s", error)
        return repository

    def statuses(self) -> list[VersionStatus]:
        """The state of every version that is there, by name and version, and which is pinned."""
        pins = self.control.pins.items()
        return [
            replace(one, reason=f"no other version serves: --pin {one.name}={one.version}.")
            if one.state is State.READY and not one.reason and (one.name, one.version) in pins
            else one
            for one in super().statuses()
        ]

    def index(self) -> list[VersionStatus]:
        """What `statuses` tells, and the versions that are there and aren't to be loaded.

        These are what a caller has unloaded, and what a pin keeps from serving. Others that are
        older than the one that serves are not told of.
        """
        found = {(one.name, one.version): one for one in self.statuses()}
        pins = self.control.pins
        reasons = {
            (name, version): f"another version is pinned: --pin {name}={pins[name]}."
            for name, versions in (self._loader.pinned_away if self._loader else {}).items()
            for version in versions
        }
        reasons |= dict.fromkeys(self._unloaded.copy().items(), _UNLOADED)
        for (name, version), reason in reasons.items():
            away = VersionStatus(name, version, State.UNAVAILABLE, reason)
            found.setdefault((name, version), away)
        return [found[key] for key in sorted(found)]

    def start(self) -> None:
        """Begin to follow the folder, or to do what callers ask for, in a thread of its own."""
        if self.control.mode != "none" and self._loader is not None:
            self._thread = threading.Thread(target=self._run, name="models", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """End that; False where a load still goes on after the timeout."""
        if self._thread is None:
            return True
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    async def load_model(self, name: str, version: int = 0) -> VersionStatus:
        """Load a model because a caller asks for it; done when it serves.

        Args:
            name: Of the model.
            version: Of the model; 0 for the pinned or else the newest one.

        Raises:
            ModelControlError: Callers may not, in this mode; or another version is pinned.
            ModelNotFoundError: There is no such model; what is there is listed.
            ModelLoadError: It can't be loaded; what served goes on serving.
        """

        def load(loader: ModelLoader) -> VersionStatus:
            status = loader.load_named(name, version)
            self._unloaded.pop(name, None)
            return status

        with self._noting(name, version):
            status = await self._in_thread(partial(load, self._controlled()))
        note_model(name, status.version)
        return status

    async def unload_model(self, name: str) -> VersionStatus:
        """Let a model serve no more because a caller asks for it; the calls it has are finished.

        Raises:
            ModelControlError: Callers may not, in this mode.
            ModelNotFoundError: It isn't served.
        """

        def unload() -> VersionStatus:
            status = self.withdraw(name)
            if status is None:
                raise ModelNotFoundError(f"model {quoted(name)} is not served.")
            self._unloaded[name] = status.version
            return status

        with self._noting(name, 0):
            self._controlled()
            status = await self._in_thread(unload)
        note_model(name, status.version)
        return status

    @contextmanager
    def _noting(self, name: str, version: int) -> Iterator[None]:
        """Note, where it fails, what a caller wants changed, if it is a model that there is."""
        try:
            yield
        except ForetellError:
            if any(status.name == name for status in self.statuses()):
                note_model(name, version)
            raise

    def _controlled(self) -> ModelLoader:
        if self.control.mode != "explicit" or self._loader is None:
            raise ModelControlError(
                "explicit model load / unload is not allowed; start the server with "
                "--model-control explicit."
            )
        return self._loader

    async def _in_thread(self, work: Callable[[], Done]) -> Done:
        """Have work done after what was asked for before; it goes on if nobody waits for it."""
        done: Future[Done] = Future()

        def job() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(work())
                except BaseException as error:  # told to whoever waits
                    done.set_exception(error)

        self._jobs.put(job)
        return await asyncio.wrap_future(done)

    def _run(self) -> None:
        is_polling = self.control.mode == "poll"
        look_at = time.monotonic() + self.control.poll_s
        is_leaving = False
        while True:
            wait_s = look_at - time.monotonic() if is_polling else None
            if is_leaving:
                wait_s = _SWEEP_S if wait_s is None else min(wait_s, _SWEEP_S)
            try:
                job = self._jobs.get(timeout=None if wait_s is None else max(wait_s, 0.001))
            except queue.Empty:
                pass
            else:
                if job is None:
                    return
                job()
                del job  # it holds what it brought
            if is_polling and time.monotonic() >= look_at:
                self._look()
                look_at = time.monotonic() + self.control.poll_s
            is_leaving = self.sweep()

    def _look(self) -> None:
        assert self._loader is not None
        try:
            self._loader.look()
        except ForetellError as error:
            _log.error("the models are not all followed: %s", error)
        except Exception:  # whatever it is, the next look must come
            _log.exception("the models are not all followed")


def _nothing_served(
    path: Path, failures: Sequence[Failure], passed_over: Sequence[str]
) -> BundleError:
    tried = [f"{bad.name} version {bad.version}: {bad.reason}" for bad in failures]
    tried += passed_over
    if not tried:
        return BundleError(f"{path} holds no models; expected models/NAME/VERSION in it.")
    return BundleError([f"no model under {path} can be served.", *tried])
