"""From pairs of sentences to a trained translator in a run folder."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from foretell.data.bundles.manifest import TranslatorSpec
from foretell.data.errors import OptionError, TableError
from foretell.data.text.tokenizer import TOKENIZER_FILE, Tokenizer
from foretell.data.text.tokenizer_training import learn_tokenizer
from foretell.model.exchange import from_first
from foretell.model.pairs import PairBatches, Pairs, validation_batches
from foretell.model.ranks import is_first
from foretell.model.run import (
    TranslatorRun,
    check_run,
    make_translator,
    prepare_run,
    write_run,
)
from foretell.model.seq2seq import Seq2Seq
from foretell.model.subword_dropout import SubwordDropout
from foretell.model.training import Progress, TrainingState, train
from foretell.model.translator_config import (
    RecurrentConfig,
    TransformerConfig,
    TranslatorConfig,
    TranslatorTraining,
)
from foretell.model.translator_objective import TranslatorObjective

# Scores a model on the validation pairs, such as by BLEU of the very search that serves.
MakeScorer = Callable[[Seq2Seq, Tokenizer], Callable[[], float]]
# First embeddings [V C] for a tokenizer's pieces; NaN rows are left as they are drawn.
Embeddings = Callable[[Tokenizer], np.ndarray]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sentences and their translations, in the same order."""

    src: Sequence[str]
    tgt: Sequence[str]

    def __post_init__(self) -> None:
        if len(self.src) != len(self.tgt):
            raise TableError(
                f"the numbers of source sentences ({len(self.src):,}) and of translations "
                f"({len(self.tgt):,}) differ; give one translation a sentence, in the same order."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorSummary:
    """What a training came to.

    Attributes:
        run: The folder with everything; `foretell export` takes it.
        num_pairs: Pairs trained on.
        num_skipped: Pairs left out: blank on a side, or longer than the model allows.
        num_parameters: Weights of the model.
        vocab_size: Pieces of the tokenizer.
        state: The last training state.
        seconds: Wall-clock time.
    """

    run: Path
    num_pairs: int
    num_skipped: int
    num_parameters: int
    vocab_size: int
    state: TrainingState
    seconds: float


def fit_translator(
    corpus: Corpus,
    *,
    validation: Corpus | None = None,
    model: TranslatorConfig,
    training: TranslatorTraining,
    run: Path,
    src_language: str = "",
    tgt_language: str = "",
    make_scorer: MakeScorer | None = None,
    embeddings: Embeddings | None = None,
    start_from: TranslatorRun | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TranslatorSummary:
    """Train a translator and its tokenizer, which source and target share.

    Args:
        corpus: Sentences to learn from.
        validation: Sentences to choose the best weights by; None keeps the last.
        model: Shape of the model; the tokenizer may come out smaller than its `vocab_size` where
            the text is small, and the model with it.
        training: How to train.
        run: Folder for tokenizer, checkpoint, log and the trained weights.
        src_language: Name of the source language, for the record.
        tgt_language: Name of the target language.
        make_scorer: Makes what scores the model at each validation; the loss chooses without it.
        embeddings: First values of embeddings.
        start_from: A finished training whose tokenizer and weights this one begins with, to go on
            learning or to learn another domain; `model` is of its shape (`same_shape`).
        resume: Go on where a killed run with the same data and options stopped.
        overwrite: Start anew where a run stands already.
        progress: Called after every step.

    Raises:
        TableError: There is nothing to learn from, or nothing to validate on in `validation`.
        OptionError: The vocabulary has no room for the characters, or embeddings or the weights
            to start from don't fit.
        ForetellError: The folder holds another run, or the training has diverged.
        TrainingStopped: SIGINT or SIGTERM came; resume goes on.
    """
    start = time.perf_counter()
    _check_start(start_from, model, embeddings)
    inputs: dict[str, Any] = {
        "fingerprint": _fingerprint(corpus, validation),
        "languages": [src_language, tgt_language],
        "arch": arch_of(model),
        "model": model.to_json(),
        "options": training.to_json(),
        "start_from": start_from and start_from.weights_sha256,
    }
    # What doesn't fit is told before the folder is touched.
    goes_on = check_run(run, inputs, resume=resume, overwrite=overwrite)
    tokenizer = _tokenizer(corpus, model.vocab_size, run if goes_on else start_from)
    model = replace(model, vocab_size=tokenizer.vocab_size)
    (known, pairs), held, num_skipped = _encode_all(corpus, validation, tokenizer, model)
    translator = _new_translator(model, training.seed, start_from, embeddings, tokenizer)
    scorer = make_scorer(translator, tokenizer) if make_scorer and len(held) else None
    prepare_run(run, inputs, resume=resume, overwrite=overwrite)
    _keep(tokenizer, run)
    state = train(
        TranslatorObjective(translator, training.label_smoothing),
        _batches(known, pairs, tokenizer, model, training),
        validation=validation_batches(held, training.batch_tokens),
        scorer=scorer,
        config=training,
        run=run,
        resume=goes_on,
        progress=progress,
    )
    record = {
        **inputs,
        "num_pairs": len(pairs),
        "steps": state.step,
        "loss": state.loss,
        "validation_loss": state.best_validation_loss,
        "validation_score": state.best_validation_score,
        "seconds": round(time.perf_counter() - start, 1),
    }
    spec = translator_spec(translator, src_language, tgt_language)
    done = TranslatorRun(path=run.absolute(), config=model, spec=spec, training=record)
    write_run(done, translator)
    return TranslatorSummary(
        run=run,
        num_pairs=len(pairs),
        num_skipped=num_skipped,
        num_parameters=sum(p.numel() for p in translator.parameters()),
        vocab_size=tokenizer.vocab_size,
        state=state,
        seconds=record["seconds"],
    )


def arch_of(model: TranslatorConfig) -> str:
    """Name the family of a configuration."""
    return "transformer" if isinstance(model, TransformerConfig) else "recurrent"


def same_shape(model: TranslatorConfig, other: TranslatorConfig) -> bool:
    """Tell whether the weights of one fit the other: all but dropout and lengths is the same."""
    return model == replace(
        other,
        dropout=model.dropout,
        max_source_length=model.max_source_length,
        max_target_length=model.max_target_length,
    )


def _check_start(
    start_from: TranslatorRun | None, model: TranslatorConfig, embeddings: Embeddings | None
) -> None:
    if start_from is None:
        return
    if not same_shape(model, start_from.config):
        raise OptionError(
            f"the weights of {start_from.path} are of another shape ({start_from.config}) than the "
            f"model ({model}); train a model of their shape, which is the run's `config`."
        )
    if embeddings is not None:
        raise OptionError("give embeddings or weights to start from, not both.")


def _tokenizer(corpus: Corpus, vocab_size: int, known: Path | TranslatorRun | None) -> Tokenizer:
    """Read the tokenizer of a run, or learn one; of several processes the first does."""
    path = known.path if isinstance(known, TranslatorRun) else known

    def make() -> Tokenizer:
        if path is not None and (path / TOKENIZER_FILE).exists():
            return Tokenizer.from_file(path / TOKENIZER_FILE)
        return learn_tokenizer([*corpus.src, *corpus.tgt], vocab_size)

    return from_first(make)


def _keep(tokenizer: Tokenizer, run: Path) -> None:
    if is_first():
        (run / TOKENIZER_FILE).write_bytes(tokenizer.to_bytes())


def _encode_all(
    corpus: Corpus, validation: Corpus | None, tokenizer: Tokenizer, model: TranslatorConfig
) -> tuple[tuple[Corpus, Pairs], Pairs, int]:
    """Encode what is learned and what is validated; count what is not learned."""
    known, pairs = _encode(corpus, tokenizer, model)
    _, held = _encode(validation or Corpus((), ()), tokenizer, model)
    num_skipped = len(corpus.src) - len(pairs)
    num_held_skipped = len(validation.src) - len(held) if validation else 0
    problems = [
        f"no pair of sentences can be {used}; all {count:,} are blank on a side or too long (over "
        f"{model.max_source_length - 1:,} pieces of source, {model.max_target_length - 1:,} of "
        "translation)."
        for used, some, count in (
            ("learned from", pairs, num_skipped),
            ("validated on", held, num_held_skipped),
        )
        if not len(some) and (some is pairs or validation is not None)
    ]
    if problems:
        raise TableError(problems)
    return (known, pairs), held, num_skipped


def _batches(
    known: Corpus,
    usual: Pairs,
    tokenizer: Tokenizer,
    model: TranslatorConfig,
    training: TranslatorTraining,
) -> PairBatches:
    respell = None
    if training.subword_dropout:
        respell = SubwordDropout(
            tokenizer=tokenizer,
            src=known.src,
            tgt=known.tgt,
            usual=usual,
            longest_src=model.max_source_length - 1,
            longest_tgt=model.max_target_length - 1,
            dropout=training.subword_dropout,
            seed=training.seed,
        )
    return PairBatches(usual, training.batch_tokens, training.seed, respell)


def _new_translator(
    model: TranslatorConfig,
    seed: int,
    start_from: TranslatorRun | None,
    embeddings: Embeddings | None,
    tokenizer: Tokenizer,
) -> Seq2Seq:
    torch.manual_seed(seed)
    translator = make_translator(model)
    if start_from is not None:
        translator.load_state_dict(start_from.model().state_dict())
    if embeddings is not None:
        _embed(translator, embeddings(tokenizer))
    return translator


def _encode(corpus: Corpus, tokenizer: Tokenizer, model: TranslatorConfig) -> tuple[Corpus, Pairs]:
    """Keep what the model can hold, as text and encoded."""
    src = [tokenizer.encode(text) for text in corpus.src]
    tgt = [tokenizer.encode(text) for text in corpus.tgt]
    kept = [
        i
        for i in range(len(src))
        if 0 < len(src[i]) < model.max_source_length and 0 < len(tgt[i]) < model.max_target_length
    ]
    known = Corpus([corpus.src[i] for i in kept], [corpus.tgt[i] for i in kept])
    return known, Pairs([src[i] for i in kept], [tgt[i] for i in kept])


def _embed(translator: Seq2Seq, vectors: np.ndarray) -> None:
    """Put known vectors, scaled to the spread of the drawn ones, in their place."""
    weight = translator.embedding.weight
    if vectors.shape != tuple(weight.shape):
        raise OptionError(
            f"the embeddings have {vectors.shape[1]} numbers a word; d_model is {weight.shape[1]}."
        )
    known = torch.from_numpy(vectors).to(weight.dtype)
    found = ~known.isnan()
    if found.any():
        size = known[found].square().mean().sqrt()
        with torch.no_grad():
            # As wide as what is drawn: the output layer shares these weights.
            scaled = known * (weight.std() / size) if size > 0 else known
            weight.copy_(torch.where(found, scaled, weight))


def translator_spec(
    translator: Seq2Seq, src_language: str = "", tgt_language: str = ""
) -> TranslatorSpec:
    """Say of a model what its bundle says."""
    config = translator.config
    return TranslatorSpec(
        arch="recurrent" if isinstance(config, RecurrentConfig) else "transformer",
        vocab_size=config.vocab_size,
        max_source_length=config.max_source_length,
        max_target_length=config.max_target_length,
        src_language=src_language,
        tgt_language=tgt_language,
        has_attention=translator.has_attention,
    )


def _fingerprint(*corpora: Corpus | None) -> str:
    digest = hashlib.sha256()
    for corpus in corpora:
        for sentences in () if corpus is None else (corpus.src, corpus.tgt):
            for sentence in sentences:
                digest.update(sentence.encode(errors="surrogatepass") + b"\n")
            digest.update(b"\f")
    return digest.hexdigest()
