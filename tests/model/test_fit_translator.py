"""From pairs of sentences to a run folder: killed and resumed, refused, scored, recorded."""

import csv
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from foretell.data.errors import BundleError, ForetellError, OptionError, TableError
from foretell.data.text.number_words import english_words, german_words
from foretell.data.text.tokenizer import TOKENIZER_FILE, Tokenizer
from foretell.model.fit_translator import Corpus, fit_translator
from foretell.model.run import TranslatorRun, read_run
from foretell.model.translator_config import (
    RecurrentConfig,
    TransformerConfig,
    TranslatorTraining,
)

CLIP_NORM = 0.45  # some of the first steps' gradients are longer, some aren't
SMALL = {"vocab_size": 330, "d_model": 8, "max_source_length": 40, "max_target_length": 40}
TRANSFORMER = TransformerConfig(
    **SMALL, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=1
)
RECURRENT = RecurrentConfig(**SMALL)
TRAINING = TranslatorTraining(
    steps=6,
    batch_tokens=120,
    warmup_steps=2,
    learning_rate=0.01,
    validate_every=2,
    checkpoint_every=2,
)


def corpus(*numbers):
    return Corpus([english_words(n) for n in numbers], [german_words(n) for n in numbers])


LEARNED, HELD = corpus(*range(100, 160)), corpus(*range(20, 26))


def fit(run, **changes):
    arguments = {"validation": HELD, "model": RECURRENT, "training": TRAINING, "run": run}
    return fit_translator(changes.pop("learned", LEARNED), **{**arguments, **changes})


def weights(run):
    return read_run(run).model().state_dict()


def log(run):
    with (run / "log.csv").open() as file:
        return [
            {name: value for name, value in line.items() if name != "steps_per_s"}
            for line in csv.DictReader(file)
        ]


class Killed(Exception):
    pass


def killer(at):
    def progress(state):
        if state.step == at:
            raise Killed

    return progress


@pytest.mark.parametrize("subword_dropout", [0.0, 0.2])
@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT], ids=["transformer", "recurrent"])
def test_a_killed_training_ends_with_the_weights_of_an_unbroken_one(
    tmp_path, model, subword_dropout
):
    """Bit for bit, dropout and batches included: a training of hours may be stopped at any time."""
    training = replace(TRAINING, subword_dropout=subword_dropout)
    fit(tmp_path / "whole", model=model, training=training)
    with pytest.raises(Killed):
        fit(tmp_path / "broken", model=model, training=training, progress=killer(3))
    assert not (tmp_path / "broken" / "run.json").exists()
    with pytest.raises(BundleError, match="has not finished; go on with it first"):
        read_run(tmp_path / "broken")
    fit(tmp_path / "broken", model=model, training=training, resume=True)
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "broken")
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert log(tmp_path / "whole") == log(tmp_path / "broken")


def test_the_log_tells_gradient_norms_and_the_share_of_clipped_steps(tmp_path):
    """Explosion is seen while training: the norm before clipping, and how often it was clipped."""
    fit(tmp_path / "run", training=replace(TRAINING, clip_norm=CLIP_NORM))
    lines = log(tmp_path / "run")
    norms = [float(line["gradient_norm"]) for line in lines]
    clipped = list(itertools.accumulate(norm > CLIP_NORM for norm in norms))
    assert 0 < clipped[-1] < len(norms)  # else this would show nothing
    shares = [float(line["clipped_share"]) for line in lines]
    assert shares == pytest.approx([n / (i + 1) for i, n in enumerate(clipped)])


def test_the_run_says_what_it_was(tmp_path):
    summary = fit(tmp_path / "run", src_language="en", tgt_language="de")
    run = read_run(tmp_path / "run")
    assert isinstance(run, TranslatorRun)
    tokenizer = Tokenizer.from_file(tmp_path / "run" / TOKENIZER_FILE)
    assert run.config.vocab_size == run.spec.vocab_size == tokenizer.vocab_size
    assert (run.spec.arch, run.spec.has_attention) == ("recurrent", True)
    assert (run.spec.src_language, run.spec.tgt_language) == ("en", "de")
    assert (run.spec.max_source_length, run.spec.max_target_length) == (40, 40)
    assert run.training["num_pairs"] == summary.num_pairs == 60
    assert run.training["steps"] == 6
    assert len(run.training["fingerprint"]) == 64


def test_pairs_that_cannot_be_learned_are_left_out_and_counted(tmp_path):
    """A blank side teaches to invent or to fall silent; a long one would be cut in its middle."""
    long = "one " * 60
    src = [*LEARNED.src, "two", "", long, "three"]
    tgt = [*LEARNED.tgt, " ", "zwei", "ein", long]
    summary = fit(tmp_path / "run", learned=Corpus(src, tgt))
    assert (summary.num_pairs, summary.num_skipped) == (60, 4)


