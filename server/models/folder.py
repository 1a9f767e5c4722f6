"""A folder of models on disk: which versions there are, and whether their files have changed.

models/NAME/VERSION, or models/NAME for a bundle without a version; one model's folder, or one
bundle, is taken as well. Names that come over the wire are only ever looked up in what was found
here: no path is made from one.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from foretell.data.bundles.bundle import MANIFEST_FILE, version_of
from foretell.data.errors import BundleError

Fingerprint = tuple[tuple[str, int, int, int], ...]
"""Name, size, time of change and number of each file: changes whenever one of them does."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@dataclass(frozen=True, slots=True)
class Found:
    """What a look through a folder of models found.

    Attributes:
        versions: Bundle folders by name and version, good or not, and whatever their names are.
        unnumbered: Folders that stand where versions do, but have no version's name: v3,
            2026-11-30, 007. Of a model without any version only those that hold a bundle; the
            others are somebody's notes.
    """

    versions: dict[str, dict[int, Path]]
    unnumbered: list[Path]


def look_through(path: Path) -> Found:
    """Look through a folder of models, a model's folder or a bundle; each is listed once.

    Raises:
        BundleError: There is no such folder.
        OSError: A folder can't be read.
    """
    path = Path(os.path.abspath(path))  # ".." has no name of its own
    if not path.is_dir():
        state = "is a file" if path.exists() else "is missing"
        raise BundleError(f"{path} {state}; give a folder of models, models/NAME/VERSION.")
    if _is_bundle(path):
        version = version_of(path.name)
        if version is not None:
            return Found({path.parent.name: {version: path}}, [])
        return Found({path.name: {1: path}}, [])
    entries = sorted(path.iterdir())
    if versions := _versions(entries):
        return Found({path.name: versions}, _unnumbered(entries, versions))
    found = Found({}, [])
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        if _is_bundle(entry):  # without a version it is its first, and what is in it is its own
            found.versions[entry.name] = {1: entry}
            continue
        inside = sorted(entry.iterdir())
        if versions := _versions(inside):
            found.versions[entry.name] = versions
        found.unnumbered.extend(_unnumbered(inside, versions))
    return found


def _versions(entries: Iterable[Path]) -> dict[int, Path]:
    """Those of a folder's entries that are versions, oldest first."""
    found = ((version_of(entry.name), entry) for entry in entries)
    return dict(sorted((version, entry) for version, entry in found if version is not None))


def _unnumbered(entries: Iterable[Path], versions: Mapping[int, Path]) -> list[Path]:
    """Those that stand beside a model's versions, or should be one."""
    numbered = set(versions.values())
    return [
        entry
        for entry in entries
        if entry not in numbered
        and not entry.name.startswith(".")
        and entry.is_dir()
        and (versions or _is_bundle(entry))
    ]


def _is_bundle(folder: Path) -> bool:
    return (folder / MANIFEST_FILE).is_file()


def is_given_alone(path: Path, found: Mapping[str, Mapping[int, Path]]) -> bool:
    """Whether what `look_through` found is the given folder itself: one model, or one bundle."""
    path = Path(os.path.abspath(path))
    return any(
        bundle == path or (name == path.name and bundle.parent == path)
        for name, versions in found.items()
        for bundle in versions.values()
    )


def bad_names(names: Iterable[str]) -> list[str]:
    """Say of each name that clients can't write what is to be done."""
    return [
        f"model name {name!r} can't be served; rename the folder: at most 128 of A-Z a-z 0-9 _ . -"
        for name in sorted(names)
        if not _NAME.fullmatch(name)
    ]


def take_fingerprint(bundle: Path) -> Fingerprint:
    """Note what tells one state of a bundle's files from another, without reading them.

    A folder that can't be read has the fingerprint of an empty one.
    """
    found = [(os.path.realpath(bundle), 0, 0, 0)]  # a link may come to point elsewhere
    for folder, _, names in os.walk(bundle):
        for name in names:
            file = Path(folder) / name
            try:
                state = file.stat()
            except OSError:
                continue
            found.append((str(file), state.st_size, state.st_mtime_ns, state.st_ino))
    return tuple(sorted(found))
