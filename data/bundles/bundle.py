"""The bundle: a folder that holds a trained model; nothing else passes from training to serving.

`manifest.json` lists every other file with its size and SHA-256, so a byte that is missing or
flipped anywhere is found when the bundle is read. A bundle is written beside its target and
renamed: what stands at the target is whole.
"""

import dataclasses
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foretell.data.bundles.manifest import (
    ANY_FREQUENCY,
    MANIFEST_FILE,
    FileEntry,
    ForecasterSpec,
    GraphSpec,
    Manifest,
    TensorSpec,
    TranslatorSpec,
)
from foretell.data.errors import BundleError
from foretell.data.plain_files import open_plain, read_plain

# The manifest is part of the bundle's contract, so it can be had from here as well.
__all__ = [
    "ANY_FREQUENCY",
    "MANIFEST_FILE",
    "Bundle",
    "FileEntry",
    "ForecasterSpec",
    "GraphSpec",
    "Manifest",
    "TensorSpec",
    "TranslatorSpec",
    "bundle_versions",
    "list_files",
    "read_bundle",
    "read_manifest",
    "resolve_bundle",
    "version_of",
    "write_bundle",
]

_LINK = "{} is a symbolic link; a bundle holds its files itself."
_MOST_MANIFEST_BYTES = 4 * 1024 * 1024  # a thousand times what one has
_VERSION = re.compile(r"0|[1-9][0-9]{0,17}")  # no leading zeros: 1 and 01 would be two folders


@dataclass(frozen=True, slots=True)
class Bundle:
    """A whole, verified bundle on disk.

    Attributes:
        path: The folder, absolute, so that it stays right when the working directory changes.
        manifest: What it holds.
    """

    path: Path
    manifest: Manifest


def write_bundle(
    target: str | os.PathLike[str], fill: Callable[[Path], Manifest], *, overwrite: bool = False
) -> Bundle:
    """Write a bundle so that nothing half-written ever stands at the target.

    Args:
        target: Where the bundle shall stand; folders above it are made.
        fill: Writes the files into the empty folder it is given, and returns the manifest
            without `files`.
        overwrite: Replace a bundle that stands there already.

    Returns:
        The bundle as read back from disk.

    Raises:
        BundleError: Something stands at the target, or the place can't be written. What `fill`
            raises passes through; in both cases the target is as before.
    """
    target = Path(target).absolute()
    _check_target(target, overwrite)
    with _partial_folder(target) as partial:
        manifest = fill(partial)
        text = dataclasses.replace(manifest, files=list_files(partial)).to_json()
        (partial / MANIFEST_FILE).write_bytes(text.encode())
        written = read_bundle(partial)
        _move(partial, target)
    return Bundle(target, written.manifest)


def list_files(folder: Path) -> dict[str, FileEntry]:
    """List the files in a folder as a manifest does."""
    names = sorted(
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()
    )
    return {name: _entry(folder / name) for name in names}


