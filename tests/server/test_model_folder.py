"""A look through a folder of models: what is a version, what only stands where one should.

A server looks every few seconds, often over a network: each folder is asked for once.
"""

from collections import Counter
from pathlib import Path

import pytest

from foretell.data.bundles.bundle import MANIFEST_FILE
from foretell.data.errors import BundleError
from foretell.server.models.folder import look_through


@pytest.fixture
def folder(tmp_path):
    """Two models with versions, a bundle without, notes, and what hides itself."""
    models = tmp_path / "models"
    for name in ("ende/1", "ende/10", "ende/v3", "ende/.draft", "ende/007"):
        (models / name).mkdir(parents=True)
    for name in ("lone", "new/2026-11-30", "demand/2"):
        (models / name).mkdir(parents=True)
        (models / name / MANIFEST_FILE).write_text("{}")
    for name in ("notes/of/mine", "lone/3", ".hidden/1"):
        (models / name).mkdir(parents=True)
    (models / "README").write_text("")
    (models / "ende" / "README").write_text("")
    return models


def shown(found, folder):
    versions = {
        name: {version: path.relative_to(folder).as_posix() for version, path in of.items()}
        for name, of in found.versions.items()
    }
    return versions, [path.relative_to(folder).as_posix() for path in found.unnumbered]


def test_versions_and_what_has_no_number(folder):
    assert shown(look_through(folder), folder) == (
        {
            "demand": {2: "demand/2"},
            "ende": {1: "ende/1", 10: "ende/10"},
            "lone": {1: "lone"},
        },
        ["ende/007", "ende/v3", "new/2026-11-30"],
    )


@pytest.mark.parametrize(
    ("given", "versions", "unnumbered"),
    [
        ("ende", {"ende": {1: "ende/1", 10: "ende/10"}}, ["ende/007", "ende/v3"]),
        ("lone", {"lone": {1: "lone"}}, []),
        ("demand/2", {"demand": {2: "demand/2"}}, []),
        ("ende/../lone", {"lone": {1: "lone"}}, []),
        ("notes", {}, []),
    ],
)
def test_one_model_or_one_bundle_may_be_given(folder, given, versions, unnumbered):
    assert shown(look_through(folder / given), folder) == (versions, unnumbered)


def test_a_folder_that_is_none(folder):
    for given, state in (("nope", "is missing"), ("README", "is a file")):
        with pytest.raises(BundleError, match=f"{given} {state}; give a folder of models"):
            look_through(folder / given)


def test_each_folder_is_listed_once(folder, monkeypatch):
    listed, list_it = Counter(), Path.iterdir

    def counting(path):
        listed[path.relative_to(folder).as_posix()] += 1
        return list_it(path)

    monkeypatch.setattr(Path, "iterdir", counting)
    look_through(folder)
    assert listed == Counter([".", "ende", "demand", "new", "notes"])
