"""Loads versions of models from their folder, beside what serves, and lets the good ones serve.

A version that can't be loaded never takes over: it is noted with its reason, and looked at again
when its files change. While they still change it is being copied, and no fault of anybody. Where
the device is at fault, which may have no memory left just now, it is tried again by and by.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from foretell.data.errors import BundleError, ForetellError, ModelNotFoundError
from foretell.data.quoting import quoted
from foretell.server.errors import ModelControlError, ModelLoadError, RequestError
from foretell.server.models.folder import (
    Fingerprint,
    Found,
    bad_names,
    is_given_alone,
    look_through,
    take_fingerprint,
)
from foretell.server.models.served import Model, ServedForecaster, ServedTranslator
from foretell.server.models.served_models import ServedModels, State, VersionStatus

Load = Callable[[Path], ServedForecaster | ServedTranslator]
"""Loads one bundle, and returns when it is checked and warm."""

_Version = tuple[str, int]

_log = logging.getLogger(__name__)
_FIRST_WAIT_S, _MOST_WAIT_S = 30.0, 600.0
_MOST_REASON = 2000  # characters; a list of models must stay a message


@dataclass(frozen=True, slots=True)
class _Postponed:
    """A version that is to be tried again.

    Attributes:
        fingerprint: Of its files when it was tried.
        until: When, on the loader's clock.
        wait_s: How long that was.
    """

    fingerprint: Fingerprint
    until: float
    wait_s: float

    def holds(self, fingerprint: Fingerprint, now: float) -> bool:
        """Whether it is too early, and nothing has changed."""
        return self.fingerprint == fingerprint and now < self.until


class ModelLoader:
    """Brings the newest good version of each model into service; one thread uses it at a time.

    Args:
        path: A folder of models, a model's folder, or a bundle.
        load: Loads one bundle.
        models: Where versions serve.
        pins: Versions by name, in place of the newest good one.
        clock: Seconds, for waiting.

    Attributes:
        passed_over: What the folder holds that has no name to be served under, a sentence each.
        pinned_away: Versions of pinned models that are there and may not serve, by name.
    """

    def __init__(
        self,
        path: Path,
        load: Load,
        models: ServedModels,
        pins: Mapping[str, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._load = load
        self._models = models
        self._pins = pins
        self._loaded: dict[_Version, Fingerprint] = {}
        self._failed: dict[_Version, Fingerprint] = {}
        self._unsettled: dict[_Version, Fingerprint] = {}
        self._postponed: dict[_Version, _Postponed] = {}
        self._missing: set[str] = set()
        self._complaint = ""
        self._unnumbered: set[Path] = set()
        self._clock = clock
        self.passed_over: list[str] = []
        self.pinned_away: Mapping[str, tuple[int, ...]] = {}

    def load_all(self) -> None:
        """Load the newest good version of each model.

        Raises:
            BundleError: There is no such folder, or it is a model whose name can't be served.
            ModelNotFoundError: A version that is pinned is not there.
            DeviceError: The device can't be had.
        """
        seen = look_through(self._path)
        problems = bad_names(seen.versions)
        if problems and is_given_alone(self._path, seen.versions):
            raise BundleError(problems)
        found = self._pass_over(seen)
        self._check_pins(found)
        for name, versions in sorted(found.items()):
            for version in self._candidates(name, versions):
                if self._try(name, version, versions[version], is_settled=True, is_start=True):
                    break

    def look(self) -> None:
        """Follow what has changed in the folder since the last look.

        A folder that can't be read, or that is gone, changes nothing: what serves goes on.
        """
        try:
            seen = look_through(self._path)
        except (BundleError, OSError) as error:
            self._complain(f"the models can't be looked through: {error}")
            return
        found = self._pass_over(seen)
        for name, version in self._known() - {(n, v) for n, of in found.items() for v in of}:
            self._forget_trials((name, version))
            self._models.forget(name, version)
        missing = self._models.models.keys() - found.keys()
        for name in missing & self._missing:  # not there twice: it was not just being exchanged
            _log.info("model=%s is gone from the folder", name)
            self._models.withdraw(name)
        self._missing = set(missing)
        for name, versions in sorted(found.items()):
            self._follow(name, versions)

    def load_named(self, name: str, version: int) -> VersionStatus:
        """Load a model now, and let it serve.

        Args:
            name: Of the model.
            version: Of the model; 0 for the pinned or else the newest one.

        Returns:
            The state of the version that serves; nothing happens where it does already.

        Raises:
            ModelNotFoundError: It isn't there; what is there is listed.
            ModelLoadError: It can't be loaded; what served goes on serving.
            ModelControlError: Another version is pinned.
            RequestError: It is there, but can't be served under this name.
        """
        found = look_through(self._path).versions
        if name in found and (problems := bad_names([name])):
            raise RequestError(problems)
        found = _good(found)
        versions = found.get(name, {})
        pinned = self._pins.get(name, 0)
        wanted = version or pinned or max(versions, default=0)
        if wanted not in versions:
            raise ModelNotFoundError(_absent(name, version or pinned, found))
        if pinned and wanted != pinned:
            raise ModelControlError(
                f"version {pinned} of {name} is pinned (--pin), so version {wanted} isn't loaded."
            )
        if not self._serves(name, wanted, take_fingerprint(versions[wanted])):
            self._failed.pop((name, wanted), None)
            if not self._try(name, wanted, versions[wanted], is_settled=True):
                raise ModelLoadError(self._why_not(name, wanted))
        return VersionStatus(name, wanted, State.READY)

    def _follow(self, name: str, versions: Mapping[int, Path]) -> None:
        serving = self._models.models.get(name)
        for version in self._candidates(name, versions):
            if serving is not None and version < serving.version and serving.version in versions:
                return  # an older one is a way back only where the newer one was taken away
            fingerprint = take_fingerprint(versions[version])
            if self._serves(name, version, fingerprint):
                return
            if self._failed.get((name, version)) == fingerprint:
                continue
            postponed = self._postponed.get((name, version))
            if postponed is not None and postponed.holds(fingerprint, self._clock()):
                continue
            is_settled = self._unsettled.get((name, version)) == fingerprint
            if self._try(name, version, versions[version], is_settled=is_settled):
                return

    def _candidates(self, name: str, versions: Mapping[int, Path]) -> list[int]:
        if name in self._pins:
            return [self._pins[name]] if self._pins[name] in versions else []
        return sorted(versions, reverse=True)

    def _serves(self, name: str, version: int, fingerprint: Fingerprint) -> bool:
        serving = self._models.models.get(name)
        return (
            serving is not None
            and serving.version == version
            and self._loaded.get((name, version)) == fingerprint
        )

    def _try(
        self, name: str, version: int, bundle: Path, *, is_settled: bool, is_start: bool = False
    ) -> bool:
        """Load one version and let it serve; whether that went well.

        Raises:
            ForetellError: At the start, where it isn't the bundle that is at fault.
        """
        key = (name, version)
        fingerprint = take_fingerprint(bundle)
        before = self._models.models.get(name)
        self._models.note(VersionStatus(name, version, State.LOADING))
        start = time.monotonic()
        try:
            served = self._load(bundle)
        except BundleError as error:
            reason = _without_paths(error, bundle, f"{name}/{version}")
            if not is_settled:
                self._unsettled[key] = fingerprint
                self._models.note(
                    VersionStatus(name, version, State.LOADING, f"perhaps being copied: {reason}")
                )
                return False
            _log.error("%s: %s", self._not_served(key), _printable(str(error)))
        except ForetellError as error:
            if is_start:
                self._models.forget(name, version)
                raise
            reason = _without_paths(error, bundle, f"{name}/{version}")
            self._postpone(key, fingerprint, reason)
            self._models.note(VersionStatus(name, version, State.FAILED, reason))
            return False
        except Exception:  # a fault of ours in one bundle must not stop the others
            reason = "a fault of the server's own; its log tells more."
            _log.exception("%s", self._not_served(key))
        else:
            self._loaded[key] = fingerprint
            self._forget_trials(key)
            self._models.put(Model(name, version, served), time.monotonic() - start)
            if not is_start:  # then all of them are told together
                was = f" (was {before.version})" if before is not None else ""
                _log.info("model=%s version=%d serves now%s", name, version, was)
            return True
        self._forget_trials(key)
        self._failed[key] = fingerprint
        self._models.note(VersionStatus(name, version, State.FAILED, reason))
        return False

    def _postpone(self, key: _Version, fingerprint: Fingerprint, reason: str) -> None:
        """Try a version again later, and later and later: it may cost minutes each time."""
        before = self._postponed.get(key)
        wait_s = _FIRST_WAIT_S
        if before is not None and before.fingerprint == fingerprint:
            wait_s = min(2 * before.wait_s, _MOST_WAIT_S)
        self._postponed[key] = _Postponed(fingerprint, self._clock() + wait_s, wait_s)
        _log.error("%s, and tried again in %.0f s: %s", self._not_served(key), wait_s, reason)

    def _not_served(self, key: _Version) -> str:
        """How a line of the log begins that tells why a version isn't loaded."""
        name, version = key
        serving = self._models.models.get(name)
        is_kept = serving is not None and serving.version == version
        what = "loaded anew, the copy in memory serves on" if is_kept else "served"
        return f"model={name} version={version} is not {what}"

    def _forget_trials(self, key: _Version) -> None:
        for trials in (self._failed, self._unsettled, self._postponed):
            trials.pop(key, None)

    def _check_pins(self, found: Mapping[str, Mapping[int, Path]]) -> None:
        problems = [
            _absent(name, version, found)
            for name, version in sorted(self._pins.items())
            if version not in found.get(name, {})
        ]
        if problems:
            raise ModelNotFoundError(problems)

    def _known(self) -> set[_Version]:
        return {(status.name, status.version) for status in self._models.statuses()}

    def _why_not(self, name: str, version: int) -> str:
        told = {(one.name, one.version): one.reason for one in self._models.statuses()}
        serving = self._models.models.get(name)
        rest = "" if serving is None else f" Version {serving.version} goes on serving."
        return f"version {version} of {name} can't be loaded: {told[name, version]}{rest}"

    def _pass_over(self, seen: Found) -> dict[str, dict[int, Path]]:
        """Leave out models that have no name to be served under; tell of them, and of versions."""
        bad = bad_names(seen.versions)
        self._complain(" ".join(bad))
        told = {folder: _not_numbered(folder) for folder in seen.unnumbered}
        for folder in told.keys() - self._unnumbered:
            _log.warning("%s", told[folder])
        self._unnumbered = set(told)
        self.passed_over = [*bad, *told.values()]
        self.pinned_away = {
            name: tuple(version for version in seen.versions.get(name, {}) if version != pinned)
            for name, pinned in self._pins.items()
        }
        return _good(seen.versions)

    def _complain(self, complaint: str) -> None:
        """Log what is wrong with the folder, once."""
        if complaint and complaint != self._complaint:
            _log.error("%s", _printable(complaint))
        self._complaint = complaint


