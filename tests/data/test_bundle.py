"""A server that never saw a bundle made trusts it, so whatever is wrong with one must be found.

Bugs here serve the wrong model, or half of one, without a word.
"""

import os
import shutil
from pathlib import Path

import pytest

from foretell.data.bundles.bundle import (
    MANIFEST_FILE,
    Bundle,
    ForecasterSpec,
    GraphSpec,
    Manifest,
    bundle_versions,
    read_bundle,
    read_manifest,
    resolve_bundle,
    write_bundle,
)
from foretell.data.errors import BundleError

GRAPH = "forecaster.onnx"


def make_manifest() -> Manifest:
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


def fill(folder: Path) -> Manifest:
    (folder / GRAPH).write_bytes(bytes(range(256)) * 4)
    (folder / "sample.json").write_text('{"horizon": 3}\n')
    return make_manifest()


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return write_bundle(tmp_path / "models" / "demand" / "1", fill)


class TestWriting:
    def test_a_written_bundle_is_read_back_the_same(self, bundle: Bundle) -> None:
        assert read_bundle(bundle.path) == bundle
        assert sorted(bundle.manifest.files) == [GRAPH, "sample.json"]
        assert bundle.manifest.files[GRAPH].size_bytes == 1024

    def test_a_failing_writer_leaves_nothing(self, tmp_path: Path) -> None:
        def fail(folder: Path) -> Manifest:
            fill(folder)
            raise RuntimeError("the power went")

        with pytest.raises(RuntimeError, match="the power went"):
            write_bundle(tmp_path / "demand", fail)
        assert list(tmp_path.iterdir()) == []

    def test_the_target_appears_only_when_it_is_whole(self, tmp_path: Path) -> None:
        target = tmp_path / "demand"

        def look(folder: Path) -> Manifest:
            assert not target.exists()
            return fill(folder)

        write_bundle(target, look)
        assert [entry.name for entry in tmp_path.iterdir()] == ["demand"]

    def test_a_manifest_that_names_a_graph_it_lacks_is_never_written(self, tmp_path: Path) -> None:
        def forget(folder: Path) -> Manifest:
            fill(folder)
            (folder / GRAPH).unlink()
            return make_manifest()

        with pytest.raises(BundleError, match=r"graph 'forecaster\.onnx' is not among the files"):
            write_bundle(tmp_path / "demand", forget)
        assert list(tmp_path.iterdir()) == []

    def test_an_existing_target_is_kept_unless_asked(self, bundle: Bundle) -> None:
        before = (bundle.path / MANIFEST_FILE).read_bytes()
        with pytest.raises(BundleError, match="exists already"):
            write_bundle(bundle.path, fill)
        assert (bundle.path / MANIFEST_FILE).read_bytes() == before

    def test_overwriting_replaces_the_whole_folder(self, bundle: Bundle) -> None:
        (bundle.path / "left.txt").write_text("from before")
        write_bundle(bundle.path, fill, overwrite=True)
        assert sorted(entry.name for entry in bundle.path.iterdir()) == [
            GRAPH,
            MANIFEST_FILE,
            "sample.json",
        ]
        assert [entry.name for entry in bundle.path.parent.iterdir()] == ["1"]

    def test_a_failing_overwrite_leaves_the_old_bundle(self, bundle: Bundle) -> None:
        def fail(folder: Path) -> Manifest:
            raise RuntimeError("the power went")

        with pytest.raises(RuntimeError, match="the power went"):
            write_bundle(bundle.path, fail, overwrite=True)
        assert read_bundle(bundle.path) == bundle

    def test_a_folder_that_is_no_bundle_is_never_replaced(self, tmp_path: Path) -> None:
        """A slip such as `--output ~ --overwrite` must not delete a home folder."""
        (tmp_path / "photo.jpg").write_text("dear")
        with pytest.raises(BundleError, match="is no bundle, so it isn't overwritten"):
            write_bundle(tmp_path, fill, overwrite=True)
        assert (tmp_path / "photo.jpg").read_text() == "dear"

    def test_an_empty_folder_may_be_replaced(self, tmp_path: Path) -> None:
        target = tmp_path / "demand"
        target.mkdir()
        assert write_bundle(target, fill, overwrite=True).path == target

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(BundleError, match=r"file/demand can't be written"):
            write_bundle(tmp_path / "file" / "demand", fill)


