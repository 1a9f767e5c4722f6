"""`foretell train translator`, `export`, `evaluate translator`: one small run from end to end."""

import json
import os
import sys

import pytest

from foretell.data.number_words import number_pairs

SMALL = ["--d-model", 16, "--layers", 1, "--vocab-size", 330, "--max-length", 64]
SHORT = ["--threads", 1, "--steps", 4, "--batch-tokens", 200, "--validate-every", 2]
TEXTS = ["--src", "a.en", "--tgt", "a.de", "--valid-src", "v.en", "--valid-tgt", "v.de"]


@pytest.fixture
def texts(tmp_path):
    pairs = list(number_pairs(120, seed=5))
    for name, some in (("a", pairs[:100]), ("v", pairs[100:])):
        for language, side in (("en", 0), ("de", 1)):
            text = "".join(f"{pair[side]}\n" for pair in some)
            (tmp_path / f"{name}.{language}").write_text(text)


def test_from_parallel_text_to_scores(foretell, foretell_process, texts):
    train = ["train", "translator", *TEXTS, "--output", "runs/a", *SMALL, *SHORT]
    ended = foretell(*train, "--heads", 2, "--src-language", "en", "--tgt-language", "de")
    assert (ended.code, ended.out) == (0, "")
    assert "training 4/4" in ended.err
    assert "validation " in ended.err
    assert "BLEU " in ended.err
    assert "weights trained on 100 pairs" in ended.err
    again = foretell(*train)
    assert again.code == 1
    assert "runs/a holds a training run already" in again.err

    ended = foretell_process("export", "runs/a", "--output", "models/a/1")
    assert (ended.code, ended.out) == (0, "")
    assert "parity holds" in ended.err

    evaluate = ["evaluate", "translator", "--src", "v.en", "--ref", "v.de", "--model", "models/a"]
    ended = foretell(*evaluate, "--beam-size", "1,3")
    assert ended.code == 0
    head, columns, greedy, beam, *signatures = ended.out.splitlines()
    assert head.startswith("20 sentences, 1 reference each")
    assert columns.split() == ["BLEU", "lc", "BLEU", "mixed", "chrF", "exact", "sentences/s"]
    assert (greedy.split()[0], beam.split()[:2]) == ("greedy", ["beam", "3"])
    assert "case:lc|eff:no|tok:13a" in signatures[0]
    assert "case:mixed|eff:no|tok:13a" in signatures[1]
    ended = foretell(*evaluate, "--ref", "v.en", "--json")
    found = json.loads(ended.out)
    assert (found["num_references"], found["num_sentences"]) == (2, 20)


@pytest.mark.parametrize("valid", [True, False], ids=["validation", "no validation"])
def test_every_recurrent_option_reaches_the_configuration(foretell, texts, valid):
    options = ["--arch", "recurrent", "--cell", "lstm", "--attention", "dot", "--one-way"]
    options += ["--no-input-feeding", "--untied", "--dropout", 0.3, "--label-smoothing", 0.2]
    given = TEXTS if valid else TEXTS[:4]
    train = ["train", "translator", *given, "--output", "runs/a", *SMALL, *SHORT]
    assert foretell(*train, *options).code == 0
    with open("runs/a/run.json", encoding="utf-8") as run:
        record = json.load(run)
    expected = {
        "cell": "lstm",
        "attention": "dot",
        "bidirectional": False,
        "input_feeding": False,
        "tied_output": False,
        "dropout": 0.3,
        "num_layers": 1,
        "max_source_length": 64,
    }
    assert record["config"].items() >= expected.items()
    assert record["training"]["options"]["label_smoothing"] == 0.2


def test_the_classic_transformer_can_be_had(foretell, texts):
    options = ["--post-norm", "--activation", "relu", "--norm", "layer", "--decoder-layers", 2]
    train = ["train", "translator", *TEXTS[:4], "--output", "runs/a", *SMALL, *SHORT]
    assert foretell(*train, *options, "--heads", 2, "--d-ff", 20).code == 0
    with open("runs/a/run.json", encoding="utf-8") as run:
        config = json.load(run)["config"]
    assert (config["norm_first"], config["activation"], config["d_ff"]) == (False, "relu", 20)
    assert (config["num_encoder_layers"], config["num_decoder_layers"]) == (1, 2)


def test_embeddings_are_read(foretell, texts, tmp_path):
    vector = " ".join(["0.25"] * 16)
    (tmp_path / "vectors.txt").write_text(f"hundred {vector}\nhundert {vector}\n")
    train = ["train", "translator", *TEXTS[:4], "--output", "runs/a", *SMALL, *SHORT]
    ended = foretell(*train, "--embeddings", "vectors.txt")
    assert ended.code == 0
    assert "of the pieces start from vectors.txt" in ended.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arch", "rnn"], "--arch is 'rnn'; it must be transformer or recurrent"),
        (["--cell", "gru", "--one-way"], "--one-way is an option of --arch recurrent"),
        (["--arch", "recurrent", "--heads", 2], "--heads is an option of --arch transformer"),
        (["--heads", 3], "doesn't split into 3 heads"),
        (["--batch-tokens", 0], "batch_tokens is 0"),
        (["--label-smoothing", 1], "label_smoothing is 1"),
        (["--valid-src", "v.en"], "--valid-src and --valid-tgt together"),
        (["--tgt", "v.de"], "a.en has 100, v.de has 20 lines"),
        (["--src", "nowhere"], "nowhere"),
        (["--embeddings", "a.en"], "a.en"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_options_leave_no_finished_run(foretell, texts, options, message):
    train = ["train", "translator", *TEXTS[:4], "--output", "runs/a", *SMALL, *SHORT]
    ended = foretell(*train, *options)
    assert ended.code in {1, 2}
    assert message in ended.err
    assert not os.path.exists("runs/a/run.json")


def test_without_sacrebleu_the_loss_chooses(foretell, texts, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    train = ["train", "translator", *TEXTS, "--output", "runs/a", *SMALL, *SHORT]
    ended = foretell(*train)
    assert ended.code == 0
    assert "sacrebleu is not installed (extra [evaluate]); the loss chooses" in ended.err
    assert "BLEU" not in ended.err


def test_evaluation_says_what_it_lacks(foretell, texts, translator_bundle_path, monkeypatch):
    evaluate = ["evaluate", "translator", "--src", "v.en", "--model", translator_bundle_path]
    ended = foretell(*evaluate, "--ref", "a.de")
    assert ended.code == 1
    assert "v.en has 20, a.de has 100 lines" in ended.err
    assert foretell(*evaluate, "--ref", "v.de", "--beam-size", "1;5").code == 2
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    ended = foretell(*evaluate, "--ref", "v.de")
    assert ended.code == 1
    assert "pip install 'foretell[evaluate]'" in ended.err
