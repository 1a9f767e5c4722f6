"""Models that change while they serve: by their folder, or because a caller asks."""

import asyncio
import contextlib
import threading

import pytest

from foretell.data.errors import BundleError, DeviceError, ModelNotFoundError, OptionError
from foretell.server.errors import (
    ModelControlError,
    ModelLoadError,
    ModelNotReadyError,
    RequestError,
)
from foretell.server.models.loader import ModelLoader
from foretell.server.models.repository import ModelControl, Repository, State
from foretell.server.models.served_models import ServedModels


class Folder:
    """A folder of models, and a loader that looks at it when it is told to."""

    def __init__(self, path, load, pins=None):
        self.path = path
        self.models = ServedModels(keep_s=0.0)
        self.loader = ModelLoader(path, load, self.models, pins or {})

    def write(self, version, content="good", name="demand"):
        bundle = self.path / name / str(version)
        bundle.mkdir(parents=True, exist_ok=True)
        (bundle / "graph").write_text(content)

    def remove(self, version, name="demand"):
        (self.path / name / str(version) / "graph").unlink()
        (self.path / name / str(version)).rmdir()

    @property
    def serving(self):
        return {name: model.version for name, model in self.models.models.items()}

    @property
    def states(self):
        return {status.version: status.state for status in self.models.statuses()}

    def reason(self, version):
        return next(one.reason for one in self.models.statuses() if one.version == version)


@pytest.fixture
def load(make_forecaster):
    def load(path):
        content = (path / "graph").read_text()
        if content == "fault":
            raise RecursionError("secret")
        if content != "good":
            raise BundleError(f"bundle {path}: graph holds {content!r}.")
        return make_forecaster()

    return load


@pytest.fixture
def folder(tmp_path, load):
    folder = Folder(tmp_path, load)
    folder.write(1)
    folder.loader.load_all()
    return folder


def test_a_new_version_takes_over_and_the_old_one_goes(folder):
    folder.write(2)
    folder.loader.look()
    assert folder.serving == {"demand": 2}
    assert folder.states == {1: State.UNLOADING, 2: State.READY}
    folder.models.sweep()
    assert folder.states == {2: State.READY}


def test_a_look_at_what_has_not_changed_loads_nothing(folder, load):
    before = folder.models.get("demand", 0)
    for _ in range(3):
        folder.loader.look()
    assert folder.models.get("demand", 0) is before


def test_the_log_says_who_took_over_and_why_the_other_went(folder, caplog):
    caplog.set_level("INFO")
    folder.write(2)
    folder.loader.look()
    assert "model=demand version=2 serves now (was 1)" in caplog.text
    folder.models.sweep()
    assert "version=1 is unloaded; it was replaced: version 2 serves" in caplog.text
    folder.write(2, "good")
    (folder.path / "demand/2/more").touch()
    folder.loader.look()
    folder.models.sweep()
    assert "version=2 is unloaded; it was replaced: its files have changed" in caplog.text
    folder.models.withdraw("demand")
    folder.models.sweep()
    assert caplog.messages[-1] == "model=demand version=2 is unloaded"


def test_a_damaged_version_never_takes_over(folder):
    """It may be half copied at first: no fault, until it stays as it is."""
    folder.write(2, "half")
    folder.loader.look()
    assert folder.states == {1: State.READY, 2: State.LOADING}
    assert folder.reason(2) == "perhaps being copied: bundle demand/2: graph holds 'half'."
    folder.write(2, "a little more")
    folder.loader.look()
    assert folder.states == {1: State.READY, 2: State.LOADING}
    folder.loader.look()
    assert folder.states == {1: State.READY, 2: State.FAILED}
    assert folder.reason(2) == "bundle demand/2: graph holds 'a little more'."
    assert folder.serving == {"demand": 1}
    folder.write(2)
    folder.loader.look()
    assert folder.serving == {"demand": 2}
    assert folder.reason(2) == ""


def test_what_failed_is_not_tried_again_until_it_changes(folder, load):
    tried = []
    folder.loader._load = lambda path: tried.append(path.name) or load(path)
    folder.write(2, "bad")
    for _ in range(5):
        folder.loader.look()
    assert tried == ["2", "2"]