def test_the_validation_changes_no_weight_of_a_step(tmp_path):
    """What is held out chooses among weights, it must not reach them."""
    one_validation = replace(TRAINING, validate_every=6)
    fit(tmp_path / "a", training=one_validation)
    fit(tmp_path / "b", training=one_validation, validation=corpus(7, 8, 9))
    first, second = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_score_chooses_the_weights_that_are_kept(tmp_path):
    """BLEU by the search that serves, not the loss: the two often disagree on which is best."""
    scores = iter([1.0, 3.0, 2.0])
    seen = []

    def make_scorer(model, tokenizer):
        def score():
            assert not model.training
            seen.append({name: value.clone() for name, value in model.state_dict().items()})
            return next(scores)

        return score

    summary = fit(tmp_path / "run", make_scorer=make_scorer)
    assert (summary.state.best_step, summary.state.best_validation_score) == (4, 3.0)
    kept = weights(tmp_path / "run")
    assert all(torch.equal(kept[name], value) for name, value in seen[1].items())


def test_known_embeddings_are_where_training_starts(tmp_path):
    """Rows without a vector stay as they are drawn; the others come with the spread of these."""
    still = replace(TRAINING, steps=1, learning_rate=1e-12)
    fit(tmp_path / "drawn", training=still)
    given = 100 * np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)

    def vectors(tokenizer):
        known = np.full((tokenizer.vocab_size, 8), np.nan, dtype=np.float32)
        known[5:9] = given
        return known

    fit(tmp_path / "known", training=still, embeddings=vectors)
    drawn, known = (weights(tmp_path / name)["embedding.weight"] for name in ("drawn", "known"))
    torch.testing.assert_close(known[9:], drawn[9:])
    scale = drawn.std() / given.std()
    torch.testing.assert_close(known[5:9], torch.from_numpy(given) * scale, rtol=0.05, atol=0)


@pytest.mark.parametrize("value", [0.0, 2.5])
def test_embeddings_without_spread_ruin_no_weights(tmp_path, value):
    """A file of zeros has no spread to scale by; NaN weights would be found hours later."""
    one_step = replace(TRAINING, steps=1)
    fit(
        tmp_path,
        training=one_step,
        embeddings=lambda tokenizer: np.full((tokenizer.vocab_size, 8), value, dtype=np.float32),
    )
    assert all(weight.isfinite().all() for weight in weights(tmp_path).values())


def test_embeddings_of_another_width_are_refused(tmp_path):
    with pytest.raises(OptionError, match="the embeddings have 9 numbers a word; d_model is 8"):
        fit(tmp_path, embeddings=lambda tokenizer: np.zeros((tokenizer.vocab_size, 9)))


def test_other_data_or_options_cannot_go_on_with_a_run(tmp_path):
    with pytest.raises(Killed):
        fit(tmp_path, progress=killer(3))
    for changes, named in (
        ({"learned": corpus(*range(200, 260))}, "the data were others"),
        ({"validation": None}, "the data were others"),
        (
            {"training": replace(TRAINING, label_smoothing=0.0)},
            "label_smoothing: 0.1 then, 0.0 now",
        ),
        ({"model": replace(RECURRENT, cell="lstm")}, "cell: gru then, lstm now"),
        ({"model": TRANSFORMER}, "otherwise:\narch: recurrent then, transformer now.\nResume"),
    ):
        with pytest.raises(ForetellError, match=named):
            fit(tmp_path, resume=True, **changes)


def test_nothing_to_learn_from_is_told(tmp_path):
    with pytest.raises(
        TableError, match=r"of source sentences \(2\) and of translations \(1\) differ"
    ):
        Corpus(["a", "b"], ["c"])
    with pytest.raises(TableError, match="can be learned from; all 2 are blank on a side or too"):
        fit(tmp_path, learned=Corpus(["two", " "], ["", "drei"]))


