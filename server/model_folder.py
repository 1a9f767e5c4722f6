"""A folder of models on disk: which versions there are, and whether their files have changed.

models/NAME/VERSION, or models/NAME for a bundle without a version; one model's folder, or one
bundle, is taken as well. Names that come over the wire are only ever looked up in what was found
here: no path is made from one.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from foretell.data.bundle import MANIFEST_FILE, bundle_versions
from foretell.data.errors import BundleError

Fingerprint = tuple[tuple[str, int, int, int], ...]
"""Name, size, time of change and number of each file: changes whenever one of them does."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def find_versions(path: Path) -> dict[str, dict[int, Path]]:
    """Find bundle folders by name and version, good or not, and whatever their names are.

    Raises:
        BundleError: There is no such folder.
        OSError: The folder can't be read.
    """
    path = Path(os.path.abspath(path))  # ".." has no name of its own
    if not path.is_dir():
        state = "is a file" if path.exists() else "is missing"
        raise BundleError(f"{path} {state}; give a folder of models, models/NAME/VERSION.")
    if (path / MANIFEST_FILE).is_file():
        if path in bundle_versions(path.parent).values():
            return {path.parent.name: {int(path.name): path}}
        return {path.name: {1: path}}
    if versions := bundle_versions(path):
        return {path.name: versions}
    folders = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    found = {entry.name: bundle_versions(entry) for entry in folders}
    for entry in folders:  # a bundle without a version is its first
        if (entry / MANIFEST_FILE).is_file():
            found[entry.name] = {1: entry}
    return {name: versions for name, versions in found.items() if versions}


def is_given_alone(path: Path, found: Mapping[str, Mapping[int, Path]]) -> bool:
    """Whether what `find_versions` found is the given folder itself: one model, or one bundle."""
    path = Path(os.path.abspath(path))
    return any(
        bundle == path or (name == path.name and bundle.parent == path)
        for name, versions in found.items()
        for bundle in versions.values()
    )


def find_unnumbered(path: Path) -> list[Path]:
    """Find folders that stand where versions do, but have no version's name: v3, 2026-11-30, 007.

    Of a model without any version only those that hold a bundle; the others are somebody's notes.

    Raises:
        OSError: A folder can't be read.
    """
    path = Path(os.path.abspath(path))
    if (path / MANIFEST_FILE).is_file():
        return []
    found = []
    for model in [path] if bundle_versions(path) else _folders(path):
        if (model / MANIFEST_FILE).is_file():
            continue  # a bundle; what is in it is its own
        versions = bundle_versions(model)
        found += [
            folder
            for folder in _folders(model)
            if folder not in versions.values() and (versions or (folder / MANIFEST_FILE).is_file())
        ]
    return found


def _folders(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if not one.name.startswith(".") and one.is_dir())


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
