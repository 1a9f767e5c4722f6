"""HB05: what the search finds, and which way the length setting pulls.

Two tables of next-token probabilities that depend on the token before alone; all answers were
worked out by listing every sequence. Lengths count the end token.
"""

import math
import runpy
from pathlib import Path

import pytest

from foretell.data.text.tokenizer import BOS, EOS
from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import search

TABLES = runpy.run_path(str(Path(__file__).parents[1] / "runtime" / "search_tables.py"))

SEARCH = {
    (BOS,): {3: 0.55, 4: 0.4, EOS: 0.05},
    (3,): {3: 0.36, 4: 0.34, EOS: 0.3},
    (4,): {EOS: 0.9, 3: 0.06, 4: 0.04},
}
LENGTH = {
    (BOS,): {3: 0.5, 4: 0.5},
    (3,): {EOS: 0.6, 5: 0.4},
    (4,): {5: 0.9, EOS: 0.1},
    (5,): {5: 0.55, EOS: 0.45},
}
LONGEST = (4, 5, 5, 5, 5, 5, 5)


def find(table: dict, *, max_length: int, **options: object) -> list:
    decoder = TABLES["TableDecoder"](TABLES["fixed_table"](table, 6), 6)
    # Token 3 stands for the unknown word elsewhere; here it is a word like any other.
    request = SearchRequest(
        options=TranslateOptions(replace_unknowns=True, **options), max_length=max_length
    )
    (found,) = search(decoder, *TABLES["batch"]([[5]]), [request])
    return found


def test_greedy_search_follows_the_best_token_into_the_longest_way() -> None:
    (found,) = find(SEARCH, beam_size=1, length_penalty=0.0, max_length=6)
    assert found.token_ids == (3,) * 6
    assert found.finish_reason == "length"
    assert found.log_prob == pytest.approx(-5.706093, abs=1e-6)


def test_a_beam_of_two_finds_the_best() -> None:
    (found,) = find(SEARCH, beam_size=2, length_penalty=0.0, max_length=6)
    assert found.token_ids == (4,)
    assert found.log_prob == pytest.approx(-1.021651, abs=1e-6)


def test_the_example_that_the_readme_works_out_by_hand() -> None:
    first, second = find(SEARCH, beam_size=2, n_best=2, max_length=6)
    assert (first.token_ids, second.token_ids) == ((4,), (3, 4))
    assert first.score == pytest.approx(math.log(0.36) / 2)
    assert second.score == pytest.approx(math.log(0.1683) / 3)


@pytest.mark.parametrize(
    ("n_best", "patience"),
    [*[(n_best, math.inf) for n_best in (1, 2, 3, 4, 5)], (1, 1.0), (2, 1.0), (3, 1.0)],
)
def test_the_best_are_the_true_best_however_many_are_asked_for(
    n_best: int, patience: float
) -> None:
    found = find(
        SEARCH, beam_size=5, n_best=n_best, patience=patience, length_penalty=0.0, max_length=6
    )
    right = [
        ((4,), -1.021651),
        ((3, 4), -1.782007),
        ((3,), -1.801810),
        ((3, 3, 4), -2.803658),
        ((3, 3), -2.823461),
    ]
    assert [one.token_ids for one in found] == [tokens for tokens, _ in right[:n_best]]
    assert [one.score for one in found] == pytest.approx(
        [log_prob for _, log_prob in right[:n_best]], abs=1e-6
    )


@pytest.mark.parametrize("beam_size", [5, 8, 64])
@pytest.mark.parametrize(
    ("length_formula", "length_penalty", "best"),
    [
        ("power", 0.0, (3,)),
        ("power", 0.5, (3,)),
        ("power", 1.0, (4, 5)),
        ("power", 2.0, LONGEST),
        ("power", 4.0, LONGEST),
        ("gnmt", 0.0, (3,)),
        ("gnmt", 0.5, (3,)),
        ("gnmt", 1.0, (3,)),
        ("gnmt", 2.0, (3,)),
        ("gnmt", 4.0, LONGEST),
    ],
)
def test_a_higher_length_penalty_never_shortens_the_best(
    length_formula: str, length_penalty: float, best: tuple[int, ...], beam_size: int
) -> None:
    (found,) = find(
        LENGTH,
        beam_size=beam_size,
        length_formula=length_formula,
        length_penalty=length_penalty,
        patience=math.inf,
        max_length=8,
    )
    assert found.token_ids == best
    assert found.finish_reason == "eos"
