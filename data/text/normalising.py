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
_JOINERS = re.compile("[\u200c\u200d]+")
_FIRST_JOINED = "\u0590"

# Marks are put in order by comparing each with those before it: of 50,000 on a letter that takes
# seconds. So what nobody sees stands between every 30, as in the stream-safe text of UAX #15.
_MOST_MARKS = 30
_MARK_BREAK = "\u034f"  # combining grapheme joiner
# No mark is a letter, digit or blank. A mark may be a sign for two, and its letter may hold three.
_MAYBE_MARKS = re.compile(r"[^\w\s]{14,}")


def normalise(text: str) -> str:
    """Bring a text into its normal form; a normal text stays as it is.

    Each run of whitespace, line ends and control characters becomes one space, none at the ends.
    Invisible format characters (byte order mark, zero-width space, word joiner, soft hyphen, marks
    of writing direction, annotation) go. Zero-width joiner and non-joiner stay behind a letter or
    mark from U+0590 on, where they shape scripts and emoji, and go elsewhere. Letters are composed
    (NFC), and of more than 30 marks on a letter each 30 are followed by U+034F. Pairs of surrogates
    become their character, lone ones U+FFFD. All else stays. Takes time in proportion to the text.
    """
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _BREAK.sub(" ", _INVISIBLE.sub("", text))
    text = _JOINERS.sub(lambda found: found[0] if _shapes(text, found.start()) else "", text)
    # Last, for what an invisible character kept apart may compose, or be one run of spaces.
    return _compose(" ".join(text.split()))


def is_blank(text: str) -> bool:
    """Tell whether nothing is left of a text in its normal form."""
    return not normalise(text)


def is_copied(text: str) -> bool:
    """Tell whether a text has no letter and no digit (Unicode L, N), so nothing to translate."""
    return not any(unicodedata.category(character)[0] in "LN" for character in text)


def _shapes(text: str, place: int) -> bool:
    """Tell whether there is what a joiner shapes in the letter or the marks before this place.

    Whether they are composed, and in which order the marks stand, makes no difference.
    """
    while place:
        place -= 1
        before = text[place]
        if before in "\u200c\u200d":
            return False
        parts = unicodedata.normalize("NFD", before)
        if max(parts) >= _FIRST_JOINED:
            return True
        if before != _MARK_BREAK and not all(map(unicodedata.combining, parts)):
            return False
    return False


def _compose(text: str) -> str:
    """Compose letters, with floods of marks broken up: so that it is so for what comes out, too."""
    pieces = []
    end = 0
    for signs in _MAYBE_MARKS.finditer(text):
        start = signs.start()
        before = text[start - 1] if start else ""
        pieces += [text[end:start], _break_marks(before, signs[0])]
        end = signs.end()
    return unicodedata.normalize("NFC", "".join([*pieces, text[end:]]))


def _break_marks(before: str, signs: str) -> str:
    """Put a break before each mark that would be one too many behind its letter."""
    count = _count_marks(before)[1]
    pieces = []
    marks = {sign: _count_marks(sign) for sign in set(signs)}
    for sign in signs:
        leading, trailing, is_mark = marks[sign]
        if count + leading > _MOST_MARKS:
            pieces.append(_MARK_BREAK)
            count = 0
        count = count + trailing if is_mark else trailing
        pieces.append(sign)
    return "".join(pieces)


def _count_marks(sign: str) -> tuple[int, int, bool]:
    """Count the marks that a character is composed of: at its start, at its end; are they all?"""
    is_mark = [unicodedata.combining(part) > 0 for part in unicodedata.normalize("NFD", sign)]
    leading = [*is_mark, False].index(False)
    trailing = [*reversed(is_mark), False].index(False)
    return leading, trailing, all(is_mark)
