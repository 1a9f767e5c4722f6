"""What is found on disk, which version serves, and what is said of those that can't."""

from pathlib import Path

import pytest

from foretell.data.errors import BundleError, DeviceError, ModelNotFoundError
from foretell.server.models.loader import ModelLoader
from foretell.server.models.repository import ModelControl, Repository
from foretell.server.models.served import Model
from foretell.server.models.served_models import ServedModels


@pytest.fixture
def folder(tmp_path):
    """Makes bundle folders; those named bad can't be loaded."""

    def make(*names):
        for name in names:
            (tmp_path / name).mkdir(parents=True)
        return tmp_path

    return make


@pytest.fixture
def load(make_forecaster):
    def load(path):
        if (path / "bad").exists():
            raise BundleError([f"bundle {path}: forecaster.onnx is damaged.", "Copy it again."])
        return make_forecaster(training={"from": str(path)})

    return load


def served(repository):
    return {name: model.version for name, model in repository.models.items()}


def test_the_newest_version_serves(folder, load):
    path = folder("models/energy/1", "models/demand/2", "models/demand/10", "models/demand/9")
    assert served(Repository.load(path / "models", load)) == {"demand": 10, "energy": 1}


def test_a_damaged_version_is_passed_over_and_reported(folder, load, caplog):
    """A broken upload must not take a working model down, nor go unnoticed."""
    path = folder("models/demand/1", "models/demand/2/bad", "models/sales/1/bad")
    repository = Repository.load(path / "models", load)
    assert served(repository) == {"demand": 1}
    assert [(bad.name, bad.version) for bad in repository.failures] == [("demand", 2), ("sales", 1)]
    assert "model=demand version=2 is not served" in caplog.text
    assert "forecaster.onnx is damaged. Copy it again." in repository.failures[0].reason
    assert str(path) not in repository.failures[0].reason


def test_reasons_never_tell_where_the_server_keeps_its_models(folder, load, monkeypatch):
    """Clients see them; the path was told where the folder was given with "..", or by a link."""
    path = folder("models/demand/1/bad", "models/sales/1", "work")
    (path / "link").symlink_to(path / "models")
    monkeypatch.chdir(path / "work")
    for given in ("../models", path / "models", path / "work" / ".." / "link"):
        (failure,) = Repository.load(Path(given), load).failures
        assert failure.reason == "bundle demand/1: forecaster.onnx is damaged. Copy it again."


def test_a_fault_of_ours_in_one_bundle_does_not_stop_the_others(folder, make_forecaster, caplog):
    def load(path):
        if "demand" in str(path):
            raise RecursionError("secret")
        return make_forecaster()

    repository = Repository.load(folder("demand/1", "sales/1"), load)
    assert served(repository) == {"sales": 1}
    assert repository.failures[0].reason == "a fault of the server's own; its log tells more."
    assert "secret" in caplog.text


def test_any_reason_fits_a_message(folder, make_forecaster):
    def load(path):
        if "demand" in str(path):
            raise BundleError("\ud800" + "x" * 10**6)
        return make_forecaster()

    (failure,) = Repository.load(folder("demand/1", "sales/1"), load).failures
    assert len(failure.reason) < 3000
    assert failure.reason.encode()


def test_a_version_that_links_to_itself_is_passed_over(folder, make_forecaster):
    def load(path):
        if not path.is_dir():
            raise BundleError(f"model {path} is missing.")
        return make_forecaster()

    path = folder("demand/1")
    (path / "demand/2").symlink_to(path / "demand/2")
    repository = Repository.load(path, load)
    assert served(repository) == {"demand": 1}
    assert repository.failures[0].reason == "model demand/2 is missing."


def test_nothing_good_is_an_error_that_names_all_that_was_tried(folder, load):
    path = folder("models/demand/1/bad", "models/demand/2/bad")
    with pytest.raises(BundleError) as caught:
        Repository.load(path / "models", load)
    assert "no model under" in caught.value.problems[0]
    assert "demand version 2: bundle demand/2: forecaster.onnx is damaged" in str(caught.value)
    assert "demand version 1: " in str(caught.value)


def test_a_device_that_cannot_be_had_is_never_passed_over(folder):
    def load(path):
        raise DeviceError("CUDAExecutionProvider can't be had")

    with pytest.raises(DeviceError, match="CUDAExecutionProvider"):
        Repository.load(folder("models/demand/1") / "models", load)


