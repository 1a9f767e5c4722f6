"""Baselines by name, those of a library that may be missing among them."""

import importlib.machinery
import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from foretell.data.errors import ForetellError, OptionError
from foretell.data.measures.baselines import seasonal_naive
from foretell.data.series.options import Columns, ForecastOptions
from foretell.jobs.evaluation import backtest as evaluation
from foretell.jobs.evaluation.backtest import evaluate
from foretell.jobs.evaluation.rivals import DEFAULT_BASELINES, check_baselines
from foretell.jobs.evaluation.statsforecast_rivals import (
    check_statsforecast,
    statsforecast_quantiles,
)


def test_unknown_and_repeated_names_are_all_told():
    with pytest.raises(OptionError) as caught:
        check_baselines(["Naive", "Theta", "Prophet", "Theta"])
    assert caught.value.problems[:3] == (
        "there is no baseline 'Naive'.",
        "there is no baseline 'Prophet'.",
        "baseline Theta is named twice.",
    )
    assert "Choose among SeasonalNaive, Naive2, Theta, Ridge" in caught.value.problems[3]
    with pytest.raises(OptionError, match="no baseline is named"):
        check_baselines([])


def test_without_statsforecast_its_models_are_refused_with_the_cure(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check_baselines(DEFAULT_BASELINES)
    with pytest.raises(ForetellError, match=r"pip install 'foretell\[baselines\]'"):
        check_baselines(["AutoETS"])


class Steady:
    """Stands for a model of statsforecast: the last value, intervals as wide as percents."""

    def __init__(self, season_length):
        assert season_length == 2

    def forecast(self, *, y, h, level):
        if len(y) < 3:
            raise NotImplementedError("tiny datasets")
        found = {"mean": np.full(h, y[-1])}
        for percent in level:
            found[f"lo-{percent}"] = found["mean"] - percent
            found[f"hi-{percent}"] = found["mean"] + percent
        return found


@pytest.fixture
def steady(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsforecast.models", SimpleNamespace(AutoETS=Steady))


def test_quantiles_are_read_from_central_intervals(steady):
    levels = (0.05, 0.25, 0.5, 0.9)
    found = statsforecast_quantiles(
        "AutoETS",
        np.array([1.0, 5, 3, np.nan, 10, 20]),
        np.array([0, 4, 6]),
        season_length=2,
        horizon=3,
        levels=levels,
    )
    np.testing.assert_array_equal(found[0], np.tile([3.0 - 90, 3 - 50, 3, 3 + 80], (3, 1)))
    # The second series is too short to be fitted.
    naive = seasonal_naive(np.array([10.0, 20]), np.array([0, 2]), 2, 3).quantiles(levels)
    np.testing.assert_array_equal(found[1], naive[0])


@pytest.mark.skipif(
    importlib.util.find_spec("statsforecast") is None, reason="statsforecast is not installed"
)
@pytest.mark.parametrize("name", ["AutoTheta", "DynamicOptimizedTheta", "AutoETS"])
def test_models_of_statsforecast_itself_answer(name):
    check_statsforecast()
    values = 50 + np.random.default_rng(0).normal(size=40).cumsum()
    levels = (0.05, 0.5, 0.95)
    found = statsforecast_quantiles(
        name, values, np.array([0, 40]), season_length=4, horizon=3, levels=levels
    )
    assert (np.diff(found, axis=2) > 0).all()


def table():
    rng = np.random.default_rng(2)
    days = pd.date_range("2024-01-01", periods=60)
    return pd.concat(
        pd.DataFrame({"unique_id": f"s{i}", "ds": days[-size:], "y": rng.normal(9, 2, size)})
        for i, size in enumerate((60, 44, 9, 60, 31))
    )


def test_scores_do_not_depend_on_how_series_are_laid(stand_in, monkeypatch):
    """Memory is bounded by laying some series at a time; the numbers must not notice."""

    def run():
        return evaluate(
            table(),
            stand_in(),
            columns=Columns(),
            options=ForecastOptions(horizon=4, freq="D"),
            num_windows=2,
        )

    whole = run()
    monkeypatch.setattr(evaluation, "_MOST_STEPS", 70)
    in_pieces = run()
    for one, other in zip(whole.scores, in_pieces.scores, strict=True):
        assert one.mase == pytest.approx(other.mase, rel=1e-9)
        assert one.by_step.wql == pytest.approx(other.by_step.wql, rel=1e-9)
    np.testing.assert_allclose(whole.series.mase, in_pieces.series.mase, rtol=1e-9)
    assert [scores.name for scores in whole.scores] == ["model", *DEFAULT_BASELINES]