def test_a_device_that_fails_later_leaves_the_others_and_is_asked_again(tmp_path, load, caplog):
    """A GPU without memory for a second version must not keep other models from being followed."""
    now, tried, is_full = [0.0], [], [True]

    def on_device(path):
        tried.append(path.name)
        if is_full[0] and path.parent.name == "demand" and path.name != "1":
            raise DeviceError(f"CUDA has no memory left for {path}.")
        return load(path)

    folder = Folder(tmp_path, load)
    folder.loader = ModelLoader(tmp_path, on_device, folder.models, {}, lambda: now[0])
    folder.write(1)
    folder.loader.load_all()
    folder.write(2)
    folder.write(1, name="sales")
    folder.loader.look()
    assert folder.serving == {"demand": 1, "sales": 1}
    assert folder.states[2] is State.FAILED
    assert folder.reason(2) == "CUDA has no memory left for demand/2."
    assert "tried again in 30 s" in caplog.text
    for seconds, trials in ((29, 1), (31, 2), (60, 2), (92, 3), (10_000, 4), (10_239, 4)):
        now[0] = seconds
        folder.loader.look()
        assert tried.count("2") == trials, seconds
    is_full[0] = False
    folder.write(2, "good")  # whatever has changed is tried at once
    (tmp_path / "demand/2/more").touch()
    folder.loader.look()
    assert folder.serving == {"demand": 2, "sales": 1}


def test_a_caller_is_told_of_a_device_that_fails(tmp_path, load):
    def on_device(path):
        raise DeviceError("CUDA has no memory left.")

    folder = Folder(tmp_path, load)
    folder.write(1)
    folder.loader.load_all()
    folder.write(2)
    folder.loader._load = on_device
    with pytest.raises(ModelLoadError, match=r"no memory left\. Version 1 goes on"):
        folder.loader.load_named("demand", 2)
    assert folder.serving == {"demand": 1}


def test_a_fault_of_ours_is_no_news_of_its_text(folder, caplog):
    folder.write(2, "fault")
    folder.loader.look()
    assert folder.reason(2) == "a fault of the server's own; its log tells more."
    assert folder.serving == {"demand": 1}
    assert "secret" in caplog.text


def test_files_that_change_under_a_served_version_are_loaded_beside_it(folder, caplog):
    """`export --overwrite` puts another model in the same place."""
    before = folder.models.get("demand", 0)
    folder.write(1, "bad")
    folder.loader.look()
    folder.loader.look()
    assert folder.models.get("demand", 0) is before
    assert folder.states == {1: State.READY}
    assert "graph holds 'bad'" in folder.reason(1)
    assert "version=1 is not loaded anew, the copy in memory serves on: " in caplog.text
    assert "is not served" not in caplog.text
    folder.write(1)
    folder.loader.look()
    assert folder.models.get("demand", 0) is not before
    assert folder.reason(1) == ""


def test_to_take_a_version_away_is_a_way_back(folder):
    folder.write(2)
    folder.loader.look()
    folder.remove(2)
    folder.loader.look()
    assert folder.serving == {"demand": 1}


def test_a_served_version_is_never_replaced_by_an_older_one(folder):
    folder.write(2)
    folder.loader.look()
    folder.write(2, "overwritten with nonsense")
    folder.loader.look()
    folder.loader.look()
    assert folder.serving == {"demand": 2}


def test_a_model_that_is_gone_twice_is_gone(folder):
    """Once may be the moment in which a folder is exchanged for another."""
    folder.write(1, name="sales")
    folder.loader.look()
    folder.remove(1)
    folder.path.joinpath("demand").rmdir()
    folder.loader.look()
    assert folder.serving == {"demand": 1, "sales": 1}
    folder.loader.look()
    assert folder.serving == {"sales": 1}


def test_a_folder_that_can_not_be_read_changes_nothing(folder, caplog):
    folder.path.rename(folder.path.with_name("away"))
    for _ in range(3):
        folder.loader.look()
    assert folder.serving == {"demand": 1}
    assert caplog.text.count("can't be looked through") == 1


def test_a_name_that_can_not_be_served_leaves_the_others(folder, caplog):
    folder.write(1, name="my model")
    folder.write(2)
    folder.loader.look()
    assert folder.serving == {"demand": 2}
    assert "'my model' can't be served; rename the folder" in caplog.text


def test_a_pin_holds_whatever_is_newer(tmp_path, load):
    folder = Folder(tmp_path, load, {"demand": 1})
    folder.write(1)
    folder.write(2)
    folder.write(5, name="sales")
    folder.loader.load_all()
    folder.write(3)
    folder.loader.look()
    assert folder.serving == {"demand": 1, "sales": 5}


def test_a_pinned_version_that_is_not_there_stops_the_start(tmp_path, load):
    folder = Folder(tmp_path, load, {"demand": 3, "sale": 1})
    folder.write(1)
    with pytest.raises(ModelNotFoundError) as caught:
        folder.loader.load_all()
    assert caught.value.problems == (
        "version 3 of 'demand' is not in the folder of models; there are: 'demand' (version 1).",
        "version 1 of 'sale' is not in the folder of models; there are: 'demand' (version 1).",
    )


