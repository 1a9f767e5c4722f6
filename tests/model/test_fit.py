"""From a table to a run folder: what may be seen, what is refused, what is recorded."""

import numpy as np
import pandas as pd
import pytest
import torch

from foretell.data.errors import BundleError, ForetellError, OptionError, TableError
from foretell.data.series.options import Columns
from foretell.model.config import ForecasterConfig, TrainingConfig
from foretell.model.fit import fit_forecaster
from foretell.model.run import read_run

MODEL = ForecasterConfig(
    patch_length=4, context_length=24, d_model=8, num_layers=1, num_heads=2, d_ff=8
)


def table(num_series=3, steps=60):
    rng = np.random.default_rng(0)
    return pd.concat(
        pd.DataFrame(
            {
                "unique_id": f"s{i}",
                "ds": pd.date_range("2024-01-01", periods=steps, freq="D"),
                "y": rng.normal(10, 1, steps).cumsum(),
                "promo": rng.normal(5, 2, steps),
                "size": float(i),
            }
        )
        for i in range(num_series)
    )


def fit(df, run, **changes):
    training = TrainingConfig(steps=4, batch_size=4, warmup_steps=1, checkpoint_every=2)
    arguments = {
        "columns": Columns(),
        "freq": "D",
        "horizon": 7,
        "model": MODEL,
        "training": training,
        "run": run,
    }
    return fit_forecaster(df, **{**arguments, **changes})


def weights(run):
    return read_run(run).model().state_dict()


def test_held_out_steps_change_no_weight(tmp_path):
    """What is held out must not reach the model by any way, or the evaluation would be a lie."""
    df = table()
    fit(df, tmp_path / "a", holdout=7)
    changed = df.copy()
    last = changed.groupby("unique_id")["ds"].transform("max")
    changed.loc[changed["ds"] > last - pd.Timedelta(days=7), "y"] = 1e6
    fit(changed, tmp_path / "b", holdout=7)
    first, second = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_run_says_what_it_was(tmp_path):
    summary = fit(table(), tmp_path / "run", holdout=5)
    run = read_run(tmp_path / "run")
    assert (summary.num_series, summary.num_observed) == (3, 3 * (60 - 5))  # none held out
    assert run.config == MODEL
    assert (run.spec.frequency, run.spec.horizon, run.spec.season_length) == ("D", 7, 7)
    assert run.training["holdout"] == 5
    assert run.training["last_stamp"] == "2024-02-29"
    assert run.training["steps"] == 4
    assert len(run.training["fingerprint"]) == 64


def test_covariates_are_measured_on_what_training_sees(tmp_path):
    df = table()
    columns = Columns(future_covariates=("promo",), static=("size",))
    model = ForecasterConfig(
        **{**MODEL.to_json(), "quantile_levels": MODEL.quantile_levels}
        | {"num_future_covariates": 1, "num_static": 1}
    )
    fit(df, tmp_path / "run", columns=columns, model=model, holdout=10)
    saved = weights(tmp_path / "run")
    seen = df.groupby("unique_id").head(60 - 10 - 7)["promo"]
    assert float(saved["standardise.mean"][0]) == pytest.approx(seen.mean())
    assert float(saved["standardise.std"][0]) == pytest.approx(seen.std(ddof=0))
    assert float(saved["standardise_static.mean"][0]) == pytest.approx(1.0)


def test_a_finished_or_foreign_run_is_never_replaced_silently(tmp_path):
    fit(table(), tmp_path / "run")
    with pytest.raises(ForetellError, match=r"holds a training run already.*\(overwrite\)"):
        fit(table(), tmp_path / "run")
    told = r"was started otherwise:\nthe data were others\.\nhorizon: 7 then, 3 now\.\nResume"
    with pytest.raises(ForetellError, match=told):
        fit(table(steps=50), tmp_path / "run", horizon=3, resume=True)
    fit(table(steps=50), tmp_path / "run", overwrite=True)
    assert read_run(tmp_path / "run").training["num_observed"] == 150


def test_resuming_a_finished_run_gives_the_same(tmp_path):
    fit(table(), tmp_path / "run")
    before = weights(tmp_path / "run")
    fit(table(), tmp_path / "run", resume=True)
    after = weights(tmp_path / "run")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_series_that_cannot_be_used_stop_the_training_unless_left_out(tmp_path):
    df = table()
    bad = pd.concat([df, df.assign(unique_id="twice"), df.assign(unique_id="twice")])
    with pytest.raises(TableError, match=r"series twice: 2024-01-01 has 6 rows[\s\S]*skip_refused"):
        fit(bad, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    summary = fit(bad, tmp_path / "run", skip_refused=True)
    assert [refusal.unique_id for refusal in summary.refusals] == ["twice"]
    assert summary.num_series == 3


def test_too_little_data_is_refused(tmp_path):
    with pytest.raises(TableError, match="no series has two steps to train on; the longest has 9"):
        fit(table(steps=9), tmp_path / "run", holdout=8)


def test_options_that_do_not_fit_are_all_told(tmp_path):
    with pytest.raises(OptionError) as error:
        fit(
            table(),
            tmp_path / "run",
            horizon=0,
            holdout=-1,
            columns=Columns(future_covariates=("promo",)),
        )
    assert len(error.value.problems) == 3


def test_short_series_are_trained_on_without_validation(tmp_path):
    summary = fit(table(steps=10), tmp_path / "run")
    assert summary.state.validation_loss is None or summary.state.validation_loss == 0.0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda folder: None, "is no training run"),
        (lambda folder: (folder / "inputs.json").touch(), "has not finished; go on"),
        (lambda folder: (folder / "run.json").write_text("{"), "is damaged"),
    ],
)
def test_a_folder_that_is_no_run_is_named(tmp_path, make, text):
    make(tmp_path)
    with pytest.raises(BundleError, match=text):
        read_run(tmp_path)


def test_a_file_is_no_place_for_a_run(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ForetellError, match="run is a file; give the path of a folder"):
        fit(table(), tmp_path / "run", overwrite=True)
    assert (tmp_path / "run").read_text() == "mine"
