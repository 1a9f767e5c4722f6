"""The in-process door, on a stand-in whose answer is the mean of the context it was shown."""

import os
import pickle
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foretell.data.bundles.bundle import (
    ForecasterSpec,
    Manifest,
    TensorSpec,
    TranslatorSpec,
    write_bundle,
)
from foretell.data.errors import (
    BundleError,
    FrequencyError,
    OptionError,
    RefusedSeriesError,
    TableError,
    TableWarning,
)
from foretell.runtime import Forecaster, load
from foretell.runtime.devices import CPU_PROVIDER


@pytest.fixture
def forecaster(make_bundle) -> Forecaster:
    return load(make_bundle(), device="cpu")


def table(**series: list[float | None]) -> pd.DataFrame:
    """Daily series that all start on 2024-01-01."""
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "unique_id": name,
                    "ds": pd.date_range("2024-01-01", periods=len(values), freq="D"),
                    "y": np.array(values, dtype=np.float64),
                }
            )
            for name, values in series.items()
        ],
        ignore_index=True,
    )


class TestForecasting:
    def test_a_table_in_a_table_out(self, forecaster: Forecaster) -> None:
        answer = forecaster.forecast(table(b=[1, 2, 3], a=[10, 10]), 2)
        assert answer.columns.tolist() == ["unique_id", "ds", "forecast", "q0.1", "q0.5", "q0.9"]
        assert answer["unique_id"].tolist() == ["b", "b", "a", "a"]
        assert answer["ds"].tolist() == list(
            pd.to_datetime(["2024-01-04", "2024-01-05", "2024-01-03", "2024-01-04"])
        )
        np.testing.assert_allclose(answer["forecast"], [2, 2, 10, 10])
        np.testing.assert_allclose(answer["q0.1"], [1.6, 1.6, 9.6, 9.6])

    def test_names_of_columns_are_the_callers(self, forecaster: Forecaster) -> None:
        frame = table(a=[1, 2]).set_axis(["shop", "day", "sales"], axis=1)
        answer = forecaster.forecast(frame, 1, id_col="shop", time_col="day", target_col="sales")
        assert answer.columns.tolist()[:3] == ["shop", "day", "forecast"]

    def test_the_point_forecast_is_the_median_whatever_is_asked(
        self, forecaster: Forecaster
    ) -> None:
        frame = table(a=[1, 2, 6])
        assert forecaster.forecast(frame, 1, quantiles=[0.9])["forecast"].tolist() == [3.0]
        assert forecaster.forecast(frame, 1, quantiles=[])["forecast"].tolist() == [3.0]
        assert forecaster.forecast(frame, 1, level=[80.0]).columns.tolist()[3:] == ["q0.1", "q0.9"]

    def test_the_model_looks_at_the_last_context_only(self, forecaster: Forecaster) -> None:
        """The stand-in's context is 12 steps; what lies before must not count."""
        answer = forecaster.forecast(table(a=[1000] * 30 + [5] * 12, b=[7, 9]), 1)
        assert answer["forecast"].tolist() == [5.0, 8.0]

    def test_rows_far_apart_cost_no_more_than_the_context(self, forecaster: Forecaster) -> None:
        """A model of a context of 12 steps lays no 100,000: a small request stays small."""
        count = 200
        frame = pd.DataFrame(
            {
                "unique_id": np.repeat(np.arange(count), 2),
                "ds": pd.to_datetime(["1960-01-01", "2233-10-14"] * count),
                "y": [1000.0, 5.0] * count,
            }
        )
        tracemalloc.start()
        answer = forecaster.forecast(frame, 1, freq="D")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert answer["forecast"].tolist() == [5.0] * count
        assert peak < 16e6

    def test_padding_is_not_observed(self, forecaster: Forecaster) -> None:
        lengths = range(1, 20)
        answer = forecaster.forecast(table(**{f"s{n}": [3.5] * n for n in lengths}), 1, freq="D")
        assert answer["forecast"].tolist() == [3.5] * len(lengths)

    def test_each_series_steps_on_its_own_calendar(self, make_bundle, spec: ForecasterSpec) -> None:
        hours = pd.date_range("2024-01-30 21:00", periods=3, freq="h")
        months = pd.to_datetime(["2023-11-30", "2023-12-31", "2024-01-31"])
        frame = pd.DataFrame(
            {
                "unique_id": ["h"] * 3 + ["m"] * 3,
                "ds": hours.append(pd.DatetimeIndex(months)),
                "y": 1.0,
            }
        )
        model = load(make_bundle(replace(spec, frequency="any")), device="cpu")
        answer = model.forecast(frame, 2)
        assert [str(stamp) for stamp in answer["ds"]] == [
            "2024-01-31 00:00:00",
            "2024-01-31 01:00:00",
            "2024-02-29 00:00:00",
            "2024-03-31 00:00:00",
        ]

    def test_covariates_reach_the_graph_in_the_manifests_order(
        self, make_bundle, covariate_spec: ForecasterSpec
    ) -> None:
        """The stand-in writes each column into its own decimal place; the tables are shuffled."""
        frame = table(a=[0, 0], b=[0, 0])
        frame = frame.assign(
            visits=[1, 1, 0, 0], size=[1, 1, 2, 2], price=[1, 0, 0, 0], promo=[1, 0, 0, 1]
        )
        future = pd.DataFrame(
            {
                "price": [3, 4, 7, 8],
                "promo": [1, 2, 5, 6],
                "ds": pd.to_datetime(["2024-01-03", "2024-01-04"] * 2),
                "unique_id": ["a", "a", "b", "b"],
            }
        )
        model = load(make_bundle(covariate_spec), device="cpu")
        answer = model.forecast(frame.iloc[::-1], 2, future=future.sample(frac=1, random_state=0))
        answer = answer.sort_values(["unique_id", "ds"])
        past_a, past_b = 1 + 10 + 200, 1
        assert answer["forecast"].tolist() == [
            1000 + past_a + 31,
            1000 + past_a + 42,
            2000 + past_b + 75,
            2000 + past_b + 86,
        ]

    def test_threads_may_share_one(self, forecaster: Forecaster) -> None:
        frames = [table(**{f"s{n}": [n, n + 2] for n in range(k, k + 5)}) for k in range(16)]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda frame: forecaster.forecast(frame, 3), frames))
        for frame, answer in zip(frames, answers, strict=True):
            pd.testing.assert_frame_equal(answer, forecaster.forecast(frame, 3))


