"""What is given to a translator, checked at the border alike for every door."""

from collections.abc import Callable, Mapping
from typing import Any

from foretell.data.errors import OptionError
from foretell.data.text.translation import TranslateOptions

_MOST_NAMED = 10  # problems of one kind; a wrong column would otherwise name every row


def check_sentences(
    sentences: Any, options: Any
) -> tuple[tuple[str, ...], tuple[TranslateOptions, ...]]:
    """Take the sentences of a call as texts, each with its options.

    Args:
        sentences: Texts, one a sentence.
        options: `TranslateOptions` for all, or as many as there are sentences.

    Raises:
        OptionError: `sentences` is a single text, or items are no texts or no options, or there
            are more or fewer options than sentences; all is named.
    """
    texts, problems = _read(sentences, "sentences", "sentence", "text", _is_text)
    if isinstance(options, TranslateOptions):
        settings = [options] * len(texts)
    else:
        settings, more = _read(options, "options", "option", "TranslateOptions", _is_options)
        problems += more
        if not problems and len(settings) != len(texts):
            problems.append(
                f"there are {len(settings)} options for {len(texts)} sentences; give one for all, "
                "or as many as sentences."
            )
    if problems:
        raise OptionError(problems)
    return tuple(texts), tuple(settings)


def check_pairs(pairs: Any) -> tuple[tuple[str, str], ...]:
    """Take the pairs of a call as texts, a source and its target each.

    Raises:
        OptionError: It is no list of pairs; each item that is none is named.
    """
    items, problems = _read(pairs, "pairs", "pair", "(source text, target text)", _is_pair)
    if problems:
        raise OptionError(problems)
    return tuple((source, target) for source, target in items)


def _read(
    value: Any, name: str, item_name: str, expected: str, fits: Callable[[Any], bool]
) -> tuple[list[Any], list[str]]:
    """Take the items of a list, with what is wrong with them."""
    # A table is as iterable as a list, but yields its columns; a mapping its keys.
    odd = isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) != 1
    if odd or not hasattr(value, "__iter__"):
        return [], [f"{name} is {_describe(value)}; give a list with a {expected} for each."]
    items = list(value)
    problems = [
        f"{item_name} {place} is {_describe(item)}; expected a {expected}."
        for place, item in enumerate(items, start=1)
        if not fits(item)
    ]
    if len(problems) > _MOST_NAMED:
        rest = f"{len(problems) - _MOST_NAMED:,} more are wrong in this way."
        problems = [*problems[:_MOST_NAMED], rest]
    return items, problems


def _is_text(item: object) -> bool:
    return isinstance(item, str)


def _is_options(item: object) -> bool:
    return isinstance(item, TranslateOptions)


def _is_pair(item: object) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2 and all(map(_is_text, item))


def _describe(item: object) -> str:
    text = repr(item)
    return f"{text[:40]}{'...' if len(text) > 40 else ''} ({type(item).__name__})"
