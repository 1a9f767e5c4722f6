"""Versions are held by leases: who has begun with one ends with it, and then it is gone."""

import contextlib
import gc
import threading
import weakref

import pytest

from foretell.data.errors import ModelNotFoundError
from foretell.server.errors import ModelNotReadyError
from foretell.server.models.repository import State
from foretell.server.models.served import Model
from foretell.server.models.served_models import ServedModels


@pytest.fixture
def leased(make_forecaster):
    models = ServedModels([Model("demand", 1, make_forecaster())], keep_s=0.0)
    return models, lambda version: models.put(Model("demand", version, make_forecaster()), 0.1)


def versions(models):
    return {status.version: status.state for status in models.statuses()}


def test_a_lease_keeps_its_version_until_it_is_left(leased):
    models, put = leased
    with models.lease("demand", 0) as old:
        gone = weakref.ref(old.served)
        put(2)
        assert models.sweep()
        assert models.get("demand", 0).version == 2
        assert versions(models) == {1: State.UNLOADING, 2: State.READY}
        del old
        gc.disable()  # counting references must be enough
        try:
            assert gone() is not None
        finally:
            gc.enable()
    assert not models.sweep()
    assert gone() is None
    assert versions(models) == {2: State.READY}


def test_a_replaced_version_answers_who_names_it_for_a_while(make_forecaster):
    """A table of many requests names one version in all of them; no two may answer it."""
    models = ServedModels([Model("demand", 1, make_forecaster())], keep_s=3600.0)
    models.put(Model("demand", 2, make_forecaster()), 0.1)
    assert models.get("demand", 1).version == 1
    assert models.get("demand", 0).version == 2
    assert models.sweep()
    models.put(Model("demand", 3, make_forecaster()), 0.1)
    models.sweep()
    assert versions(models) == {2: State.UNLOADING, 3: State.READY}, "one that waits is enough"
    with pytest.raises(ModelNotFoundError, match="version 1 of demand is not served"):
        models.get("demand", 1)


def test_an_unloaded_model_takes_no_new_calls_and_finishes_those_it_has(leased):
    models, _ = leased
    with models.lease("demand", 0):
        assert models.withdraw("demand").state is State.UNLOADING
        with pytest.raises(ModelNotReadyError, match="no model is served yet"):
            models.get("demand", 1)
        assert models.sweep()
        assert versions(models) == {1: State.UNLOADING}
    assert not models.sweep()
    assert versions(models) == {}
    assert models.withdraw("demand") is None


def test_a_lease_is_left_whatever_is_raised(leased):
    models, put = leased
    with contextlib.suppress(ZeroDivisionError), models.lease("demand", 0):
        put(2)
        raise ZeroDivisionError
    assert not models.sweep()


def test_leases_of_many_threads_add_up(make_forecaster):
    models = ServedModels([Model("demand", 1, make_forecaster())], keep_s=0.0)

    def work():
        for _ in range(300):
            with models.lease("demand", 0) as model:
                assert model.served is not None

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for version in range(2, 40):
        models.put(Model("demand", version, make_forecaster()), 0.0)
        models.sweep()
    for thread in threads:
        thread.join()
    assert not models.sweep()
    assert versions(models) == {39: State.READY}
