"""Bundles come from other hands: whatever one holds, it is refused in words and stops nothing else.

Each of these, with the right digest or none, once ended a whole server or could have.
"""

import contextlib
import hashlib
import json
import os
import socket
import threading
from pathlib import Path

import pytest

from foretell.data.bundles.bundle import (
    MANIFEST_FILE,
    Bundle,
    ForecasterSpec,
    GraphSpec,
    Manifest,
    read_bundle,
    write_bundle,
)
from foretell.data.errors import BundleError

GRAPH = "forecaster.onnx"


def fill(folder: Path) -> Manifest:
    (folder / GRAPH).write_bytes(b"graph")
    return Manifest(
        kind="forecaster",
        precision="fp32",
        config={},
        forecaster=ForecasterSpec(
            context_length=64,
            patch_length=8,
            horizon=24,
            frequency="h",
            season_length=24,
            quantile_levels=(0.1, 0.5, 0.9),
        ),
        graphs=(GraphSpec(GRAPH, 20, (), ()),),
        training={},
        tool_versions={},
    )


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return write_bundle(tmp_path / "demand", fill)


def refuse(bundle: Bundle, text: str, message: str) -> None:
    (bundle.path / MANIFEST_FILE).write_bytes(text.encode())
    with pytest.raises(BundleError, match=message):
        read_bundle(bundle.path)


def change(bundle: Bundle, key: str, value_text: str) -> str:
    """A manifest with one value written as told, and the digest that is right for it."""
    value = json.loads((bundle.path / MANIFEST_FILE).read_text())
    value[key] = "HERE"
    text = json.dumps({**value, "digest": ""}).replace('"HERE"', value_text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text.replace('"digest": ""', f'"digest": "{digest}"')


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_endless_nesting_is_refused(bundle: Bundle, opening: str) -> None:
    refuse(bundle, opening * 100_000, "nested too deeply|is no JSON")


@pytest.mark.parametrize("depth", [300, 500, 700, 900, 990])
@pytest.mark.parametrize("key", ["config", "kind", "graphs"])
def test_whatever_depth_is_read_can_be_told_again(bundle: Bundle, key: str, depth: int) -> None:
    """Servers tell the manifest to clients: what can be read but not written stops them later."""
    text = change(bundle, key, '{"a":' * depth + "1" + "}" * depth)
    (bundle.path / MANIFEST_FILE).write_text(text)
    try:
        manifest = read_bundle(bundle.path).manifest
    except BundleError:
        return
    assert Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "a\\b", ""])
def test_a_path_out_of_the_bundle_is_refused(bundle: Bundle, name: str) -> None:
    files = json.loads((bundle.path / MANIFEST_FILE).read_text())["files"]
    text = change(bundle, "files", json.dumps({**files, name: files[GRAPH]}))
    refuse(bundle, text, "is no path inside the bundle")


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"'])
def test_values_that_no_client_could_be_told_are_refused(bundle: Bundle, value: str) -> None:
    refuse(bundle, change(bundle, "config", f'{{"a": {value}}}'), "no JSON value")


def test_lengths_beyond_the_wire_are_refused(bundle: Bundle) -> None:
    spec = json.loads((bundle.path / MANIFEST_FILE).read_text())["forecaster"]
    text = change(bundle, "forecaster", json.dumps({**spec, "context_length": 2**31}))
    refuse(bundle, text, r"context_length is 2147483648; expected 1 to 2,147,483,647")


def test_a_file_name_that_no_disk_holds_is_refused(bundle: Bundle) -> None:
    files = json.loads((bundle.path / MANIFEST_FILE).read_text())["files"]
    text = change(bundle, "files", json.dumps({**files, "x" * 5000: files[GRAPH]}))
    refuse(bundle, text, r"can't be read \(File name too long\)")


def test_a_manifest_that_is_a_link_is_refused_like_any_other_file(
    bundle: Bundle, tmp_path: Path
) -> None:
    """A link may point at another manifest tomorrow, with hashes of its own."""
    manifest = bundle.path / MANIFEST_FILE
    manifest.rename(tmp_path / MANIFEST_FILE)
    manifest.symlink_to(tmp_path / MANIFEST_FILE)
    with pytest.raises(BundleError, match=r"manifest\.json is a symbolic link"):
        read_bundle(bundle.path)


@pytest.mark.parametrize("name", [MANIFEST_FILE, GRAPH])
@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
def test_what_is_no_file_is_refused_at_once(bundle: Bundle, name: str, kind: str) -> None:
    """Who opens a pipe waits for its other end: once no model was loaded any more."""
    place = bundle.path / name
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        with contextlib.chdir(bundle.path), socket.socket(socket.AF_UNIX) as one:
            one.bind(name)
    found: list[BundleError] = []

    def read() -> None:
        with pytest.raises(BundleError) as caught:
            read_bundle(bundle.path)
        found.append(caught.value)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert found
    assert name in str(found[0])


def test_a_manifest_without_end_is_refused_before_it_is_read(bundle: Bundle) -> None:
    """A hole in a file takes no room on the disk, and all of its size in memory."""
    with (bundle.path / MANIFEST_FILE).open("r+b") as file:
        file.truncate(2**33)
    with pytest.raises(BundleError, match=r"manifest\.json can't be read \(more than 4,194,304"):
        read_bundle(bundle.path)
