"""`foretell train translator`, `export`, `evaluate translator`: one small run from end to end."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from foretell.data.text.number_words import number_pairs

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
        (["--batch-tokens", 0], "--batch-tokens is 0"),
        (["--label-smoothing", 1], "--label-smoothing is 1"),
        (["--valid-src", "v.en"], "--valid-src and --valid-tgt together"),
        (["--tgt", "v.de"], "a.en has 100 lines, v.de has 20 lines"),
        (["--src", "nowhere"], "nowhere"),
        (["--d-model", 18, "--heads", 4], "--d-model 18 doesn't split into 4 heads"),
        (["--vocab-size", 20], "--vocab-size is 20, but"),
        (["--resume", "--overwrite"], "--resume goes on, --overwrite starts anew; give one"),
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


def test_files_that_are_missing_are_told_before_torch_is_read(foretell, texts, monkeypatch):
    """All of them, and at once: torch alone takes seconds."""
    monkeypatch.setitem(sys.modules, "foretell.model.fit_translator", None)
    given = [*TEXTS[:6], "--valid-tgt", "no.de", "--embeddings", "no.txt"]
    ended = foretell("train", "translator", *given, "--output", "runs/a")
    assert ended.code == 1
    assert "no.de can't be read (No such file or directory)" in ended.err
    assert "no.txt can't be read" in ended.err


def test_a_resumed_run_says_where_it_stood(foretell, texts):
    train = ["train", "translator", *TEXTS[:4], "--output", "runs/a", *SMALL, *SHORT, "--resume"]
    ended = foretell(*train, "--vocab-size", 9000)
    assert ended.code == 0
    assert "there is no training run in runs/a to go on with; it starts anew" in ended.err
    assert "--vocab-size 9,000: the text gives " in ended.err
    ended = foretell(*train, "--vocab-size", 9000)
    assert ended.code == 0
    assert "the training in runs/a had finished already; nothing was left to do" in ended.err
    assert "weights trained" not in ended.err


def test_a_run_that_was_started_otherwise_is_refused_in_words_that_can_be_typed(foretell, texts):
    train = ["train", "translator", *TEXTS[:4], "--output", "runs/a", *SMALL, *SHORT]
    assert foretell(*train, "--heads", 2).code == 0
    changes = ["--d-model", 32, "--dropout", 0.3, "--post-norm", "--steps", 5, "--seed", 7]
    changes += ["--max-length", 40, "--src-language", "en"]
    ended = foretell(*train, "--heads", 2, *changes, "--resume")
    assert ended.code == 1
    head, *told, cure = ended.err.splitlines()
    assert head == "error: the training in runs/a was started otherwise:"
    assert cure == "Resume with the same data and options (--resume), or start anew (--overwrite)."
    assert told == [
        "--src-language, --tgt-language: ['', ''] then, ['en', ''] now.",
        "--d-model: 16 then, 32 now.",
        "--d-ff: 32 then, 64 now.",
        "--post-norm: not given then, given now.",
        "--dropout: 0.1 then, 0.3 now.",
        "--max-length: 64 then, 40 now.",
        "--steps: 4 then, 5 now.",
        "--seed: 0 then, 7 now.",
    ]


def test_an_interrupted_training_says_how_to_go_on(texts, tmp_path):
    train = ["train", "translator", *TEXTS[:4], "--output", "runs/a", *SMALL, "--steps", 100_000]
    command = [sys.executable, "-m", "foretell.cli.main", *map(str, train)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        while "training 1/" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130
    assert re.search(
        r"interrupted: (all [\d,]+ steps are|1 step is) saved; go on with --resume", told
    )
    assert "Traceback" not in told


def test_without_sacrebleu_the_loss_chooses(foretell, texts, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    train = ["train", "translator", *TEXTS, "--output", "runs/a", *SMALL, *SHORT]
    ended = foretell(*train)
    assert ended.code == 0
    assert "sacrebleu is not installed (extra [evaluate]); the loss chooses" in ended.err
    assert "BLEU" not in ended.err


def test_inspect_shows_no_empty_facts(foretell, foretell_process, texts):
    train = ["train", "translator", *TEXTS[:4], "--output", "runs/a", *SMALL, *SHORT]
    assert foretell(*train).code == 0
    assert foretell_process("export", "runs/a", "--output", "models/a/1").code == 0
    told = foretell("inspect", "models/a").out
    for empty in ("None", "languages", "validation", ": \n", ":\n"):
        assert empty not in told


def test_nothing_to_evaluate_is_told(foretell, texts, tmp_path, translator_bundle_path):
    (tmp_path / "none").write_text("")
    evaluate = ["evaluate", "translator", "--src", "none", "--ref", "none"]
    ended = foretell(*evaluate, "--model", translator_bundle_path)
    assert ended.code == 1
    assert "none has no lines; give sentences and their translations" in ended.err


def test_evaluation_says_what_it_lacks(foretell, texts, translator_bundle_path, monkeypatch):
    evaluate = ["evaluate", "translator", "--src", "v.en", "--model", translator_bundle_path]
    ended = foretell(*evaluate, "--ref", "a.de")
    assert ended.code == 1
    assert "v.en has 20 lines, a.de has 100 lines" in ended.err
    assert foretell(*evaluate, "--ref", "v.de", "--beam-size", "1;5").code == 2
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    ended = foretell(*evaluate, "--ref", "v.de")
    assert ended.code == 1
    assert "pip install 'foretell[evaluate]'" in ended.err


def test_a_training_goes_on_from_another_runs_weights(foretell, texts):
    """The run says what the model is; what contradicts it is refused, all at once."""
    train = ["train", "translator", *TEXTS]
    shape = [*SMALL, "--heads", 2]
    assert foretell(*train, "--output", "runs/a", *shape, *SHORT).code == 0
    on = [*train, "--start-from", "runs/a", "--output", "runs/b"]
    ended = foretell(*on, *shape, *SHORT)
    assert ended.code == 2
    for option in ("--d-model", "--layers", "--vocab-size", "--max-length", "--heads"):
        assert f"{option} is decided by the run of --start-from; leave it out." in ended.err
    ended = foretell(*on, *SHORT, "--dropout", 0.3)
    assert ended.code == 0, ended.err
    assert "--vocab-size" not in ended.err  # nobody asked for one
    runs = [json.loads(Path(f"runs/{name}/run.json").read_text()) for name in "ab"]
    assert runs[0]["config"] | {"dropout": 0.3} == runs[1]["config"]
    ended = foretell(*train, "--start-from", "runs/c", "--output", "runs/d", *SHORT)
    assert (ended.code, "is no training run" in ended.err) == (1, True)
