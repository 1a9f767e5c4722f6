"""Numbers in English and German words: parallel text by rule, to try a translator on.

German counts units before tens ("one and twenty"), so a translator must learn to reorder.
Compounds are written apart, so that a word is a part of the number in both languages.
"""

import random
from collections.abc import Iterator

from foretell.data.errors import OptionError

LARGEST_NUMBER = 999_999
LARGEST_COUNT = 500_000  # pairs to draw; the last of a million different ones take ever longer

_WORDS = {
    0: ("zero", "null"),
    1: ("one", "ein"),
    2: ("two", "zwei"),
    3: ("three", "drei"),
    4: ("four", "vier"),
    5: ("five", "fünf"),
    6: ("six", "sechs"),
    7: ("seven", "sieben"),
    8: ("eight", "acht"),
    9: ("nine", "neun"),
    10: ("ten", "zehn"),
    11: ("eleven", "elf"),
    12: ("twelve", "zwölf"),
    13: ("thirteen", "dreizehn"),
    14: ("fourteen", "vierzehn"),
    15: ("fifteen", "fünfzehn"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    18: ("eighteen", "achtzehn"),
    19: ("nineteen", "neunzehn"),
    20: ("twenty", "zwanzig"),
    30: ("thirty", "dreißig"),
    40: ("forty", "vierzig"),
    50: ("fifty", "fünfzig"),
    60: ("sixty", "sechzig"),
    70: ("seventy", "siebzig"),
    80: ("eighty", "achtzig"),
    90: ("ninety", "neunzig"),
}
_ENGLISH = {number: english for number, (english, _) in _WORDS.items()}
_GERMAN = {number: german for number, (_, german) in _WORDS.items()}


def english_words(number: int) -> str:
    """Write a number in English, 21305 as "twenty one thousand three hundred and five".

    Raises:
        OptionError: It is no whole number of 0 to 999,999.
    """
    _check(number)
    thousands, rest = divmod(number, 1000)
    words = [*_english(thousands), "thousand"] if thousands else []
    words += ["and"] if thousands and 0 < rest < 100 else []
    return " ".join([*words, *_english(rest)]) or _ENGLISH[0]


def german_words(number: int) -> str:
    """Write a number in German, 21305 as "ein und zwanzig tausend drei hundert fünf".

    Raises:
        OptionError: It is no whole number of 0 to 999,999.
    """
    _check(number)
    thousands, rest = divmod(number, 1000)
    words = [*_german(thousands), "tausend"] if thousands else []
    words += _german(rest)
    if words[-1:] == ["ein"]:  # it is short before another word only
        words[-1] = "eins"
    return " ".join(words) or _GERMAN[0]


def number_pairs(count: int, *, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Draw different numbers, and yield each in English and in German words.

    Short numbers come far more often than their share, so that none of them stays unknown.

    Args:
        count: Pairs to draw, 500,000 at most.
        seed: Fixes what is drawn.

    Raises:
        OptionError: `count` is out of its range.
    """
    if not 0 <= count <= LARGEST_COUNT:
        raise OptionError(f"count is {count:,}; it must be 0 to {LARGEST_COUNT:,}.")
    numbers = _different(count, random.Random(seed))
    return ((english_words(number), german_words(number)) for number in numbers)


def _different(count: int, rng: random.Random) -> Iterator[int]:
    seen: set[int] = set()
    while len(seen) < count:
        # Every second draw is of any number of digits; nine in ten of all numbers have six.
        most = LARGEST_NUMBER if rng.random() < 0.5 else 10 ** rng.randint(1, 6) - 1
        number = rng.randint(0, most)
        if number not in seen:
            seen.add(number)
            yield number


def _english(number: int) -> list[str]:
    """Words of a number of 1 to 999, none for 0."""
    hundreds, rest = divmod(number, 100)
    words = [_ENGLISH[hundreds], "hundred"] if hundreds else []
    words += ["and"] if hundreds and rest else []
    if rest in _ENGLISH:
        return [*words, _ENGLISH[rest]] if rest else words
    return [*words, _ENGLISH[rest - rest % 10], _ENGLISH[rest % 10]]


def _german(number: int) -> list[str]:
    """Words of a number of 1 to 999, none for 0."""
    hundreds, rest = divmod(number, 100)
    words = [_GERMAN[hundreds], "hundert"] if hundreds else []
    if rest in _GERMAN:
        return [*words, _GERMAN[rest]] if rest else words
    return [*words, _GERMAN[rest % 10], "und", _GERMAN[rest - rest % 10]]


def _check(number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= LARGEST_NUMBER:
        raise OptionError(
            f"the number is {number!r}; it must be a whole number of 0 to {LARGEST_NUMBER:,}."
        )