class TestRefusing:
    def test_a_series_without_a_value_in_sight_is_refused_and_the_others_are_not(
        self, forecaster: Forecaster
    ) -> None:
        """HC01: its answer would be made of nothing."""
        frame = table(a=[1, 3], gone=[5] + [None] * 12, b=[4, 4])
        with pytest.raises(
            RefusedSeriesError, match="no value is observed in the last 12"
        ) as caught:
            forecaster.forecast(frame, 1)
        (refusal,) = caught.value.refusals
        assert (refusal.position, refusal.unique_id) == (1, "gone")
        assert caught.value.forecast["unique_id"].tolist() == ["a", "b"]
        assert caught.value.forecast["forecast"].tolist() == [2.0, 4.0]

    def test_refusals_of_every_floor_come_in_order(self, forecaster: Forecaster) -> None:
        frame = table(
            gone=[5] + [None] * 12, a=[1, 3], blank=[None, None], unseen=[1] + [None] * 14
        )
        with pytest.raises(RefusedSeriesError) as caught:
            forecaster.forecast(frame, 1)
        assert [(r.position, r.unique_id) for r in caught.value.refusals] == [
            (0, "gone"),
            (2, "blank"),
            (3, "unseen"),
        ]

    def test_all_may_be_refused(self, forecaster: Forecaster) -> None:
        with pytest.raises(RefusedSeriesError) as caught:
            forecaster.forecast(table(gone=[5] + [None] * 12), 3)
        assert len(caught.value.forecast) == 0

    def test_an_answer_that_is_not_finite_is_never_handed_out(self, make_bundle) -> None:
        model = load(make_bundle(scale=1e300), device="cpu")
        with pytest.raises(RefusedSeriesError, match="answer is not finite") as caught:
            model.forecast(table(a=[1, 1], giant=[1e90, 1e90]), 1)
        assert caught.value.forecast["unique_id"].tolist() == ["a"]

    def test_levels_beyond_the_trained_are_refused(self, forecaster: Forecaster) -> None:
        with pytest.raises(
            OptionError, match=r"quantile 0\.95 is outside the range .* 0\.1 to 0\.9"
        ):
            forecaster.forecast(table(a=[1, 2]), 1, quantiles=[0.95])

    def test_another_frequency_is_refused_unless_allowed(
        self, make_bundle, spec: ForecasterSpec
    ) -> None:
        model = load(make_bundle(replace(spec, frequency="h")), device="cpu")
        with pytest.raises((FrequencyError, RefusedSeriesError), match=r"D.*h"):
            model.forecast(table(a=[4] * 9), 1)
        answer = model.forecast(table(a=[4] * 9), 1, allow_other_frequency=True)
        assert answer["forecast"].tolist() == [4.0]

    def test_missing_known_future_columns_are_named(
        self, make_bundle, covariate_spec: ForecasterSpec
    ) -> None:
        frame = table(a=[1, 2]).assign(visits=1, size=1, promo=0, price=0)
        model = load(make_bundle(covariate_spec), device="cpu")
        with pytest.raises(TableError, match=r"promo.*price"):
            model.forecast(frame, 1)

    def test_a_future_table_that_is_not_used_is_a_warning(self, forecaster: Forecaster) -> None:
        frame = table(a=[1, 2])
        with pytest.warns(TableWarning, match="future table is not used"):
            forecaster.forecast(frame, 1, future=frame)


