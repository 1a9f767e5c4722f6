"""Callers load and unload models, where the operator lets them."""

import asyncio

import pytest

from foretell.client import AsyncClient, Client, RemoteError
from foretell.data.errors import BundleError, OptionError
from foretell.server.background import serve_in_background
from foretell.server.models.repository import ModelControl, Repository


@pytest.fixture
def serving_folder(tmp_path, make_forecaster):
    """A context manager that serves versions 1 and 2 of `demand`; version 2 is damaged."""

    def load(path):
        if path.name == "2":
            raise BundleError(f"bundle {path}: forecaster.onnx is damaged.")
        return make_forecaster()

    def serve(mode):
        for version in (1, 2, 3):
            (tmp_path / "demand" / str(version)).mkdir(parents=True, exist_ok=True)
        control = ModelControl(mode=mode, pins={} if mode == "explicit" else {"demand": 1})
        repository = Repository.load(tmp_path, load, control=control, keep_s=0.0)
        return serve_in_background(repository)

    return serve


def told(model):
    return model.name, model.version, model.state


def test_a_model_is_moved_to_another_version_and_away(serving_folder):
    with serving_folder("explicit") as address, Client(address) as client:
        assert told(client.load_model("demand", 1)) == ("demand", 1, "ready")
        assert client.describe("demand").version == 1
        assert told(client.load_model("demand")) == ("demand", 3, "ready")
        assert told(client.unload_model("demand")) == ("demand", 3, "unloading")
        with pytest.raises(RemoteError, match="no model is served yet") as caught:
            client.describe("demand")
        assert caught.value.code == "UNAVAILABLE"


def test_tasks_do_it_as_well(serving_folder):
    async def ask(address):
        async with AsyncClient(address) as client:
            loaded = await client.load_model("demand", 1)
            return told(loaded), told(await client.unload_model("demand"))

    with serving_folder("explicit") as address:
        assert asyncio.run(ask(address)) == (("demand", 1, "ready"), ("demand", 1, "unloading"))


def test_what_can_not_be_loaded_is_told_and_hurts_nothing(serving_folder):
    with serving_folder("explicit") as address, Client(address) as client:
        with pytest.raises(RemoteError, match=r"demand/2: forecaster\.onnx is damaged") as caught:
            client.load_model("demand", 2)
        assert caught.value.code == "FAILED_PRECONDITION"
        assert "Version 3 goes on serving" in str(caught.value)
        assert [told(model) for model in client.models()] == [
            ("demand", 2, "failed"),
            ("demand", 3, "ready"),
        ]
        assert [model.is_ready for model in client.models()] == [False, True]
        with pytest.raises(RemoteError, match="version 7 of 'demand' is not in the folder"):
            client.load_model("demand", 7)


@pytest.mark.parametrize("mode", ["none", "poll"])
def test_nobody_may_by_default(serving_folder, mode):
    with serving_folder(mode) as address, Client(address) as client:
        for ask in (client.load_model, client.unload_model):
            with pytest.raises(RemoteError, match="--model-control explicit") as caught:
                ask("demand")
            assert caught.value.code == "FAILED_PRECONDITION"
        assert client.describe("demand").version == 1


def test_names_and_versions_are_checked_here(serving_folder):
    with serving_folder("none") as address, Client(address) as client:
        with pytest.raises(OptionError, match="the version is 0; give a whole number from 1, or"):
            client.load_model("demand", 0)
        with pytest.raises(OptionError, match="the model is ''"):
            client.unload_model("")
