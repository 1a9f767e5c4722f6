"""Texts that look alike must be one text to a model, and every text must stay one line."""

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foretell.data.text.normalising import is_blank, is_copied, normalise

# Of every Unicode character, lone surrogates too, those that meet the rules come often.
ODD = (
    "a e1\u0301\u0308\u200c\u200d\u200b\ufeff\u00ad\u2028\x85\t\n\r\x00\x1b\u2581\u3000\ud83d\ude00"
)
TEXTS = st.text(
    st.sampled_from(ODD + "👩\u0915\u094d\u0627\u1100\u1161\u11a8\u304b\u3099Å\u212a")
    | st.characters(exclude_categories=())
)


@given(TEXTS)
@example("a\u200d \u200d b")
@example("\u212a\u200d\u0301")
@example("e\u200d\u0301")
@example("e\u200b\u0301")
@example("\ud83d\u200b\ude00")
def test_a_normal_text_is_one_clean_line_and_stays_as_it_is(text: str) -> None:
    normal = normalise(text)
    assert normalise(normal) == normal
    assert len(normal.splitlines()) == (normal != "")
    assert normal == " ".join(normal.split())
    assert unicodedata.is_normalized("NFC", normal)
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in normal)
    normal.encode()  # valid Unicode


# Marks below and above, signs for two marks, letters of several, what stands between or goes.
FLOODS = st.text(
    st.sampled_from("a\u0301\u0316\u0344\u0f73\u1f82\u0958\u034f\u200d\u200b-"), max_size=120
)


@given(FLOODS)
@example("\u1f82" + "\u0344" * 13 + "b")
@example("\u0958" + "\u0316" * 30)
@example("a" + "\u0301" * 29 + "\u0344")
@example("a" + "\u0301" * 20 + "\u200d" + "\u0316" * 20)
@example("\u0f73" + "\u0301" * 40 + "\u200d")
def test_no_flood_of_marks_is_left(text: str) -> None:
    """Ordering marks is quadratic in their number; U+034F stops it and is not seen."""
    normal = normalise(text)
    assert normalise(normal) == normal
    assert unicodedata.is_normalized("NFC", normal)
    decomposed = unicodedata.normalize("NFD", normal)
    marks = "".join("m" if unicodedata.combining(sign) else " " for sign in decomposed).split()
    assert max(map(len, marks), default=0) <= 30


def test_what_people_write_has_no_floods() -> None:
    """Thirty marks on one letter are as they were; so are long runs of signs."""
    for text in ("a" + "\u0316" * 30, "-" * 100, "\u0958" + "\u0316" * 28, "😀" * 40):
        assert normalise(text) == unicodedata.normalize("NFC", text)


def test_a_flood_of_marks_takes_no_time() -> None:
    """A megabyte of marks took minutes, in which no other thread could run."""
    flood = "a" + "\u0301\u0316" * 250_000
    assert normalise(flood).replace("\u034f", "").count("\u0316") == 250_000


@given(TEXTS, TEXTS)
def test_words_are_normalised_each_alone(left: str, right: str) -> None:
    """So text can be shown as far as whole words go, whatever follows."""
    joined = normalise(f"{left} {right}")
    assert joined == normalise(f"{normalise(left)} {normalise(right)}")


@given(TEXTS)
def test_no_letter_is_ever_lost(text: str) -> None:
    assert plain_letters(normalise(text)) == plain_letters(text)


@pytest.mark.parametrize(
    "text", ["cafe\u0301", "Å \u212b A\u030a", "\u1100\u1161\u11a8", "ǖ u\u0308\u0304"]
)
def test_letters_are_composed_and_nothing_is_made_compatible(text: str) -> None:
    """ﬁ, ① and full-width letters differ in look and so stay; that is NFC, not NFKC."""
    assert normalise(text) == unicodedata.normalize("NFC", text)
    assert normalise(f"{text}ﬁ①Ａ") == unicodedata.normalize("NFC", text) + "ﬁ①Ａ"


def test_every_line_end_blank_and_control_character_becomes_a_space() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if character.isspace() or unicodedata.category(character) == "Cc":
            assert normalise(f"a{character}b{character}") == "a b", hex(code)
        elif len(f"a{character}b".splitlines()) > 1:
            pytest.fail(f"U+{code:04X} ends lines but is no space")


@pytest.mark.parametrize(
    "mark", list("\ufeff\u200b\u2060\u00ad\u200e\u200f\u202a\u202e\u2066\u2069\u061c")
)
def test_marks_that_nobody_sees_split_no_word(mark: str) -> None:
    assert normalise(f"{mark}translat{mark}ion{mark}") == "translation"


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈",  # emoji of several
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # a flag made of tags
        "می\u200cخواهم",  # Persian: without it another word
        "क्\u200dष क्\u200cष",  # Devanagari: half letter, visible virama
        "അവന്\u200d",  # Malayalam: a final letter of old spelling
        "§ … € ½ ﬁ № ™ \ue000 \ufffd \ufffe",
    ],
)
def test_what_carries_meaning_survives(text: str) -> None:
    assert normalise(text) == text


def test_joiners_are_judged_alike_whatever_the_composition() -> None:
    """Two texts that look alike are one text: by a letter of many code points, or of one."""
    for text in ("a\u0323\u0302\u200db", "\u1ead\u200db", "a\u200d\u0323\u0302b"):
        assert normalise(text) == "\u1eadb"


@pytest.mark.parametrize(
    "text", ["Auf\u200clage", "сло\u200dво", "ab\u200d\u200c", "\u200dab", "ab \u200d"]
)
def test_joiners_that_join_nothing_go(text: str) -> None:
    assert "\u200c" not in normalise(text)
    assert "\u200d" not in normalise(text)


def test_surrogates_become_characters() -> None:
    """JSON and Windows hand over halves; a pair is a character, a lone half is none."""
    assert normalise("\ud83d\ude00") == "😀"
    assert normalise("a\ud83d b\ude00 \ude00\ud83d") == "a\ufffd b\ufffd \ufffd\ufffd"


@pytest.mark.parametrize(
    "text", ["", " ", "\t\r\n", "\u200b", "\ufeff", "\u200d", "\x00\x1b", "\u3000\u2028"]
)
def test_blank_is_what_normalises_to_nothing(text: str) -> None:
    assert is_blank(text)
    assert normalise(text) == ""
    assert not is_blank(text + "-")


def test_copied_is_what_holds_no_letter_and_no_digit() -> None:
    assert all(map(is_copied, ["", "-", "...!?", "👩\u200d👧 ❤\ufe0f", "§ € → _", "\u0301"]))
    assert not any(map(is_copied, ["a", "- 7", "漢", "½", "Ⅻ", "ª", "๑", "x"]))
    everything = [chr(code) for code in range(sys.maxunicode + 1)]
    signs = [sign for sign in everything if unicodedata.category(sign)[0] not in "LN"]
    assert is_copied("".join(signs))
    assert not any(map(is_copied, sorted(set(everything) - set(signs))[::100]))


def plain_letters(text: str) -> list[str]:
    return [c for c in unicodedata.normalize("NFD", text) if c.isascii() and c.isalnum()]
