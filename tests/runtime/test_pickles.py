"""A loaded model goes to workers by path: as a Spark or Dask function, or through multiprocessing.

Its pickle is some hundred bytes, and pinned to the bundle that it was loaded from: a table whose
halves were answered by two models would look like any other.
"""

import copy
import multiprocessing
import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from foretell.data.errors import BundleError, RefusedSeriesError
from foretell.runtime import Forecaster, Translator, load, load_forecaster, load_translator

TEXTS = ["one two three", "the lamp is on .", "seven old ships", ""]


@pytest.fixture
def forecaster(make_bundle, softplus: str) -> Forecaster:
    return load_forecaster(make_bundle(level=softplus), device="cpu", threads=1)


@pytest.fixture
def translator(make_translator) -> Translator:
    return load_translator(make_translator(), device="cpu", threads=1)


def table(*ids: str) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    days = pd.date_range("2024-01-01", periods=11)
    return pd.concat(
        [pd.DataFrame({"unique_id": one, "ds": days, "y": rng.normal(size=11)}) for one in ids]
    )


class TestWorkers:
    def test_a_process_of_its_own_gives_the_same_bits(
        self, forecaster: Forecaster, translator: Translator
    ) -> None:
        """Spawned, it has nothing but the pickle; what it raises comes back whole."""
        frame = table("a", "b", "c")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            there = pool.submit(forecaster.forecast, frame, 3)
            texts = pool.submit(translator.translate, TEXTS)
            refused = pool.submit(forecaster.forecast, pd.concat([frame, table("a")]), 3)
            pd.testing.assert_frame_equal(
                there.result(), forecaster.forecast(frame, 3), check_exact=True
            )
            assert repr(texts.result()) == repr(translator.translate(TEXTS))
            with pytest.raises(RefusedSeriesError, match="a: ") as caught:
                refused.result()
        assert set(caught.value.forecast["unique_id"]) == {"b", "c"}

    def test_a_function_around_it_travels_too(self, translator: Translator) -> None:
        """Spark and Dask pickle functions by value, and what they hold with them."""

        def answer(texts: list[str]) -> list[str]:
            return [found.text for found in translator.translate(texts)]

        assert pickle.loads(cloudpickle.dumps(answer))(TEXTS) == answer(TEXTS)

    def test_it_is_small_and_always_the_same(
        self, forecaster: Forecaster, translator: Translator, tmp_path: Path
    ) -> None:
        """A task a series costs nothing more; and Dask knows by it what it has computed."""
        for model in (forecaster, translator):
            pickled = pickle.dumps(model)
            assert len(pickled) < 500 + len(str(tmp_path))
            assert pickle.dumps(pickle.loads(pickled)) == pickled

    def test_options_travel_as_they_were_given(self, make_bundle) -> None:
        """None is no number of cores: each machine takes its own."""
        path = make_bundle()
        for threads in (None, 3):
            model = load(path, device="cpu", threads=threads)
            there = pickle.loads(pickle.dumps(model))
            assert there._origin == model._origin
            assert there.threads == model.threads

    def test_a_copy_in_this_process_is_the_model_itself(self, forecaster: Forecaster) -> None:
        """Libraries copy what they are given, each settings object with the model in it."""
        settings = {"model": forecaster, "horizon": 3}
        assert copy.deepcopy(settings)["model"] is forecaster
        assert copy.copy(forecaster) is forecaster


@pytest.mark.parametrize("kind", ["forecaster", "translator"])
class TestBundleMeanwhile:
    @pytest.fixture
    def model(self, kind: str, request: pytest.FixtureRequest) -> Forecaster | Translator:
        return request.getfixturevalue(kind)

    def test_another_one_at_its_place_is_refused(
        self, model: Forecaster | Translator, kind: str, make_bundle, make_translator
    ) -> None:
        path = model._origin.path
        pickled = pickle.dumps(model)
        shutil.rmtree(path)
        (make_bundle if kind == "forecaster" else make_translator)(
            name=path.relative_to(path.parents[2]).as_posix(), also_write=_note
        )
        with pytest.raises(
            BundleError, match=r"is not the one that was pickled.*SHA-256"
        ) as caught:
            pickle.loads(pickled)
        assert f"bundle {path}" in str(caught.value)
        assert "load the new one and pickle it anew" in str(caught.value)

    def test_the_same_one_copied_anew_is_taken(
        self, model: Forecaster | Translator, kind: str, tmp_path: Path
    ) -> None:
        """It is pinned to what it is, not to a file: workers have copies."""
        path = model._origin.path
        pickled = pickle.dumps(model)
        shutil.copytree(path, tmp_path / "copy")
        shutil.rmtree(path)
        shutil.move(tmp_path / "copy", path)
        assert pickle.loads(pickled).manifest == model.manifest

    def test_one_that_is_gone_is_named_with_the_cure(
        self, model: Forecaster | Translator, kind: str
    ) -> None:
        path = model._origin.path
        pickled = pickle.dumps(model)
        shutil.rmtree(path)
        with pytest.raises(BundleError) as caught:
            pickle.loads(pickled)
        assert f"{path} is missing" in str(caught.value)
        assert "A pickle holds the path, not the model: put the bundle at" in str(caught.value)


def _note(folder: Path) -> None:
    (folder / "note.txt").write_text("trained again")
