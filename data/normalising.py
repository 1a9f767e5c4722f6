"""Text in the one form that models see and answers have.

Two texts that look alike are one text: composed and decomposed letters, blanks of any kind, marks
that nobody sees. A normal text is one line, whatever any tool takes for a line end.
"""

import re
import unicodedata

_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")  # \s holds all that str.splitlines splits at
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]"
)
# Joiners shape letters from Hebrew onwards and hold emoji together; elsewhere they do nothing.
_IDLE_JOINER = re.compile("(?<![\u0590-\U0010ffff])[\u200c\u200d]+")


def normalise(text: str) -> str:
    """Bring a text into its normal form; a normal text stays as it is.

    Each run of whitespace, line ends and control characters becomes one space, none at the ends.
    Invisible format characters (byte order mark, zero-width space, word joiner, soft hyphen, marks
    of writing direction, annotation) go. Zero-width joiner and non-joiner stay behind a character
    from U+0590 on, where they shape scripts and emoji, and go elsewhere. Letters are composed
    (NFC). Pairs of surrogates become their character, lone ones U+FFFD. All else stays.
    """
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text))
    text = _IDLE_JOINER.sub("", _BREAK.sub(" ", text))
    # What an invisible character kept apart may compose, or be one run of spaces.
    return unicodedata.normalize("NFC", " ".join(text.split()))


def is_blank(text: str) -> bool:
    """Tell whether nothing is left of a text in its normal form."""
    return not normalise(text)


def is_copied(text: str) -> bool:
    """Tell whether a text has no letter and no digit (Unicode L, N), so nothing to translate."""
    return not any(unicodedata.category(character)[0] in "LN" for character in text)
