"""`foretell inspect-gradients`: what it prints, draws and refuses."""

import json
import math
import shutil
import sys
from dataclasses import replace

import pytest
import torch

from foretell.cli.inspect_gradients import readable
from foretell.data.bundles.manifest import ForecasterSpec, TranslatorSpec
from foretell.data.text.number_words import english_words
from foretell.data.text.tokenizer import TOKENIZER_FILE
from foretell.data.text.tokenizer_training import train_tokenizer
from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster
from foretell.model.gradients import measure_gradients
from foretell.model.run import ForecasterRun, TranslatorRun, make_translator, read_run, write_run
from foretell.model.translator_config import RecurrentConfig, TransformerConfig

TEXT = "".join(f"{english_words(n)}\n" for n in range(1000, 1040))
RECURRENT = RecurrentConfig(vocab_size=320, d_model=8, max_source_length=30, max_target_length=30)
TRANSFORMER = TransformerConfig(vocab_size=320, d_model=8, num_heads=2, d_ff=8)


@pytest.fixture
def run(tmp_path):
    """Makes the run of a translator that was trained for no step; its folder is `run`."""

    def make(config=RECURRENT, change=None):
        folder = tmp_path / "run"
        folder.mkdir()
        tokenizer = train_tokenizer(TEXT.splitlines(), 320, folder / TOKENIZER_FILE)
        config = replace(config, vocab_size=tokenizer.vocab_size)
        torch.manual_seed(0)
        model = make_translator(config)
        if change is not None:
            with torch.no_grad():
                change(model)
        spec = TranslatorSpec(
            arch="recurrent" if isinstance(config, RecurrentConfig) else "transformer",
            vocab_size=config.vocab_size,
            max_source_length=config.max_source_length,
            max_target_length=config.max_target_length,
            has_attention=model.has_attention,
        )
        write_run(TranslatorRun(path=folder, config=config, spec=spec, training={}), model)
        (tmp_path / "in.en").write_text(TEXT)
        return folder

    return make


@pytest.fixture
def inspect(foretell):
    """Run the command on one thread: the test's machine has others to do."""
    return lambda *arguments: foretell("inspect-gradients", *arguments, "--threads", 1)


def test_the_help_shows_an_example(foretell):
    ended = foretell("inspect-gradients", "--help")
    assert ended.code == 0
    assert "Example: foretell inspect-gradients runs/ende" in " ".join(ended.out.split())


def test_it_prints_spectra_norms_by_lag_and_words(inspect, run):
    run()
    ended = inspect("run", "--src", "in.en", "--sentences", 5)
    assert ended.code == 0
    assert "gru cells, width 8, 5 sentences" in ended.out
    lines = ended.out.splitlines()
    for start in ("encoder, forward   reset", "encoder, backward", "decoder", "‖∂h_t/∂h_k‖ at lag"):
        assert any(line.startswith(start) for line in lines), start
    for gate in ("reset", "update", "new", "geometric mean", "10 %", "90 %", "bound by λ1"):
        assert ended.out.count(f" {gate} ") == 3, gate
    words = [line for line in lines if ": gradients " in line]
    assert [line.split(":")[0] for line in words] == [
        "encoder, forward",
        "encoder, backward",
        "decoder",
    ]
    assert all(" a step, " in line and " steps; after " in line for line in words)
    assert max(map(len, lines[1:])) <= 100  # the first names the folder, however long


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (1.0, "1.0"),
        (2.0664, "2.1"),
        (0.0024, "0.0024"),
        (0.00012, "0.00012"),
        (8.3e-05, "8.3e-5"),
        (9.96, "10"),
        (480.0, "480"),
        (9_930.0, "9,900"),
        (15_200.0, "1.5e4"),
        (5.3e-30, "5.3e-30"),
        (math.inf, "inf"),
    ],
)
def test_numbers_have_the_digits_that_count_and_no_more(number, text):
    assert readable(number) == text


def test_singular_values_are_told_to_three_digits(inspect, run):
    """Whether λ1 is below 1 or above decides."""
    run(replace(RECURRENT, cell="tanh"), shrink)
    (line,) = [line for line in inspect("run").out.splitlines() if line.startswith("decoder  ")]
    assert line.split() == ["decoder", "hidden", "0.200", "0.200", "0.200"]


