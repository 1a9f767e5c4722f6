"""`foretell train translator`: from parallel text to weights."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretell.cli import parameters
from foretell.cli.messages import say
from foretell.cli.training_runs import RunFolder
from foretell.data.errors import OptionError
from foretell.jobs.amounts import counted
from foretell.model.ranks import world_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from foretell.data.text.tokenizer import Tokenizer
    from foretell.model.fit_translator import Corpus, Embeddings, MakeScorer, TranslatorSummary
    from foretell.model.run import TranslatorRun
    from foretell.model.translator_config import TranslatorConfig, TranslatorTraining

# What the weights decide that a training starts from.
_SHAPE = (
    *("arch", "vocab_size", "max_length", "d_model", "layers", "decoder_layers", "heads", "d_ff"),
    *("norm", "post_norm", "activation", "cell", "one_way", "attention", "no_input_feeding"),
    *("untied", "embeddings"),
)

# Family, option, field of the configuration, and its value; None where it was not given.
Own = tuple[str, str, str, Any]

EXAMPLE = (
    "Example: foretell train translator --src train.en --tgt train.de --valid-src valid.en "
    "--valid-tgt valid.de --output runs/ende"
)


def translator(
    context: typer.Context,
    src: Annotated[
        str, typer.Option(metavar="FILE", help="Text to learn from, a sentence a line.")
    ],
    tgt: Annotated[str, typer.Option(metavar="FILE", help="Its translation, line for line.")],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the run: weights, checkpoint, log.")
    ],
    valid_src: Annotated[
        str | None, typer.Option(metavar="FILE", help="Text to choose the best weights by.")
    ] = None,
    valid_tgt: Annotated[
        str | None, typer.Option(metavar="FILE", help="Its translation, line for line.")
    ] = None,
    src_language: Annotated[
        str, typer.Option(metavar="NAME", help="Such as en, to be shown.")
    ] = "",
    tgt_language: Annotated[
        str, typer.Option(metavar="NAME", help="Such as de, to be shown.")
    ] = "",
    arch: Annotated[
        str, typer.Option(metavar="transformer|recurrent", help="Family of the network.")
    ] = "transformer",
    vocab_size: Annotated[
        int, typer.Option(metavar="N", help="Pieces of the vocabulary, shared by both languages.")
    ] = 8000,
    max_length: Annotated[
        int, typer.Option(metavar="N", help="Most pieces of a sentence, the end token counted.")
    ] = 256,
    d_model: Annotated[int, typer.Option(metavar="N", help="Width of a token.")] = 256,
    layers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Of the encoder, and of the decoder. [3; recurrent 1]"),
    ] = None,
    decoder_layers: Annotated[
        int | None, typer.Option(metavar="N", help="Transformer: if not as many. [as layers]")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(metavar="N", help="Transformer: attention heads. [4]")
    ] = None,
    d_ff: Annotated[
        int | None,
        typer.Option(metavar="N", help="Transformer: width of feed-forward layers. [2 d-model]"),
    ] = None,
    norm: Annotated[
        str | None, typer.Option(metavar="layer|rms", help="Transformer: normalisation. [layer]")
    ] = None,
    post_norm: Annotated[
        bool,
        typer.Option("--post-norm", help="Transformer: normalise after sums, not before layers."),
    ] = False,
    activation: Annotated[
        str | None, typer.Option(metavar="relu|swiglu", help="Transformer: feed-forward's. [relu]")
    ] = None,
    cell: Annotated[
        str | None, typer.Option(metavar="tanh|gru|lstm", help="Recurrent: the cell. [gru]")
    ] = None,
    one_way: Annotated[
        bool, typer.Option("--one-way", help="Recurrent: the encoder reads forwards only.")
    ] = False,
    attention: Annotated[
        str | None,
        typer.Option(
            metavar="none|dot|scaled_dot|additive",
            help="Recurrent: how the decoder looks at the source. [additive]",
        ),
    ] = None,
    no_input_feeding: Annotated[
        bool,
        typer.Option("--no-input-feeding", help="Recurrent: don't read the last output again."),
    ] = False,
    untied: Annotated[
        bool, typer.Option("--untied", help="Give the output layer weights of its own.")
    ] = False,
    dropout: Annotated[
        float | None,
        typer.Option(metavar="X", help="Share dropped in training, [0, 1). [0.1; recurrent 0.2]"),
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="First embeddings: a word2vec or GloVe text file."),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A finished run: its tokenizer, shape, first weights."),
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", help="Optimiser steps.")] = 10_000,
    batch_tokens: Annotated[
        int,
        typer.Option(metavar="N", help="Most tokens a step, of each process, padding counted."),
    ] = 3000,
    learning_rate: Annotated[float, typer.Option(metavar="X", help="Peak of the schedule.")] = 1e-3,
    warmup: Annotated[
        int | None, typer.Option(metavar="N", help="Steps up to the peak. [a tenth, 1,000 at most]")
    ] = None,
    label_smoothing: Annotated[
        float, typer.Option(metavar="X", help="Share of probability for all other pieces.")
    ] = 0.1,
    subword_dropout: Annotated[
        float, typer.Option(metavar="X", help="Share of merges left out of spellings; 0.05 helps.")
    ] = 0.0,
    precision: Annotated[
        str, typer.Option(metavar="fp32|bf16", help="Of products in training.")
    ] = "fp32",
    validate_every: Annotated[
        int, typer.Option(metavar="N", help="Steps between validations.")
    ] = 500,
    patience: Annotated[
        int, typer.Option(metavar="N", help="Stop after N validations without gain; 0 never.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Fixes weights and batches.")] = 0,
    threads: parameters.Threads = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the run's checkpoint.")
    ] = False,
    overwrite: parameters.Overwrite = False,
) -> None:
    """Train a translator on sentences and their translations, and its tokenizer with it.

    The weights that translate the validation text best are kept, by BLEU of the search that serves.
    A killed run goes on with --resume, as if it were unbroken. Needs the extra [train].
    """
    from foretell.cli.progress import training_progress

    _check_texts(src, tgt, valid_src, valid_tgt, embeddings)
    folder = RunFolder.look(output, resume=resume, overwrite=overwrite)
    from foretell.model.fit_translator import fit_translator

    model = _shape_of(known := _known_run(start_from, context), dropout) or translator_config(
        arch,
        layers=layers,
        max_length=max_length,
        own=[
            *_of_transformer(heads, d_ff, decoder_layers, norm, post_norm, activation),
            *_of_recurrent(cell, one_way, attention, no_input_feeding),
        ],
        vocab_size=vocab_size,
        d_model=d_model,
        dropout=dropout,
        tied_output=not untied,
    )
    training = _training(
        steps,
        warmup,
        batch_tokens=batch_tokens * world_size(),
        learning_rate=learning_rate,
        label_smoothing=label_smoothing,
        subword_dropout=subword_dropout,
        precision=precision,
        validate_every=validate_every,
        patience=patience,
        seed=seed,
    )
    parameters.use_torch_threads(threads)
    corpus, validation = _corpus(src, tgt), _validation(valid_src, valid_tgt)
    with training_progress() as progress:
        summary = fit_translator(
            corpus,
            validation=validation,
            model=model,
            training=training,
            run=output,
            src_language=src_language,
            tgt_language=tgt_language,
            make_scorer=_scorer(validation),
            embeddings=_embeddings(embeddings, d_model),
            start_from=known,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
        )
    folder.report(_sum_up(summary, None if start_from else vocab_size))


def _check_texts(
    src: str, tgt: str, valid_src: str | None, valid_tgt: str | None, embeddings: Path | None
) -> None:
    """See whether what was given is there, before torch takes its seconds."""
    from foretell.data.text.lines import check_sources

    if (valid_src is None) != (valid_tgt is None):
        raise OptionError("give --valid-src and --valid-tgt together, or neither.")
    sources = (src, tgt, valid_src, valid_tgt, embeddings)
    check_sources(*(source for source in sources if source is not None))


def _known_run(path: Path | None, context: typer.Context) -> "TranslatorRun | None":
    """Read the run to start from, if any; refuse options that its model has decided."""
    if path is None:
        return None
    from foretell.model.run import TranslatorRun, read_run

    given = [name for name in _SHAPE if _is_given(context, name)]
    problems = [
        f"--{name.replace('_', '-')} is decided by the run of --start-from; leave it out."
        for name in given
    ]
    if problems:
        raise OptionError(problems)
    run = read_run(path)
    if not isinstance(run, TranslatorRun):
        raise OptionError(f"--start-from {path} is the run of a {run.kind}; give a translator's.")
    return run


def _shape_of(known: "TranslatorRun | None", dropout: float | None) -> "TranslatorConfig | None":
    if known is None:
        return None
    return known.config if dropout is None else replace(known.config, dropout=dropout)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _of_transformer(
    heads: int | None,
    d_ff: int | None,
    decoder_layers: int | None,
    norm: str | None,
    post_norm: bool,
    activation: str | None,
) -> list[Own]:
    return [
        ("transformer", "--heads", "num_heads", heads),
        ("transformer", "--d-ff", "d_ff", d_ff),
        ("transformer", "--decoder-layers", "num_decoder_layers", decoder_layers),
        ("transformer", "--norm", "norm", norm),
        ("transformer", "--post-norm", "norm_first", False if post_norm else None),
        ("transformer", "--activation", "activation", activation),
    ]


def _of_recurrent(
    cell: str | None, one_way: bool, attention: str | None, no_input_feeding: bool
) -> list[Own]:
    no_feeding = False if no_input_feeding else None
    return [
        ("recurrent", "--cell", "cell", cell),
        ("recurrent", "--one-way", "bidirectional", False if one_way else None),
        ("recurrent", "--attention", "attention", attention),
        ("recurrent", "--no-input-feeding", "input_feeding", no_feeding),
    ]


def translator_config(
    arch: str,
    *,
    layers: int | None,
    max_length: int,
    own: "Sequence[Own]",
    **shared: Any,
) -> "TranslatorConfig":
    """Complete the shape of a model; what was not given (None) is the configuration's own.

    Args:
        arch: The family.
        layers: Of the encoder, and of the decoder where its own number is not given.
        max_length: Of sources and of translations.
        own: What not all families have.
        shared: Fields that all have.

    Raises:
        OptionError: The family is unknown, options are of the other one, or out of their range.
    """
    from foretell.model.translator_config import RecurrentConfig, TransformerConfig

    if arch not in ("transformer", "recurrent"):
        raise OptionError(f"--arch is {arch!r}; it must be transformer or recurrent.")
    problems = [
        f"{option} is an option of --arch {family}; the model is a {arch} one."
        for family, option, _, value in own
        if family != arch and value is not None
    ]
    if problems:
        raise OptionError(problems)
    values = shared | {"max_source_length": max_length, "max_target_length": max_length}
    values |= {field: value for family, _, field, value in own if family == arch}
    if arch == "recurrent":
        return RecurrentConfig(**_given(values | {"num_layers": layers}))
    values["num_encoder_layers"] = layers
    values["num_decoder_layers"] = values["num_decoder_layers"] or layers
    values["d_ff"] = values["d_ff"] or 2 * values["d_model"]
    return TransformerConfig(**_given(values))


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _training(steps: int, warmup: int | None, **options: Any) -> "TranslatorTraining":
    """Complete how it is trained; the configuration refuses what is out of its range."""
    from foretell.model.translator_config import TranslatorTraining

    warmup = min(1000, steps // 10) if warmup is None else warmup
    return TranslatorTraining(steps=steps, warmup_steps=warmup, **options)


def _corpus(src: str, tgt: str) -> "Corpus":
    from foretell.data.text.lines import read_parallel
    from foretell.model.fit_translator import Corpus

    pairs = list(read_parallel([src, tgt]))
    return Corpus([source for source, _ in pairs], [target for _, target in pairs])


def _validation(src: str | None, tgt: str | None) -> "Corpus | None":
    return None if src is None or tgt is None else _corpus(src, tgt)


def _scorer(validation: "Corpus | None") -> "MakeScorer | None":
    """Score by BLEU of the search that serves; by the loss alone where sacreBLEU is missing."""
    if validation is None:
        return None
    if importlib.util.find_spec("sacrebleu") is None:
        say("sacrebleu is not installed (extra [evaluate]); the loss chooses the best weights")
        return None
    from foretell.export.validation import bleu_scorer

    return bleu_scorer(validation)


def _embeddings(path: Path | None, width: int) -> "Embeddings | None":
    if path is None:
        return None
    from foretell.data.text.embeddings import read_embeddings

    def read(tokenizer: "Tokenizer") -> "np.ndarray":
        found = read_embeddings(path, tokenizer, width=width)
        say(f"{found.share_found:.1%} of the pieces start from {path}")
        return found.vectors

    return read


def _sum_up(summary: "TranslatorSummary", vocab_size: int | None) -> str:
    """Tell of a training; `vocab_size` is what was asked for, None where another run gave it."""
    told = (
        f"{summary.num_parameters:,} weights trained on {counted(summary.num_pairs, 'pair')}, "
        f"{summary.vocab_size:,} pieces, in {summary.seconds:,.0f} s -> {summary.run}"
    )
    if summary.num_skipped:
        told += (
            f"\n{counted(summary.num_skipped, 'pair')} left out: blank on a side, or longer than "
            "--max-length"
        )
    if vocab_size is not None and summary.vocab_size < vocab_size:
        told += (
            f"\n--vocab-size {vocab_size:,}: the text gives {summary.vocab_size:,} pieces, no more"
        )
    return told