class TestReading:
    def test_a_moved_bundle_still_reads(self, bundle: Bundle, tmp_path: Path) -> None:
        """HC03: a bundle works from any folder."""
        moved = tmp_path / "elsewhere"
        shutil.move(bundle.path, moved)
        assert read_bundle(moved).manifest == bundle.manifest

    def test_a_relative_path_outlives_a_change_of_folder(
        self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(bundle.path.parent)
        read = read_bundle("1")
        monkeypatch.chdir(tmp_path)
        assert (read.path / GRAPH).is_file()

    def test_the_manifest_alone_tells_what_a_damaged_bundle_was(self, bundle: Bundle) -> None:
        """Which loader a bundle needs must be known before gigabytes are hashed."""
        (bundle.path / GRAPH).unlink()
        assert read_manifest(bundle.path) == bundle.manifest
        (bundle.path / MANIFEST_FILE).unlink()
        with pytest.raises(BundleError, match=r"manifest\.json is missing"):
            read_manifest(bundle.path)

    @pytest.mark.parametrize("size", [0, 1, 512, 1023])
    def test_a_file_cut_short_is_incomplete(self, bundle: Bundle, size: int) -> None:
        """HC03: emptied, cut to a byte, to half, by one byte."""
        os.truncate(bundle.path / GRAPH, size)
        with pytest.raises(BundleError, match=rf"forecaster.onnx is incomplete: {size:,} of 1,024"):
            read_bundle(bundle.path)

    @pytest.mark.parametrize("place", [0, 500, 1023])
    def test_a_flipped_byte_is_damage(self, bundle: Bundle, place: int) -> None:
        raw = bytearray((bundle.path / GRAPH).read_bytes())
        raw[place] ^= 1
        (bundle.path / GRAPH).write_bytes(raw)
        with pytest.raises(BundleError, match=r"forecaster\.onnx is damaged"):
            read_bundle(bundle.path)

    def test_a_byte_too_many_is_damage(self, bundle: Bundle) -> None:
        with (bundle.path / GRAPH).open("ab") as stream:
            stream.write(b"\0")
        with pytest.raises(BundleError, match=r"forecaster\.onnx is damaged"):
            read_bundle(bundle.path)

    def test_every_bad_file_is_named(self, bundle: Bundle) -> None:
        (bundle.path / GRAPH).unlink()
        os.truncate(bundle.path / "sample.json", 3)
        with pytest.raises(BundleError) as caught:
            read_bundle(bundle.path)
        assert f"{GRAPH} is missing" in str(caught.value)
        assert "sample.json is incomplete: 3 of" in str(caught.value)

    def test_a_symbolic_link_is_refused(self, bundle: Bundle, tmp_path: Path) -> None:
        """A link may point at another file tomorrow, and at a secret one today."""
        shutil.move(bundle.path / GRAPH, tmp_path / "graph")
        (bundle.path / GRAPH).symlink_to(tmp_path / "graph")
        with pytest.raises(BundleError, match=r"forecaster\.onnx is a symbolic link"):
            read_bundle(bundle.path)

    def test_bytes_that_are_no_text_are_refused(self, bundle: Bundle) -> None:
        (bundle.path / MANIFEST_FILE).write_bytes(b"\xff\xfe\x00")
        with pytest.raises(BundleError, match=r"manifest\.json can't be read"):
            read_bundle(bundle.path)

    def test_missing_folder_file_and_empty_folder_are_told_apart(self, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match="nowhere is missing"):
            read_bundle(tmp_path / "nowhere")
        (tmp_path / "file").write_text("")
        with pytest.raises(BundleError, match="is a file; give the folder of a bundle"):
            read_bundle(tmp_path / "file")
        with pytest.raises(BundleError, match=r"can't be read \(File name too long\)"):
            read_bundle("x" * 5_000)
        (tmp_path / "empty").mkdir()
        with pytest.raises(BundleError, match=r"manifest\.json is missing"):
            read_bundle(tmp_path / "empty")


class TestResolving:
    def test_a_bundle_is_itself(self, bundle: Bundle) -> None:
        assert resolve_bundle(bundle.path) == bundle.path

    def test_a_model_gives_its_newest_version_by_number(self, bundle: Bundle) -> None:
        """10 is newer than 9, whatever the alphabet says."""
        model = bundle.path.parent
        for name in ("9", "10", "02", "next", ".11.partial-00000000"):
            (model / name).mkdir()
        assert list(bundle_versions(model)) == [1, 9, 10]
        assert resolve_bundle(model) == model / "10"

    def test_a_repository_asks_for_one_of_its_models(self, bundle: Bundle) -> None:
        with pytest.raises(BundleError, match=r"holds the models \['demand'\]; give the folder"):
            resolve_bundle(bundle.path.parent.parent)

    def test_what_is_none_of_these_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match="nowhere is missing"):
            resolve_bundle(tmp_path / "nowhere")
        with pytest.raises(BundleError, match="it holds no folders"):
            resolve_bundle(tmp_path)
        (tmp_path / "photos").mkdir()
        with pytest.raises(BundleError, match=r"it holds the folders \['photos'\]"):
            resolve_bundle(tmp_path)
        (tmp_path / "file").write_text("")
        with pytest.raises(BundleError, match="is a file; give the folder"):
            resolve_bundle(tmp_path / "file")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_models_folder_is_never_taken_for_a_bundle(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "demand" / "3").mkdir(parents=True)
    with pytest.raises(BundleError, match=r"a model's folder; its next version is .*demand/4\."):
        write_bundle(tmp_path / "demand", lambda folder: None, overwrite=overwrite)