# --- what callers ask for ---


@contextlib.contextmanager
def running(repository):
    repository.start()
    try:
        yield repository
    finally:
        assert repository.stop(60.0)


@pytest.fixture
def make_repository(folder, load):
    def make(**control):
        return Repository.load(folder.path, load, control=ModelControl(**control), keep_s=0.0)

    return make


@pytest.mark.parametrize("name", ["bad\nname", "a b", "x" * 200, "demand:forecaster", "é"])
def test_a_name_that_can_not_be_served_is_not_loaded(folder, name, caplog):
    """In logs it would begin lines of its own, or be another model's graph."""
    folder.write(1, name=name)
    with pytest.raises(RequestError, match="can't be served; rename the folder") as caught:
        folder.loader.load_named(name, 1)
    assert "\n" not in str(caught.value)
    assert folder.serving == {"demand": 1}
    assert folder.states == {1: State.READY}
    with pytest.raises(ModelNotFoundError) as absent:
        folder.loader.load_named("sales", 0)
    assert str(absent.value).endswith("there are: 'demand' (version 1).")


def test_callers_load_and_unload_where_they_may(folder, make_repository):
    async def ask(repository):
        folder.write(2)
        folder.write(3, "bad")
        assert (await repository.load_model("demand", 2)).version == 2
        before = repository.get("demand", 0)
        await repository.load_model("demand", 2)
        assert repository.get("demand", 0) is before, "to load it again changes nothing"
        with pytest.raises(ModelLoadError) as caught:
            await repository.load_model("demand")
        assert str(caught.value) == (
            "version 3 of demand can't be loaded: bundle demand/3: graph holds 'bad'. "
            "Version 2 goes on serving."
        )
        with pytest.raises(ModelNotFoundError, match=r"there are: 'demand' \(versions 1, 2, 3\)"):
            await repository.load_model("../demand", 1)
        assert (await repository.load_model("demand", 1)).state is State.READY  # a way back
        assert repository.get("demand", 0).version == 1
        assert (await repository.unload_model("demand")).state is State.UNLOADING
        with pytest.raises(ModelNotFoundError, match="is not served"):
            await repository.unload_model("demand")
        await repository.load_model("demand", 1)

    with running(make_repository(mode="explicit")) as repository:
        asyncio.run(ask(repository))


@pytest.mark.parametrize("mode", ["none", "poll"])
def test_callers_may_not_where_nobody_has_said_so(make_repository, mode):
    repository = make_repository(mode=mode)
    for ask in (repository.load_model("demand"), repository.unload_model("demand")):
        with pytest.raises(ModelControlError, match="--model-control explicit"):
            asyncio.run(ask)
    assert repository.get("demand", 0).version == 1


def test_a_pinned_model_can_not_be_moved_by_callers(folder, make_repository):
    folder.write(2)
    repository = make_repository(mode="explicit", pins={"demand": 1})
    assert repository.get("demand", 0).version == 1
    with running(repository):
        with pytest.raises(ModelControlError, match="version 1 of demand is pinned"):
            asyncio.run(repository.load_model("demand", 2))
        assert asyncio.run(repository.load_model("demand")).version == 1


def test_the_folder_is_followed(folder, make_repository):
    repository = make_repository(mode="poll", poll_s=0.05)
    is_new = threading.Event()
    repository.subscribe(lambda: repository.models["demand"].version == 2 and is_new.set())
    with running(repository):
        folder.write(2)
        assert is_new.wait(60)


def test_a_server_may_begin_with_nothing_where_something_may_come(tmp_path, load):
    (tmp_path / "models").mkdir()
    with pytest.raises(BundleError, match="holds no models"):
        Repository.load(tmp_path / "models", load)
    repository = Repository.load(tmp_path / "models", load, control=ModelControl(mode="poll"))
    with pytest.raises(ModelNotReadyError, match="no model is served yet; ask again later"):
        repository.get("demand", 0)


def test_control_is_checked():
    with pytest.raises(OptionError) as caught:
        ModelControl(mode="often", poll_s=0, pins={"demand": -1})
    assert len(caught.value.problems) == 3
    assert ModelControl.parse("poll", 2.0, ["a=b=3"]).pins == {"a=b": 3}
    with pytest.raises(OptionError) as caught:
        ModelControl.parse("poll", 2.0, ["demand", "=3", "demand=x", "a=1", "a=2"])
    assert len(caught.value.problems) == 4
