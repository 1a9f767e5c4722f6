"""A version that is loaded beside others: warm by every way, and in nobody's way."""

import os
import sys
import threading
from functools import partial

import pytest

from foretell.data.errors import BundleError
from foretell.runtime import Forecaster
from foretell.server.models import loading
from foretell.server.models.loading import load_warm

load_on_cpu = partial(load_warm, device="cpu", threads=1)


def nice():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.fixture(params=["bundle_path", "covariate_bundle_path", "translator_bundle_path"])
def bundle(request):
    return request.getfixturevalue(request.param)


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere threads have no priority of their own"
)
def test_loading_leaves_the_cores_to_those_who_answer(bundle, monkeypatch):
    """But whatever a model keeps runs as all else does: what is begun slow stays slow."""
    while_reading, read = [], loading.read_bundle
    monkeypatch.setattr(
        loading, "read_bundle", lambda path: while_reading.append(nice()) or read(path)
    )
    before = nice()
    model = load_on_cpu(bundle)
    assert while_reading == [max(before, 10)]
    assert nice() == before
    found = []
    session = model.session if isinstance(model, Forecaster) else model._session
    session.for_each(lambda _: found.append(nice()), [None])
    assert found == [before]


def test_a_forecaster_has_answered_a_table_before_it_serves(bundle_path, monkeypatch):
    asked = []
    forecast = Forecaster.forecast_rows
    monkeypatch.setattr(
        Forecaster, "forecast_rows", lambda *given: asked.append(given) or forecast(*given)
    )
    model = load_on_cpu(bundle_path)
    ((_, rows, _, options),) = asked
    answer = forecast(model, rows, None, options)
    assert not answer.refusals, "a series that is refused runs nothing"
    assert answer.forecast.shape == (1, model.manifest.forecaster.horizon)


def test_covariates_are_there_when_it_warms_up(covariate_bundle_path, monkeypatch):
    answers = []
    forecast = Forecaster.forecast_rows
    monkeypatch.setattr(
        Forecaster, "forecast_rows", lambda *given: answers.append(forecast(*given)) or answers[-1]
    )
    load_on_cpu(covariate_bundle_path)
    assert [len(answer.refusals) for answer in answers] == [0]


def test_what_fails_in_loading_is_told_to_who_waits(tmp_path):
    with pytest.raises(BundleError, match=r"manifest\.json"):
        load_on_cpu(tmp_path)
