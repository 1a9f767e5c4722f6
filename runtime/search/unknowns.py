"""What unknown tokens read as: the source word that had the most attention.

A vocabulary of pieces lacks characters, not words: of a name it may know all but two letters. So
the word around an unknown token is replaced whole, and the signs around that word stay.

Axes: n tokens of a hypothesis, S pieces of its source.
"""

import itertools
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float32

from foretell.data.text.tokenizer import UNK, Tokenizer

_SPACE = "\u2581"  # how pieces spell the space before a word


def read_text(
    ids: Sequence[int],
    attention: Float32[np.ndarray, "n S1"] | None,
    words: Sequence[str],
    tokenizer: Tokenizer,
) -> str:
    """Join tokens to a text, with source words in place of words that hold an unknown token.

    Args:
        ids: The tokens.
        attention: Weights of the source's pieces, maybe followed by its end token, for each.
        words: For each piece of the source the word that it belongs to; none replaces nothing.
        tokenizer: The model's.
    """
    if attention is None or not words or UNK not in ids:
        return tokenizer.decode(ids)
    pieces = tokenizer.pieces(ids)
    shown: list[int] = []
    unknowns = []
    for places in _words(ids, pieces):
        unknown = [place for place in places if ids[place] == UNK]
        if unknown:
            space = " " if pieces[places[0]].startswith(_SPACE) else ""
            shown.append(UNK)
            unknowns.append(space + _most_attended(attention[unknown].sum(axis=0), words))
        else:
            shown += [ids[place] for place in places]
    return tokenizer.decode(shown, unknowns)


def _words(ids: Sequence[int], pieces: Sequence[str]) -> Iterator[list[int]]:
    """Group the places of pieces that are letters of one word; others stand by themselves."""
    group: list[int] = []
    in_word = False
    for place, (token, piece) in enumerate(zip(ids, pieces, strict=True)):
        is_part = token == UNK or all(map(_is_narrow_letter, piece.removeprefix(_SPACE)))
        if group and not (in_word and is_part and not piece.startswith(_SPACE)):
            yield group
            group = []
        group.append(place)
        in_word = is_part
    if group:
        yield group


def _most_attended(weights: Float32[np.ndarray, " S1"], words: Sequence[str]) -> str:
    """Find the word whose pieces have most of the attention, without the signs at its ends."""
    totals: list[tuple[float, str]] = []
    place = 0
    for word, same in itertools.groupby(words):
        count = len(list(same))
        totals.append((float(weights[place : place + count].sum()), word))
        place += count
    _, word = max(totals, key=lambda total: total[0])
    return _without_signs(word)


def _without_signs(word: str) -> str:
    kept = [place for place, character in enumerate(word) if _category(character) in "LMNS"]
    return word[kept[0] : kept[-1] + 1] if kept else word


def _is_narrow_letter(character: str) -> bool:
    """Tell whether words run on across this character; wide ones are words of their own."""
    is_wide = unicodedata.east_asian_width(character) in "WF"
    return _category(character) in "LMN" and not is_wide


def _category(character: str) -> str:
    return unicodedata.category(character)[0]