class TestLoading:
    def test_a_models_newest_version_is_loaded(self, make_bundle) -> None:
        make_bundle(name="demand/9", scale=1.0)
        make_bundle(name="demand/10", scale=10.0)
        model = load(make_bundle(name="demand/2").parent, device="cpu")
        assert model.forecast(table(a=[1, 1]), 1)["forecast"].tolist() == [10.0]

    def test_it_says_what_it_is_and_where_it_runs(self, forecaster: Forecaster) -> None:
        assert forecaster.provider == CPU_PROVIDER
        assert forecaster.manifest.forecaster.context_length == 12
        assert CPU_PROVIDER in repr(forecaster)

    def test_a_pickled_one_answers_the_same_from_any_folder(
        self, make_bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Workers of a job get the model by path, whatever their working folder is."""
        path = make_bundle()
        monkeypatch.chdir(path.parent)
        pickled = pickle.dumps(load("1", device="cpu", threads=1))
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        answer = pickle.loads(pickled).forecast(table(a=[1, 3]), 1)
        assert answer["forecast"].tolist() == [2.0]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_process_answers_too(self, make_bundle) -> None:
        """Worker threads don't survive a fork; a web server that forks after loading would hang."""
        script = """
import os, sys
import pandas as pd
from foretell.runtime import load

model = load(sys.argv[1], device="cpu")
frame = pd.DataFrame({"unique_id": "a", "ds": range(3), "y": [1.0, 2.0, 6.0]})
print(model.forecast(frame, 1, allow_other_frequency=True)["forecast"].tolist(), flush=True)
child = os.fork()
if child:
    os.waitpid(child, 0)
print(model.forecast(frame, 1, allow_other_frequency=True)["forecast"].tolist(), flush=True)
if child == 0:
    os._exit(0)  # as multiprocessing's workers end
"""
        command = [sys.executable, "-c", script, str(make_bundle())]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert result.stdout.splitlines() == ["[3.0]"] * 3

    def test_a_folder_that_is_none_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match="nowhere is missing"):
            load(tmp_path / "nowhere")

    def test_a_bundle_of_another_kind_is_refused(self, tmp_path: Path) -> None:
        translator = Manifest(
            kind="translator",
            precision="fp32",
            config={},
            translator=TranslatorSpec(
                arch="recurrent",
                vocab_size=600,
                max_source_length=64,
                max_target_length=64,
                has_attention=False,
            ),
            graphs=(),
            training={},
            tool_versions={},
        )
        bundle = write_bundle(tmp_path / "ende", lambda _: translator)
        with pytest.raises(
            BundleError, match=rf"bundle {bundle.path} holds a translator; expected a forecaster"
        ):
            Forecaster(bundle.path)

    def test_a_graph_without_the_forecasters_inputs_is_refused(
        self, make_bundle, covariate_spec: ForecasterSpec
    ) -> None:
        path = make_bundle(replace(covariate_spec, static=()))
        with pytest.raises(BundleError, match=r"'static'.*must be \['context', .*_covariates'\]"):
            load(path, device="cpu")

    @pytest.mark.parametrize("shape", [(1, "context_len"), ("batch", 12)])
    def test_a_graph_of_fixed_sizes_is_refused_at_once(
        self, make_bundle, spec: ForecasterSpec, shape: tuple[str | int, ...]
    ) -> None:
        """It would answer its own sample, and fail whoever asks for two series."""
        inputs = (
            TensorSpec("context", "float64", shape),
            TensorSpec("horizon_placeholder", "float64", ("batch", "horizon")),
        )
        path = make_bundle(spec, inputs=inputs)
        with pytest.raises(BundleError, match=r"only certain numbers of series or steps \(context"):
            load(path, device="cpu")
