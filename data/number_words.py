"""Numbers in English and German words: parallel text by rule, to try a translator on.

German counts units before tens ("one and twenty"), so a translator must learn to reorder.
Compounds are written apart, so that a word is a part of the number in both languages.
"""

import random
from collections.abc import Iterator

from foretell.data.errors import OptionError

LARGEST_NUMBER = 999_999
LARGEST_COUNT = 500_000  # pairs to draw; the last of a million different ones take ever longer

_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_GERMAN = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
_GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def english_words(number: int) -> str:
    """Write a number in English, 21305 as "twenty one thousand three hundred and five".

    Raises:
        OptionError: It is no whole number of 0 to 999,999.
    """
    _check(number)
    thousands, rest = divmod(number, 1000)
    words = [*_english(thousands), "thousand"] if thousands else []
    if thousands and 0 < rest < 100:
        words.append("and")
    return " ".join(words + _english(rest) if rest or not thousands else words)


def german_words(number: int) -> str:
    """Write a number in German, 21305 as "ein und zwanzig tausend drei hundert fünf".

    Raises:
        OptionError: It is no whole number of 0 to 999,999.
    """
    _check(number)
    thousands, rest = divmod(number, 1000)
    words = [*_german(thousands), "tausend"] if thousands else []
    words += _german(rest) if rest or not thousands else []
    if words[-1] == "ein":  # only before another word is it short
        words[-1] = "eins"
    return " ".join(words)


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
    """Words of a number below 1000."""
    hundreds, rest = divmod(number, 100)
    words = [_ENGLISH[hundreds], "hundred"] if hundreds else []
    if hundreds and rest:
        words.append("and")
    if rest >= 20:
        words.append(_ENGLISH_TENS[rest // 10 - 2])
        rest %= 10
        return [*words, _ENGLISH[rest]] if rest else words
    return [*words, _ENGLISH[rest]] if rest or not hundreds else words


def _german(number: int) -> list[str]:
    """Words of a number below 1000."""
    hundreds, rest = divmod(number, 100)
    words = [_GERMAN[hundreds], "hundert"] if hundreds else []
    if rest >= 20:
        tens, units = divmod(rest, 10)
        words += [_GERMAN[units], "und"] if units else []
        return [*words, _GERMAN_TENS[tens - 2]]
    return [*words, _GERMAN[rest]] if rest or not hundreds else words


def _check(number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= LARGEST_NUMBER:
        raise OptionError(
            f"the number is {number!r}; it must be a whole number of 0 to {LARGEST_NUMBER:,}."
        )
