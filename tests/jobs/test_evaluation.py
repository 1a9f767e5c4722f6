"""An evaluation that lets a model see what it must forecast makes every model look good."""

import math

import numpy as np
import pandas as pd
import pytest

from foretell.data.errors import OptionError, TableError
from foretell.data.measures.baselines import seasonal_naive
from foretell.data.measures.metrics import mase, seasonal_scale, smape
from foretell.data.series.options import Columns, ForecastOptions
from foretell.jobs.evaluation.backtest import evaluate


def series(name, size, *, freq="D", end="2024-06-30", seed=0):
    values = 50 + np.random.default_rng(seed).normal(size=size).cumsum()
    stamps = pd.date_range(end=end, periods=size, freq=freq)
    return pd.DataFrame({"unique_id": name, "ds": stamps, "y": values})


TABLE = pd.concat([series("a", 40), series("b", 25, end="2024-03-31", seed=1)])


def run(table, model, *, horizon=5, **options):
    columns = Columns(future_covariates=model.manifest.forecaster.future_covariates)
    given = {name: options.pop(name) for name in ("freq",) if name in options}
    return evaluate(
        table,
        model,
        columns=columns,
        options=ForecastOptions(horizon=horizon, **given),
        **options,
    )


def test_scores_are_those_of_a_loop_over_windows_and_series(stand_in):
    """The stand-in repeats the last value; its scores by the definitions, window by window."""
    found = run(TABLE, stand_in(), num_windows=3, season_length=7)
    errors, percents = [], []
    for back in (15, 10, 5):
        for _, own in TABLE.groupby("unique_id"):
            y = own["y"].to_numpy()
            past = y[: len(y) - back]
            actual = y[None, len(y) - back : len(y) - back + 5]
            forecast = np.full((1, 5), past[-1])
            scale = seasonal_scale(past, np.array([0, past.size]), 7)
            errors.append(mase(actual, forecast, scale)[0])
            percents.append(smape(actual, forecast)[0])
    model = found.scores[0]
    assert model.mase == pytest.approx(np.mean(errors))
    assert model.smape == pytest.approx(np.mean(percents))
    assert (found.num_series, found.num_windows, found.season_length) == (2, 3, 7)


def test_no_window_shows_what_it_asks_for(stand_in):
    model = stand_in()
    run(TABLE, model, num_windows=3)
    assert len(model.asked) == 3
    for back, (rows, _, _) in zip((15, 10, 5), model.asked, strict=True):
        for i, name in enumerate(rows.ids):
            own = TABLE[TABLE["unique_id"] == name]
            stamps = rows.stamps[rows.indptr[i] : rows.indptr[i + 1]]
            np.testing.assert_array_equal(
                stamps, own["ds"].astype("datetime64[ns]").astype("int64")[: len(own) - back]
            )
            np.testing.assert_array_equal(
                rows.target[rows.indptr[i] : rows.indptr[i + 1]], own["y"][: len(own) - back]
            )


def test_seasonal_naive_beside_itself_has_the_same_scores(stand_in):
    model = stand_in(
        lambda context, horizon: seasonal_naive(
            context, np.array([0, context.size]), 7, horizon
        ).mean[0]
    )
    ours, naive, *_ = run(TABLE, model, num_windows=2, season_length=7).scores
    assert (ours.mase, ours.smape) == pytest.approx((naive.mase, naive.smape))


def test_a_perfect_model_has_no_error_and_full_coverage(stand_in):
    line = pd.concat([series(name, 30).assign(y=np.arange(30.0)) for name in "ab"])
    model = stand_in(lambda context, horizon: context[-1] + 1 + np.arange(horizon))
    scores = run(line, model).scores[0]
    assert (scores.mase, scores.smape, scores.wql, scores.coverage[80]) == (0, 0, 0, 1)


def test_a_gap_at_the_cut_does_not_move_the_window(stand_in):
    """Counting rows for steps would let the forecast start too early and be compared shifted."""
    line = series("a", 30).assign(y=np.arange(30.0))
    gappy = line.drop(index=[23, 24, 27])  # the two days before the cut, and one after it
    model = stand_in(lambda context, horizon: context[-1] + 3 + np.arange(horizon))
    scores = run(gappy, model).scores[0]
    assert (scores.mase, scores.smape) == (0, 0)


def test_order_of_rows_does_not_matter(stand_in):
    shuffled = TABLE.sample(frac=1, random_state=0).sort_values("unique_id", kind="stable")
    assert run(shuffled, stand_in()).scores == run(TABLE, stand_in()).scores


def test_months_keep_their_ends(stand_in):
    model = stand_in()
    run(series("a", 30, freq="ME"), model, horizon=3)
    rows = model.asked[0][0]
    assert pd.DatetimeIndex(rows.stamps.view("M8[ns]")).is_month_end.all()