def _good(found: Mapping[str, dict[int, Path]]) -> dict[str, dict[int, Path]]:
    """Those that have names which can be served."""
    return {name: versions for name, versions in found.items() if not bad_names([name])}


def _not_numbered(folder: Path) -> str:
    name = repr(f"{folder.parent.name}/{folder.name}")
    return _printable(
        f"{name} is not a version number, passed over; rename the folder: 1, 2, 3, ... without "
        "leading zeros."
    )


def _absent(name: str, version: int, found: Mapping[str, Mapping[int, Path]]) -> str:
    what = f"version {version} of {quoted(name)}" if version else f"model {quoted(name)}"
    there = [
        f"{known!r} (version{'s' * (len(versions) > 1)} {', '.join(map(str, versions))})"
        for known, versions in sorted(found.items())
    ]
    return f"{what} is not in the folder of models; there are: {', '.join(there) or 'none'}."


def _without_paths(error: ForetellError, bundle: Path, name: str) -> str:
    """The reason for clients, who have no business with where the server keeps its models."""
    reason = " ".join(error.problems)
    for place in dict.fromkeys((str(bundle), os.path.realpath(bundle))):
        reason = reason.replace(place, name)
    return _printable(reason)


def _printable(reason: str) -> str:
    """Cut a long reason, and spell out what no message and no log can hold."""
    if len(reason) > _MOST_REASON:
        reason = f"{reason[:_MOST_REASON]} ..."
    return reason.encode(errors="backslashreplace").decode()
