"""From a sentence to what a search needs: its pieces, its limits, and whether to search at all."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from foretell.data.bundles.bundle import TranslatorSpec
from foretell.data.errors import OptionError
from foretell.data.text.normalising import is_copied, normalise
from foretell.data.text.tokenizer import EOS, Tokenizer
from foretell.data.text.translation import Hypothesis, TranslateOptions, Translation
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.option_texts import OptionTexts


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A sentence as the model reads it.

    Attributes:
        ids: Its pieces and the end token.
        words: For each piece, the word that it belongs to; empty where nobody needs them.
        truncated: More pieces followed than the model takes.
    """

    ids: tuple[int, ...]
    words: tuple[str, ...] = ()
    truncated: bool = False


def without_model(text: str, *, is_normal: bool = False) -> Translation | None:
    """Answer a text that has nothing to translate: blank stays blank, signs stay signs."""
    normal = text if is_normal else normalise(text)
    if not normal:
        return Translation(hypotheses=(Hypothesis(text=""),))
    if is_copied(normal):
        return Translation(hypotheses=(Hypothesis(text=normal),), copied=True)
    return None


def read_source(
    text: str,
    tokenizer: Tokenizer,
    max_source_length: int,
    *,
    truncate: bool = False,
    with_words: bool = False,
) -> Source:
    """Split a sentence, in its normal form, into pieces.

    Raises:
        OptionError: It has more pieces than the model takes, and may not be cut.
    """
    pieces = tokenizer.encode(text, is_normal=True)
    length = len(pieces) + 1
    if length > max_source_length and not truncate:
        raise OptionError(
            f"the source has {length:,} tokens, its end token counted; the model takes at most "
            f"{max_source_length:,}. Split it, or let it be cut (truncate_source)."
        )
    kept = pieces[: max_source_length - 1]
    words = tokenizer.words(text, is_normal=True)[: len(kept)] if with_words else ()
    return Source(ids=(*kept, EOS), words=words, truncated=len(kept) < len(pieces))


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceTask:
    """A sentence to search for.

    Attributes:
        position: Its place in the call.
        source: What the model reads.
        request: What is asked for.
    """

    position: int
    source: Source
    request: SearchRequest


def sentence_task(
    text: str,
    options: TranslateOptions,
    tokenizer: Tokenizer,
    spec: TranslatorSpec,
    *,
    position: int,
    place: int,
    texts: OptionTexts | None = None,
    is_normal: bool = False,
) -> SentenceTask:
    """Say as ids what is asked for a sentence.

    Args:
        text: The sentence; not one that `without_model` answers.
        options: How to search.
        tokenizer: The model's.
        spec: What the model is.
        position: Place in the call.
        place: Place that decides what is drawn at random.
        texts: Encodes what the options of several sentences hold; None where it is just this one.
        is_normal: The text is in its normal form already.

    Raises:
        OptionError: The source is too long, or the options contradict the length that this
            sentence's translation may have.
    """
    texts = texts or OptionTexts(tokenizer)
    source = read_source(
        text if is_normal else normalise(text),
        tokenizer,
        spec.max_source_length,
        truncate=options.truncate_source,
        with_words=options.replace_unknowns,
    )
    max_length = options.max_length
    if max_length is None:
        pieces = len(source.ids) - 1
        max_length = math.floor(options.max_length_ratio * pieces + options.max_length_margin)
    request = SearchRequest(
        options=options,
        max_length=max(1, min(max_length, spec.max_target_length)),
        prefix=texts.ids(options.prefix),
        banned=texts.banned(options),
        place=place,
    )
    return SentenceTask(position=position, source=source, request=request)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairTask:
    """A translation to score.

    Attributes:
        position: Its place in the call.
        source: What the model reads.
        target: The pieces of the translation and the end token.
    """

    position: int
    source: Source
    target: tuple[int, ...]


def pair_task(
    source: str, target: str, tokenizer: Tokenizer, spec: TranslatorSpec, position: int
) -> PairTask:
    """Say as ids what is to be scored.

    Raises:
        OptionError: The source is blank, or one of the two is too long; both are told.
    """
    source = normalise(source)
    if not source:
        raise OptionError("the source is blank; there is nothing to translate. Leave the pair out.")
    pieces = tokenizer.encode(target)
    problems = []
    if len(pieces) + 1 > spec.max_target_length:
        problems.append(
            f"the target has {len(pieces) + 1:,} tokens, its end token counted; the model writes "
            f"at most {spec.max_target_length:,}. Split the pair."
        )
    try:
        read = read_source(source, tokenizer, spec.max_source_length)
    except OptionError as error:
        raise OptionError([*error.problems, *problems]) from error
    if problems:
        raise OptionError(problems)
    return PairTask(position=position, source=read, target=(*pieces, EOS))


def check_model_options(
    settings: Iterable[TranslateOptions], spec: TranslatorSpec, texts: OptionTexts
) -> None:
    """Refuse what this model can't do, and what nobody can.

    Args:
        settings: Options; one that stands there several times is looked at once.
        spec: What the model is.
        texts: Encodes what the options hold.

    Raises:
        OptionError: All of it is named.
    """
    problems: dict[str, None] = {}
    for options in {id(options): options for options in settings}.values():
        if options.replace_unknowns and not spec.has_attention:
            problems["replace_unknowns needs attention, and this model has none; leave it off."] = (
                None
            )
        if all(texts.banned(options)):
            continue
        for text in options.banned:
            if not texts.ids(text):
                problems[f"banned text {text!r} is blank; leave it out."] = None
    if problems:
        raise OptionError(list(problems))