@pytest.mark.parametrize(
    ("served_folder", "expected"),
    [
        ("models", {"demand": 3}),
        ("models/demand", {"demand": 3}),
        ("models/demand/2", {"demand": 2}),
        ("runs/trial", {"trial": 1}),
    ],
)
def test_a_model_and_a_bundle_can_be_served_too(folder, load, served_folder, expected):
    path = folder("models/demand/2", "models/demand/3", "runs/trial")
    for bundle in ("models/demand/2", "models/demand/3", "runs/trial"):
        (path / bundle / "manifest.json").touch()
    assert served(Repository.load(path / served_folder, load)) == expected


def test_other_things_in_the_folder_are_no_models(folder, load):
    path = folder("models/demand/1", "models/.demand.partial-1/1", "models/notes/drafts")
    (path / "models" / "README.md").touch()
    assert served(Repository.load(path / "models", load)) == {"demand": 1}


def test_a_bundle_without_a_version_is_the_models_first(folder, load):
    """`export --output models/demand` works too; a model that is there must not go unserved."""
    path = folder("models/demand", "models/other/3")
    (path / "models" / "demand" / "manifest.json").touch()
    assert served(Repository.load(path / "models", load)) == {"demand": 1, "other": 3}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere", "nowhere is missing"),
        ("file", "file is a file"),
        ("empty", "empty holds no models"),
    ],
)
def test_a_folder_that_is_none_is_named(folder, load, name, text):
    path = folder("empty")
    (path / "file").touch()
    with pytest.raises(BundleError, match=text):
        Repository.load(path / name, load)


def test_a_name_that_clients_could_not_write_stops_nothing_else(folder, load, caplog):
    """One folder that somebody named badly must not take the good ones down."""
    path = folder("models/my model/1", "models/demand/1")
    assert served(Repository.load(path / "models", load)) == {"demand": 1}
    assert "'my model' can't be served; rename the folder" in caplog.text


def test_bad_names_alone_are_an_error_unless_more_may_come(folder, load, caplog):
    path = folder("models/my model/1", "models/demand/v3")
    (path / "models/demand/v3/manifest.json").touch()
    with pytest.raises(BundleError, match="no model under") as caught:
        Repository.load(path / "models", load)
    assert "'my model' can't be served; rename the folder" in str(caught.value)
    assert "'demand/v3' is not a version number" in str(caught.value)
    control = ModelControl(mode="poll")
    assert not Repository.load(path / "models", load, control=control).models
    assert "not ready yet" in caplog.text


@pytest.mark.parametrize("given", ["models/my model", "models/my model/1", "my bundle"])
@pytest.mark.parametrize("mode", ["none", "poll"])
def test_a_given_folder_with_a_bad_name_is_an_error(folder, load, given, mode):
    """It is the only one there will be."""
    path = folder("models/my model/1", "my bundle")
    for bundle in ("models/my model/1", "my bundle"):
        (path / bundle / "manifest.json").touch()
    with pytest.raises(BundleError, match=r"'my (model|bundle)' can't be served"):
        Repository.load(path / given, load, control=ModelControl(mode=mode))


@pytest.mark.parametrize("given", ["models", "models/demand"])
def test_folders_beside_versions_are_named_once(folder, load, caplog, given):
    """Who writes v3, or a date, waits for it for ever without a word."""
    names = ("v3", "2026-11-30", "007")
    path = folder("models/demand/1", *(f"models/demand/{name}" for name in names))
    (path / "models/demand/notes.txt").touch()
    (path / "models/demand/.hidden").mkdir()
    loader = ModelLoader(path / given, load, ServedModels(), {})
    loader.load_all()
    for _ in range(3):
        loader.look()
    assert caplog.text.count("is not a version number, passed over") == len(names)
    for name in names:
        assert f"'demand/{name}' is not a version number" in caplog.text
    (path / "models/demand/v4").mkdir()
    loader.look()
    assert caplog.text.count("is not a version number, passed over") == len(names) + 1


def test_a_name_from_a_client_is_only_ever_looked_up(make_forecaster):
    repository = Repository([Model("demand", 1, make_forecaster())])
    for name in ("../demand", "demand/1", "DEMAND", "x" * 10_000):
        with pytest.raises(ModelNotFoundError, match=r"are: 'demand' \(version 1\)") as caught:
            repository.get(name, 0)
        assert len(str(caught.value)) < 300