def test_known_future_of_each_window_is_that_of_its_horizon(stand_in):
    table = series("a", 20).assign(promo=np.arange(20.0))
    model = stand_in(future_covariates=("promo",))
    run(table, model, horizon=4, num_windows=2)
    known = [future.covariates[:, 0].tolist() for _, future, _ in model.asked]
    assert known == [[12, 13, 14, 15], [16, 17, 18, 19]]
    assert model.asked[0][0].covariates[:, 0].tolist() == list(range(12))


def test_a_series_too_short_for_a_window_stands_in_the_others(stand_in):
    table = pd.concat([series("long", 30), series("short", 8)])
    model = stand_in()
    found = run(table, model, num_windows=3, freq="D")
    assert [len(rows.ids) for rows, _, _ in model.asked] == [1, 1, 2]
    assert (found.num_series, found.refusals) == (2, ())


def test_refused_series_are_told_and_the_others_measured(stand_in):
    twice = pd.concat([series("twice", 20), series("twice", 1)])
    found = run(pd.concat([TABLE, twice]), stand_in())
    assert [refusal.unique_id for refusal in found.refusals] == ["twice"]
    assert "2 rows" in found.refusals[0].reason
    assert found.scores[0] == run(TABLE, stand_in()).scores[0]


def test_a_constant_series_has_no_mase_but_the_others_do(stand_in):
    found = run(pd.concat([TABLE, series("flat", 30).assign(y=4.0)]), stand_in())
    assert found.scores[0].mase == pytest.approx(run(TABLE, stand_in()).scores[0].mase)
    assert not math.isnan(found.scores[0].wql)


def test_nothing_long_enough_is_refused(stand_in):
    with pytest.raises(TableError, match="smaller --horizon"):
        run(series("a", 5), stand_in(), horizon=5)


def test_different_seasons_are_refused_not_mixed(stand_in):
    table = pd.concat([series("day", 30), series("hour", 30, freq="h")])
    with pytest.raises(OptionError, match=r"seasons of \[7, 24\] steps; give --season-length"):
        run(table, stand_in())
    assert run(table, stand_in(), season_length=7).num_series == 2


@pytest.mark.parametrize(
    "stamps",
    [
        pd.date_range("2024-03-29", periods=80, freq="h", tz="Europe/Berlin"),
        range(100, 500, 5),
        pd.bdate_range("2024-01-01", periods=80),
    ],
    ids=["zoned over the spring change", "integer steps", "business days"],
)
def test_every_kind_of_stamp_is_cut_on_its_grid(stand_in, stamps):
    """The line goes on by one a step; a window that is off by a step shows as an error."""
    line = pd.DataFrame({"unique_id": "a", "ds": stamps, "y": np.arange(80.0)})
    model = stand_in(lambda context, horizon: context[-1] + 1 + np.arange(horizon))
    found = run(line, model, horizon=6, num_windows=4)
    assert (found.num_windows, found.scores[0].mase) == (4, 0)


@pytest.mark.parametrize(
    ("record", "warned"),
    [
        ({"last_stamp": "2024-06-30", "holdout": 10}, False),
        ({"last_stamp": "2024-06-30", "holdout": 9}, True),
        ({"last_stamp": "2024-12-31", "holdout": 100}, True),
        ({"last_stamp": "2024-01-31", "holdout": 0}, False),
        ({}, False),
    ],
)
def test_steps_that_the_model_was_trained_on_are_warned_of(stand_in, record, warned):
    """Scores on seen data say nothing; the bundle knows what it saw."""
    model = stand_in()
    model.manifest.training = record
    found = run(TABLE, model, num_windows=2)
    assert bool(found.warnings) == warned
    if warned:
        assert "are not all new to it" in found.warnings[0]


def test_windows_that_nothing_stands_in_are_no_steps_that_the_model_has_seen(stand_in):
    """A hundred windows of 5 steps are asked for, but the longer series has 40."""
    model = stand_in()
    model.manifest.training = {"last_stamp": "2024-06-30", "holdout": 35}
    found = run(TABLE, model, num_windows=100)
    assert (found.num_windows, found.warnings) == (7, ())


def test_a_gap_in_the_known_future_of_a_window_is_told_of_this_table(stand_in):
    """There is no future table here: the cure is a row in the table that is evaluated."""
    table = TABLE.assign(promo=1.0)
    gap = (table["unique_id"] == "a") & (table["ds"] == "2024-06-28")
    found = run(table[~gap], stand_in(future_covariates=("promo",)), season_length=7)
    (refusal,) = found.refusals
    assert refusal.unique_id == "a"
    assert refusal.reason.startswith("in the evaluated steps of this table, ")
    assert "2024-06-28" in refusal.reason
    assert refusal.reason.endswith("Its y may be blank.")
    assert (found.num_series, found.num_total) == (1, 2)