def test_the_json_holds_the_numbers_that_the_library_measures(inspect, run):
    folder = run()
    ended = inspect("run", "--src", "in.en", "--sentences", 3, "--json")
    told = json.loads(ended.out)
    found = read_run(folder)
    from foretell.data.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_file(folder / TOKENIZER_FILE)
    sources = [tokenizer.encode(line) for line in TEXT.splitlines()[:3]]
    flows = measure_gradients(found.model(), sources)
    assert told["num_sentences"] == 3
    assert [layer["name"] for layer in told["layers"]] == [flow.name for flow in flows]
    for layer, flow in zip(told["layers"], flows, strict=True):
        assert layer["rate"] == pytest.approx(flow.rate)
        assert layer["verdict"] == flow.verdict
        assert layer["norm"]["geometric_mean"] == pytest.approx(flow.mean.tolist())
        assert layer["singular_values"]["new"] == pytest.approx(
            flow.singular_values["new"].tolist()
        )


def shrink(model):
    for cell in (*model.encoder[0], model.decoder[0]):
        cell.weight_hh.mul_(0.2)


def test_small_singular_values_prove_that_gradients_vanish(inspect, run):
    run(replace(RECURRENT, cell="tanh"), shrink)
    ended = inspect("run", "--src", "in.en", "--sentences", 4)
    assert ended.out.count("gradients vanish: ×") == 3
    assert ended.out.count("Singular values alone prove it") == 3


def test_without_sentences_it_says_what_the_weights_say(inspect, run):
    run(replace(RECURRENT, cell="tanh"), shrink)
    ended = inspect("run")
    assert ended.code == 0
    assert "gradients vanish whatever the text, since λ1 = 0.2 < 1." in ended.out
    assert "Give sentences (--src FILE)" in ended.out
    assert "lag" not in ended.out


def test_gates_are_not_judged_by_their_weights(inspect, run):
    run(RECURRENT, shrink)
    assert "the weights alone don't decide" in inspect("run").out


@pytest.mark.parametrize("options", [(), ("--src", "in.en", "--sentences", 3)])
def test_it_draws(inspect, run, tmp_path, options):
    run(replace(RECURRENT, cell="lstm", num_layers=2))
    ended = inspect("run", *options, "--output", "out.png")
    assert (ended.code, ended.err.splitlines()[-1]) == (0, "-> out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    again = inspect("run", "--output", "out.png")
    assert again.code == 1
    assert "--overwrite" in again.err


def test_stdin(inspect, run, monkeypatch, tmp_path):
    run()
    with (tmp_path / "in.en").open() as text:
        monkeypatch.setattr(sys, "stdin", text)
        ended = inspect("run", "--src", "-", "--sentences", 2)
    assert "2 sentences" in ended.out


def test_models_without_recurrent_steps_are_refused(inspect, run, tmp_path):
    run(TRANSFORMER)
    ended = inspect("run", "--src", "in.en")
    assert ended.code == 1
    assert "holds a Transformer, in which gradients pass through no recurrent steps" in ended.err


def test_a_forecaster_is_refused(inspect, tmp_path):
    config = ForecasterConfig(
        patch_length=2, context_length=4, d_model=4, num_layers=1, num_heads=1, d_ff=4
    )
    spec = ForecasterSpec(
        frequency="D",
        season_length=7,
        horizon=2,
        context_length=4,
        patch_length=2,
        quantile_levels=config.quantile_levels,
    )
    (tmp_path / "run").mkdir()
    run = ForecasterRun(path=tmp_path / "run", config=config, spec=spec, training={})
    write_run(run, Forecaster(config))
    ended = inspect("run")
    assert ended.code == 1
    assert "holds a forecaster, in which gradients pass" in ended.err


@pytest.mark.parametrize("text", ["", "\n \n", "one " * 200 + "\n"])
def test_text_without_a_sentence_to_measure_on_is_refused(inspect, run, tmp_path, text):
    run()
    (tmp_path / "in.en").write_text(text)
    ended = inspect("run", "--src", "in.en")
    assert ended.code == 2
    assert "--src holds no sentence of 2 to 29 pieces" in ended.err


def test_mistakes_are_told_before_anything_is_measured(inspect, run, tmp_path):
    folder = run()
    assert inspect("run", "--src", "no.en").code == 1
    assert "a picture must end in" in inspect("run", "--output", "x.gif").err
    assert "is no training run" in inspect(tmp_path).err
    (folder / TOKENIZER_FILE).unlink()
    assert "tokenizer" in inspect("run", "--src", "in.en").err
    shutil.rmtree(folder)
    assert inspect("run").code == 1