def read_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Read and verify a bundle: its format, and the size and hash of every file it lists.

    Files that the manifest doesn't list are never read.

    Raises:
        BundleError: It is missing, incomplete or damaged; every such file is named.
    """
    folder = _folder(path)
    manifest = read_manifest(folder)
    found = [_problem(folder, name, entry) for name, entry in manifest.files.items()]
    problems = [f"bundle {folder}: {problem}" for problem in found if problem is not None]
    if problems:
        raise BundleError([*problems, "Copy the bundle again, whole, or export the model again."])
    return Bundle(folder, manifest)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read what a bundle says of itself; the files it lists may be missing or damaged.

    Raises:
        BundleError: The manifest is missing, incomplete or damaged.
    """
    folder = _folder(path)
    try:
        return Manifest.from_json(_manifest_text(folder / MANIFEST_FILE))
    except FileNotFoundError as error:
        raise BundleError(
            f"bundle {folder}: {MANIFEST_FILE} is missing; this is no bundle, or half of one."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(
            f"bundle {folder}: {MANIFEST_FILE} can't be read "
            f"({getattr(error, 'strerror', None) or error})."
        ) from error
    except BundleError as error:
        raise BundleError([f"bundle {folder}: {problem}" for problem in error.problems]) from error


def resolve_bundle(path: str | os.PathLike[str]) -> Path:
    """Find the bundle a user means: the folder itself, or the newest version in a model's folder.

    Raises:
        BundleError: There is no such folder, or it is no bundle and has no versions.
    """
    folder = _folder(path)
    try:
        if (folder / MANIFEST_FILE).is_file():
            return folder
        versions = bundle_versions(folder)
        if versions:
            return versions[max(versions)]
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        models = [name for name in names if bundle_versions(folder / name)]
    except OSError as error:
        raise BundleError(f"model {folder} can't be read ({error.strerror}).") from error
    if models:
        raise BundleError(f"{folder} holds the models {models}; give the folder of one of them.")
    holds = f"the folders {names[:10]}" if names else "no folders"
    raise BundleError(
        f"{folder} is no bundle (no {MANIFEST_FILE} in it) and no model's folder (no versions "
        f"1, 2, ... in it); it holds {holds}."
    )


def bundle_versions(model: str | os.PathLike[str]) -> dict[int, Path]:
    """List the version folders of a model, good or not, oldest first; others are no versions."""
    folder = Path(model)
    if not folder.is_dir():
        return {}
    found = ((version_of(entry.name), entry) for entry in folder.iterdir())
    return dict(sorted((version, entry) for version, entry in found if version is not None))


def version_of(name: str) -> int | None:
    """Read the version that a folder's name is; None where it is none: v3, 007, 2026-11-30."""
    return int(name) if _VERSION.fullmatch(name) else None


def _folder(path: str | os.PathLike[str]) -> Path:
    folder = Path(path).absolute()
    try:
        if folder.is_dir():
            return folder
        state = "is a file" if folder.exists() else "is missing"
    except OSError as error:
        state = f"can't be read ({error.strerror})"
    raise BundleError(
        f"model {folder} {state}; give the folder of a bundle, or of a model with versions."
    )


def _manifest_text(file: Path) -> str:
    if file.is_symlink():
        raise BundleError(_LINK.format(file.name))
    return read_plain(file, _MOST_MANIFEST_BYTES).decode()


def _entry(file: Path) -> FileEntry:
    with open_plain(file) as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return FileEntry(digest, file.stat().st_size)


def _problem(folder: Path, name: str, entry: FileEntry) -> str | None:
    file = folder / name
    try:
        if any(part.is_symlink() for part in (file, *file.parents) if folder in part.parents):
            return _LINK.format(name)
        if not file.is_file():
            return f"{name} is missing."
        size_bytes = file.stat().st_size
        if size_bytes < entry.size_bytes:
            return f"{name} is incomplete: {size_bytes:,} of {entry.size_bytes:,} bytes."
        if _entry(file) != entry:
            return f"{name} is damaged: its bytes are not those that were written."
    except OSError as error:
        return f"{name} can't be read ({error.strerror})."
    return None


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.exists() and not target.is_symlink():
        return
    if versions := bundle_versions(target):
        raise BundleError(
            f"{target} is a model's folder; its next version is {target / str(max(versions) + 1)}."
        )
    if not overwrite:
        raise BundleError(
            f"{target} exists already; choose another place, or replace it (overwrite)."
        )
    is_bundle = (target / MANIFEST_FILE).is_file()
    if target.is_symlink() or not target.is_dir() or (any(target.iterdir()) and not is_bundle):
        raise BundleError(f"{target} is no bundle, so it isn't overwritten; choose another place.")


@contextmanager
def _partial_folder(target: Path) -> Iterator[Path]:
    """A fresh folder beside the target, gone afterwards whatever happens."""
    partial = target.with_name(f".{target.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise BundleError(f"{target} can't be written ({error.strerror}).") from error
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _move(partial: Path, target: Path) -> None:
    """Rename into place; an old bundle steps aside first and comes back when the rename fails."""
    aside = target.with_name(f".{target.name}.old-{secrets.token_hex(4)}")
    try:
        if target.exists():
            target.rename(aside)
        partial.rename(target)
    except OSError as error:
        if aside.exists():
            aside.rename(target)
        raise BundleError(f"{target} can't be written ({error.strerror}).") from error
    shutil.rmtree(aside, ignore_errors=True)
