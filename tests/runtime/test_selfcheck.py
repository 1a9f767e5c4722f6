"""The sample in a bundle tells a machine that computes something else, before it serves."""

import json
from pathlib import Path

import numpy as np
import pytest

from foretell.data.bundles.bundle import read_bundle
from foretell.data.errors import BundleError
from foretell.runtime import Translator
from foretell.runtime.selfcheck import (
    SAMPLE_FILE,
    check_sample,
    check_translator_sample,
    write_sample,
    write_translator_sample,
)
from foretell.runtime.session import Session


def check(make_bundle, quantiles: list[float]) -> float:
    """Check a stand-in (mean 2, offsets -0.4, 0, 0.4) against a stored answer."""
    inputs = {
        "context": np.array([[np.nan, 1.0, 3.0]]),
        "horizon_placeholder": np.full((1, 1), np.nan),
    }
    answer = np.array(quantiles).reshape(1, 1, 3)

    def also_write(folder: Path) -> None:
        write_sample(folder, inputs, answer)

    bundle = read_bundle(make_bundle(also_write=also_write))
    return check_sample(bundle, Session(bundle, "forecaster.onnx", device="cpu"))


def test_the_same_answer_holds_and_gaps_survive_the_file(make_bundle) -> None:
    assert check(make_bundle, [1.6, 2.0, 2.4]) < 1e-12


def test_rounding_of_another_processor_is_allowed(make_bundle) -> None:
    assert 0 < check(make_bundle, [1.6, 2.0, 2.4 + 1e-6]) < 1e-5


@pytest.mark.parametrize("wrong", [2.5, -2.4])
def test_another_answer_is_refused_with_its_difference(make_bundle, wrong: float) -> None:
    with pytest.raises(BundleError, match=r"own sample differs by .* on CPUExecutionProvider"):
        check(make_bundle, [1.6, 2.0, wrong])


def spoil(text: str, **changes: object) -> str:
    """Put other values into a sample, deep inside too: "answers" are those of its searches."""
    sample = json.loads(text)
    for search in sample.get("searches", []):
        search.update({name: value for name, value in changes.items() if name in search})
        for answer in search["answers"] if isinstance(search["answers"], list) else []:
            answer.update({name: value for name, value in changes.items() if name in answer})
    sample.update({name: value for name, value in changes.items() if name in sample})
    return json.dumps(sample)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: "[]",
        lambda text: "{}",
        lambda text: "\xff",
        lambda text: spoil(text, quantiles=[]),
        lambda text: spoil(text, quantiles=[2.0]),
        lambda text: spoil(text, quantiles="2"),
        lambda text: spoil(text, quantiles=None),
        lambda text: spoil(text, inputs={}),
        lambda text: spoil(text, inputs={"context": {"shape": [-5], "values": ["a"]}}),
        lambda text: text.replace("context", "contents"),
        lambda text: text.replace("1.0", "1e999"),
    ],
)
def test_a_damaged_sample_is_refused_as_such(make_bundle, change) -> None:
    """It neither passes nor ends in a traceback: who verifies a bundle wants to know."""

    def also_write(folder: Path) -> None:
        inputs = {"context": np.ones((1, 3)), "horizon_placeholder": np.full((1, 1), np.nan)}
        write_sample(folder, inputs, np.array([[[0.6, 1.0, 1.4]]]))
        (folder / SAMPLE_FILE).write_text(change((folder / SAMPLE_FILE).read_text()), "latin-1")

    bundle = read_bundle(make_bundle(also_write=also_write))
    with pytest.raises(BundleError, match=r"own sample(, sample\.json, can't be run| differs)"):
        check_sample(bundle, Session(bundle, "forecaster.onnx", device="cpu"))


def test_a_bundle_without_a_sample_is_refused(make_bundle) -> None:
    bundle = read_bundle(make_bundle())
    with pytest.raises(BundleError, match=r"has no sample\.json; export the model again"):
        check_sample(bundle, Session(bundle, "forecaster.onnx", device="cpu"))


class TestTranslators:
    SENTENCES = ("the red door", "seven old ships and one", "")

    def check(self, make_translator, change=lambda text: text, boost: float = 8.0) -> float:
        """Check a stand-in against the answer of one whose boost is 8, changed or not."""
        maker = Translator(make_translator(name="maker"), device="cpu")

        def also_write(folder: Path) -> None:
            write_translator_sample(folder, maker, self.SENTENCES)
            file = folder / SAMPLE_FILE
            file.write_text(change(file.read_text()))

        bundle = read_bundle(make_translator(boost=boost, also_write=also_write))
        return check_translator_sample(bundle, Translator(bundle, device="cpu"))

    def test_the_same_answer_holds(self, make_translator) -> None:
        assert self.check(make_translator) < 1e-6

    def test_rounding_of_another_processor_is_allowed(self, make_translator) -> None:
        assert 0 < self.check(make_translator, boost=8.0001) < 1e-3

    def test_an_equally_good_translation_is_allowed(self, make_translator) -> None:
        assert self.check(make_translator, lambda text: text.replace("▁red", "▁blue")) < 1e-6

    def test_another_answer_is_refused(self, make_translator) -> None:
        with pytest.raises(BundleError, match=r"own sample differs by .* on CPUExecutionProvider"):
            self.check(make_translator, boost=6.0)

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: "{}",
            lambda text: "[1]",
            lambda text: spoil(text, searches=[]),
            lambda text: spoil(text, searches=7),
            lambda text: spoil(text, sentences=[]),
            lambda text: spoil(text, sentences=[], answers=[]),
            lambda text: spoil(text, sentences=["", " ", "-"]),
            lambda text: spoil(text, sentences="the red door"),
            lambda text: spoil(text, sentences=["one " * 99] * 3),
            lambda text: spoil(text, answers=[]),
            lambda text: spoil(text, beam_size="two"),
            lambda text: spoil(text, log_probs=[]),
            lambda text: spoil(text, log_probs=[0.0]),
            lambda text: spoil(text, log_probs=["a"]),
            lambda text: spoil(text, log_probs=[float("nan")] * 3),
            lambda text: spoil(text, tokens=[], score="good"),
        ],
    )
    def test_a_damaged_sample_is_refused_as_such(self, make_translator, change) -> None:
        """A sample without sentences passed, whatever the model."""
        with pytest.raises(BundleError, match=r"own sample(, sample\.json, can't be run| differs)"):
            self.check(make_translator, change)

    def test_a_bundle_without_a_sample_is_refused(self, make_translator) -> None:
        bundle = read_bundle(make_translator())
        with pytest.raises(BundleError, match=r"has no sample\.json; export the model again"):
            check_translator_sample(bundle, Translator(bundle, device="cpu"))
