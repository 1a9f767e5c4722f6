"""The models that a server has: found on disk, loaded, looked up by name.

A repository is a folder of models, models/NAME/VERSION, or models/NAME for a bundle without one;
one model's folder, or one bundle, can be served as well. The newest version that loads is served;
one that doesn't load is reported and never served.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foretell.data.bundle import MANIFEST_FILE, bundle_versions
from foretell.data.errors import BundleError, ForetellError, ModelNotFoundError
from foretell.server.served import Model, ServedForecaster, ServedTranslator

Load = Callable[[Path], ServedForecaster | ServedTranslator]

_log = logging.getLogger(__name__)
_MOST_REASON = 2000  # characters; a list of models must stay a message
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@dataclass(frozen=True, slots=True)
class Failure:
    """A version that could not be loaded, and why."""

    name: str
    version: int
    reason: str


class Repository:
    """The served models by name.

    Attributes:
        models: One version a name, in the order of names.
        failures: What could not be loaded.
    """

    def __init__(self, models: Sequence[Model], failures: Sequence[Failure] = ()) -> None:
        self.models: Mapping[str, Model] = {
            model.name: model for model in sorted(models, key=lambda model: model.name)
        }
        self.failures = tuple(failures)

    @classmethod
    def load(cls, path: Path, load: Load) -> "Repository":
        """Load the newest good version of each model under `path`.

        Args:
            path: A folder of models, a model's folder, or a bundle.
            load: Loads one bundle.

        Raises:
            BundleError: There is nothing to serve; all that was tried is named.
        """
        models, failures = [], []
        for name, versions in sorted(_find(path).items()):
            for version in sorted(versions, reverse=True):
                try:
                    models.append(Model(name, version, load(versions[version])))
                    break
                except BundleError as error:
                    reason = _without_paths(error, versions[version], f"{name}/{version}")
                    told = _printable(str(error))
                    _log.error("model=%s version=%d is not served: %s", name, version, told)
                except ForetellError:
                    raise
                except Exception:  # a fault of ours in one bundle must not stop the others
                    reason = "a fault of the server's own; its log tells more."
                    _log.exception("model=%s version=%d is not served", name, version)
                failures.append(Failure(name, version, reason))
        if not models:
            tried = [f"{bad.name} version {bad.version}: {bad.reason}" for bad in failures]
            if not tried:
                raise BundleError(f"{path} holds no models; expected models/NAME/VERSION in it.")
            raise BundleError([f"no model under {path} can be served.", *tried])
        return cls(models, failures)

    def get(self, name: str, version: int) -> Model:
        """Look up a served model.

        Args:
            name: Its name; empty where exactly one is served.
            version: Its version; 0 for the one that is served.

        Raises:
            ModelNotFoundError: There is none; those there are are listed.
        """
        served = ", ".join(
            f"{model.name} (version {model.version})" for model in self.models.values()
        )
        if not name and len(self.models) == 1:
            model = next(iter(self.models.values()))
        elif not name:
            raise ModelNotFoundError(f"no model is named, and there are several: {served}.")
        elif name in self.models:
            model = self.models[name]
        else:
            raise ModelNotFoundError(f"there is no model {name[:128]!r}; there are: {served}.")
        if version not in (0, model.version):
            raise ModelNotFoundError(
                f"version {version} of {model.name} is not served; there are: {served}."
            )
        return model

    @contextmanager
    def lease(self, name: str, version: int) -> Iterator[Model]:
        """Look up a served model as `get` does, and keep that version loaded until left.

        Raises:
            ModelNotFoundError: There is none; those there are are listed.
        """
        yield self.get(name, version)


def _find(path: Path) -> dict[str, dict[int, Path]]:
    """Bundle folders by name and version, good or not."""
    path = Path(os.path.abspath(path))  # ".." has no name of its own
    if not path.is_dir():
        state = "is a file" if path.exists() else "is missing"
        raise BundleError(f"{path} {state}; give a folder of models, models/NAME/VERSION.")
    if (path / MANIFEST_FILE).is_file():
        if path in bundle_versions(path.parent).values():
            return {_checked(path.parent.name): {int(path.name): path}}
        return {_checked(path.name): {1: path}}
    if versions := bundle_versions(path):
        return {_checked(path.name): versions}
    folders = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    found = {entry.name: bundle_versions(entry) for entry in folders}
    for entry in folders:  # a bundle without a version is its first
        if (entry / MANIFEST_FILE).is_file():
            found[entry.name] = {1: entry}
    return {_checked(name): versions for name, versions in found.items() if versions}


def _without_paths(error: BundleError, bundle: Path, name: str) -> str:
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


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BundleError(
            f"model name {name!r} can't be served; rename the folder: at most 128 of "
            "A-Z a-z 0-9 _ . -"
        )
    return name
