"""What is given to a translator: everything that is wrong with it is said at once, by its place."""

import numpy as np
import pandas as pd
import pytest

from foretell.data.errors import OptionError
from foretell.data.text.sentences import check_pairs, check_sentences
from foretell.data.text.translation import TranslateOptions

ONE = TranslateOptions()


@pytest.mark.parametrize(
    "sentences",
    [["a", "b"], ("a", "b"), np.array(["a", "b"]), pd.Series(["a", "b"]), iter(["a", "b"])],
)
def test_any_list_of_texts_will_do(sentences) -> None:
    greedy = TranslateOptions(beam_size=1)
    assert check_sentences(sentences, [ONE, greedy]) == (("a", "b"), (ONE, greedy))


def test_one_set_of_options_is_for_all() -> None:
    assert check_sentences(["a", "b"], ONE) == (("a", "b"), (ONE, ONE))
    assert check_sentences([], ONE) == ((), ())


@pytest.mark.parametrize(
    ("sentences", "said"),
    [
        ("Good morning.", r"sentences is 'Good morning\.' \(str\); give a list with a text"),
        (b"raw", r"sentences is b'raw' \(bytes\)"),
        (None, r"sentences is None \(NoneType\)"),
        ({"a": "b"}, r"\(dict\); give a list"),
        (pd.DataFrame({"text": ["a"]}), r"\(DataFrame\); give a list"),
    ],
)
def test_what_would_be_read_by_letters_or_columns_is_refused(sentences, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        check_sentences(sentences, ONE)


def test_everything_wrong_is_named_by_its_place() -> None:
    with pytest.raises(OptionError) as caught:
        check_sentences(["a", None, "b", float("nan")], [ONE, {"beam_size": 4}])
    assert caught.value.problems == (
        "sentence 2 is None (NoneType); expected a text.",
        "sentence 4 is nan (float); expected a text.",
        "option 2 is {'beam_size': 4} (dict); expected a TranslateOptions.",
    )


def test_a_wrong_column_is_told_in_a_few_lines() -> None:
    with pytest.raises(OptionError) as caught:
        check_sentences(list(range(1000)), ONE)
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1] == "990 more are wrong in this way."


@pytest.mark.parametrize("count", [0, 1, 3])
def test_options_are_as_many_as_sentences(count: int) -> None:
    with pytest.raises(OptionError, match=f"there are {count} options for 2 sentences; give one"):
        check_sentences(["a", "b"], [ONE] * count)


def test_pairs_are_two_texts() -> None:
    assert check_pairs([("a", "b"), ["c", ""]]) == (("a", "b"), ("c", ""))
    with pytest.raises(OptionError, match=r"pair 2 is \('a',\) \(tuple\)") as caught:
        check_pairs([("a", "b"), ("a",), "ab", ("a", None)])
    assert len(caught.value.problems) == 3