@pytest.mark.parametrize(
    "held", [Corpus([" ", "one"], ["eins", ""]), Corpus(["two " * 40], ["zwei"])]
)
def test_validation_without_a_usable_pair_is_no_validation(tmp_path, held):
    """It was left out without a word, and the last weights were taken for the best."""
    with pytest.raises(TableError, match=rf"validated on; all {len(held.src)} are blank on a side"):
        fit(tmp_path / "run", validation=held)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": replace(RECURRENT, vocab_size=262)}, "vocab_size is 262, .* Set vocab_size to"),
        ({"learned": Corpus([" "], [""])}, "are all blank; give some text"),
        ({"embeddings": lambda tokenizer: np.zeros((tokenizer.vocab_size, 9))}, "have 9 numbers"),
    ],
)
def test_what_cannot_begin_leaves_no_folder(tmp_path, changes, message):
    """An inputs.json alone was taken for a run, and the corrected call was refused."""
    with pytest.raises(ForetellError, match=message):
        fit(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_training_that_kept_no_step_blocks_no_folder(tmp_path):
    """Its tokenizer isn't taken for the next one's either: that may have other data."""
    with pytest.raises(Killed):
        fit(tmp_path, progress=killer(1), learned=corpus(*range(700, 760)))
    assert (tmp_path / "inputs.json").exists()
    fit(tmp_path, resume=True)
    fit(tmp_path.with_name("other"))
    assert (tmp_path / TOKENIZER_FILE).read_bytes() == (
        tmp_path.with_name("other") / TOKENIZER_FILE
    ).read_bytes()
    with pytest.raises(ForetellError, match="holds a training run already"):
        fit(tmp_path)


@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT], ids=["transformer", "recurrent"])
def test_a_training_that_diverges_says_so(tmp_path, model):
    """NaN weights were written, exported and served."""
    training = replace(TRAINING, learning_rate=1e38, warmup_steps=0)
    with pytest.raises(ForetellError, match=r"has diverged: .* lower learning_rate"):
        fit(tmp_path, model=model, training=training)
    assert not (tmp_path / "run.json").exists()


@pytest.mark.parametrize("left", [0, 100, 5000])
def test_a_damaged_checkpoint_is_named_with_the_way_out(tmp_path, left):
    with pytest.raises(Killed):
        fit(tmp_path, progress=killer(3))
    whole = (tmp_path / "checkpoint.pt").read_bytes()
    (tmp_path / "checkpoint.pt").write_bytes(whole[:left])
    with pytest.raises(BundleError, match=r"checkpoint\.pt can't be read .*anew \(overwrite\)"):
        fit(tmp_path, resume=True)
    fit(tmp_path, overwrite=True)


def test_a_damaged_record_is_named_with_the_way_out(tmp_path):
    fit(tmp_path)
    (tmp_path / "inputs.json").write_text('{"finger')
    with pytest.raises(BundleError, match=r"inputs\.json is damaged .*start anew \(overwrite\)"):
        fit(tmp_path, resume=True)


def test_a_training_starts_from_the_weights_and_the_tokenizer_of_another(tmp_path):
    """Steps of no length leave them as they are, though the new text would have given others."""
    fit(tmp_path / "a", model=TRANSFORMER)
    known = read_run(tmp_path / "a")
    short = replace(TRAINING, learning_rate=1e-12, seed=7)
    more = corpus(*range(7000, 7060))
    fit(tmp_path / "b", learned=more, model=known.config, training=short, start_from=known)
    assert (tmp_path / "b" / TOKENIZER_FILE).read_bytes() == (
        tmp_path / "a" / TOKENIZER_FILE
    ).read_bytes()
    before, after = weights(tmp_path / "a"), weights(tmp_path / "b")
    for name in before:
        torch.testing.assert_close(after[name], before[name], rtol=0, atol=1e-9)


def test_a_training_from_weights_may_drop_out_otherwise_and_be_killed(tmp_path):
    fit(tmp_path / "a", model=RECURRENT)
    known = read_run(tmp_path / "a")
    options = {
        "model": replace(known.config, dropout=0.4),
        "training": replace(TRAINING, subword_dropout=0.1),
        "start_from": known,
    }
    fit(tmp_path / "whole", **options)
    with pytest.raises(Killed):
        fit(tmp_path / "part", **options, progress=killer(at=5))
    fit(tmp_path / "part", **options, resume=True)
    whole, part = weights(tmp_path / "whole"), weights(tmp_path / "part")
    assert all(torch.equal(whole[name], part[name]) for name in whole)
    record = read_run(tmp_path / "whole").training
    assert len(record["start_from"]) == 64
    with pytest.raises(ForetellError, match=f"start_from: {record['start_from']} then, None now"):
        fit(tmp_path / "part", **options | {"start_from": None}, resume=True)


@pytest.mark.parametrize(
    "other", [TRANSFORMER, replace(RECURRENT, d_model=10)], ids=["family", "width"]
)
def test_weights_to_start_from_are_of_the_models_shape(tmp_path, other):
    fit(tmp_path / "a", model=RECURRENT)
    known = read_run(tmp_path / "a")
    with pytest.raises(OptionError, match="are of another shape"):
        fit(tmp_path / "b", model=other, start_from=known)
    with pytest.raises(OptionError, match="embeddings or weights to start from, not both"):
        fit(
            tmp_path / "b",
            model=known.config,
            start_from=known,
            embeddings=lambda tokenizer: np.zeros((tokenizer.vocab_size, 8)),
        )
    assert not (tmp_path / "b").exists()
