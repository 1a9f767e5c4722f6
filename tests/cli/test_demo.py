"""The tour, but for its accuracy and its export, which other tests and `make demo` see to."""

import shutil

import pytest

from foretell.cli import demo
from foretell.cli.demo_translator import number_words


def test_demo_leaves_models_answers_and_pictures(
    foretell, bundle_path, translator_bundle_path, tmp_path, monkeypatch
):
    def copy(run, target):
        built = bundle_path if run.name == "forecaster" else translator_bundle_path
        shutil.copytree(built, target)

    monkeypatch.setattr(demo, "_export", copy)
    ended = foretell("demo", "--output", "tour", "--steps", 2, "--translator-steps", 2)
    assert ended.code == 0
    assert "to the last bit" in ended.err
    lines = ended.out.splitlines()
    assert lines[1].startswith("1960-01       417")
    assert lines[13].startswith("MASE: foretell ")
    assert lines[15] == number_words()[1][0][0]
    assert lines[-1].endswith("of 200 numbers that it has never seen are right, word for word")
    left = sorted(path.name for path in (tmp_path / "tour").iterdir())
    assert left == ["attention.png", "forecast.csv", "forecast.png", "models", "runs"]


def test_no_number_is_both_learned_and_asked():
    known, unknown = number_words()
    assert len(known) == 6000
    assert len(unknown) == 200
    assert not set(known) & set(unknown)


@pytest.mark.parametrize("option", ["--steps", "--translator-steps"])
def test_no_training_is_no_tour(foretell, option):
    assert foretell("demo", option, 0).code == 2
