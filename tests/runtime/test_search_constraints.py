"""What may not be produced never is, what must be always is, and neither ends in nothing."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.errors import OptionError
from foretell.data.text.tokenizer import BOS, EOS, UNK
from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.banned import BannedSequences
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import search

TABLES = runpy.run_path(str(Path(__file__).with_name("search_tables.py")))
TableDecoder, batch = TABLES["TableDecoder"], TABLES["batch"]
fixed_table, random_table = TABLES["fixed_table"], TABLES["random_table"]
A, B, C = 4, 5, 6
SEEDS = st.integers(0, 10**6)


def find(table, *, max_length=8, prefix=(), banned=(), decoder=None, **options) -> list:
    request = SearchRequest(
        options=TranslateOptions(**options), max_length=max_length, prefix=prefix, banned=banned
    )
    decoder = decoder or TableDecoder(table, 7)
    (found,) = search(decoder, *batch([(5, 2)]), [request])
    return found


def rows(**probabilities: dict[int, float]):
    """A table by the token before: `start` and the words a, b, c."""
    names = {"start": BOS, "a": A, "b": B, "c": C, "unk": UNK}
    return fixed_table({(names[name],): row for name, row in probabilities.items()}, 7)


def tokens(found) -> list:
    return [one.token_ids for one in found]


SEQUENCES = st.lists(st.lists(st.integers(4, 6), min_size=1, max_size=4).map(tuple), max_size=12)
HELD = st.integers(0, 5).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(4, 6), min_size=length, max_size=length), min_size=1, max_size=3
    )
)


@given(sequences=SEQUENCES, held=HELD)
def test_banned_sequences_are_found_as_by_comparing_them_all(sequences, held) -> None:
    """A tree is asked so that a thousand sequences cost little; it must forget none of them."""
    banned = BannedSequences(sequences)
    places = banned.places(np.array(held, dtype=np.int64).reshape(len(held), -1), 7)
    assert set(places.tolist()) == {
        beam * 7 + last
        for beam, tokens in enumerate(held)
        for *head, last in sequences
        if len(head) <= len(tokens) and head == tokens[len(tokens) - len(head) :]
    }


# N-grams.


@settings(max_examples=30)
@given(
    seed=SEEDS,
    size=st.integers(1, 3),
    beam_size=st.integers(1, 5),
    penalty=st.sampled_from([1.0, 2.0]),
)
def test_no_ngram_occurs_twice_in_any_hypothesis(seed, size, beam_size, penalty) -> None:
    """At beams above one it is each hypothesis's own past that counts, whichever beam it is in."""
    found = find(
        random_table(seed, 7, none=0.0),
        max_length=12,
        beam_size=beam_size,
        n_best=beam_size,
        no_repeat_ngram_size=size,
        repetition_penalty=penalty,
        min_length=4,
    )
    assert found
    for one in found:
        ngrams = [one.token_ids[at : at + size] for at in range(len(one.token_ids) - size + 1)]
        assert len(set(ngrams)) == len(ngrams)


def test_a_forbidden_ngram_costs_the_token_not_the_beam() -> None:
    """Blocking whole beams cuts the output; here the next best token takes the place."""
    table = rows(start={A: 1.0}, a={A: 0.9, B: 0.1}, b={EOS: 1.0})
    (found,) = find(table, beam_size=1, no_repeat_ngram_size=1)
    assert found.token_ids == (A, B)


# Nothing left.


def test_where_everything_is_forbidden_the_end_is_the_last_resort() -> None:
    """The only word is used up and it is too early to end: a row of -inf would give NaN."""
    table = rows(start={A: 1.0}, a={A: 0.9, EOS: 0.1})
    for options in (
        {"beam_size": 1},
        {"beam_size": 3},
        {"beam_size": 3, "repetition_penalty": 2.0},
        {"beam_size": 1, "sample": True},
    ):
        (found,) = find(table, no_repeat_ngram_size=1, min_length=5, **options)
        assert (found.token_ids, found.finish_reason) == ((A,), "eos")
        assert found.log_prob == pytest.approx(math.log(0.1))


# Banned tokens and sequences.


def test_a_banned_sequence_is_stopped_at_its_last_token() -> None:
    table = rows(start={A: 1.0}, a={B: 0.9, C: 0.1}, b={EOS: 1.0}, c={EOS: 1.0})
    assert tokens(find(table, beam_size=2)) == [(A, B)]
    assert tokens(find(table, beam_size=2, banned=((A, B),))) == [(A, C)]
    assert tokens(find(table, beam_size=2, banned=((B,), (C, A)))) == [(A, C)]


@settings(max_examples=30)
@given(seed=SEEDS, banned=st.lists(st.lists(st.integers(4, 6), min_size=1, max_size=3), max_size=4))
def test_no_banned_sequence_is_in_any_hypothesis(seed, banned) -> None:
    sequences = tuple(map(tuple, banned))
    for one in find(random_table(seed, 7, none=0.0), beam_size=4, n_best=4, banned=sequences):
        spelled = f" {' '.join(map(str, one.token_ids))} "
        assert not any(f" {' '.join(map(str, sequence))} " in spelled for sequence in sequences)


def test_the_unknown_token_is_produced_only_where_it_is_replaced() -> None:
    table = rows(start={UNK: 0.9, A: 0.1}, a={EOS: 1.0}, unk={EOS: 1.0})
    for beam_size in (1, 3):
        assert tokens(find(table, beam_size=beam_size)) == [(A,)]
        assert tokens(find(table, beam_size=beam_size, replace_unknowns=True)) == [(UNK,)]


def test_what_is_forbidden_is_forbidden_after_the_softmax() -> None:
    """The mass is not shared out again: the reported probabilities are the model's own."""
    table = rows(start={UNK: 0.5, A: 0.25, EOS: 0.25}, a={EOS: 1.0})
    (found,) = find(table, beam_size=1, min_length=2)
    assert found.token_log_probs == pytest.approx((math.log(0.25), 0.0))


# The repetition penalty.


def test_the_penalty_decides_and_the_reported_probabilities_stay_the_models_own() -> None:
    table = rows(start={A: 1.0}, a={A: 0.5, B: 0.3}, b={EOS: 1.0})
    (found,) = find(table, beam_size=1, repetition_penalty=2.0)
    assert found.token_ids == (A, B)  # log 0.5 twice is log 0.25
    (found,) = find(table, beam_size=2, repetition_penalty=1.5, length_penalty=0.0, n_best=1)
    assert found.token_ids == (A, B)
    assert found.log_prob == pytest.approx(math.log(0.3))


def test_the_penalised_sum_is_what_hypotheses_are_ranked_by() -> None:
    """Else the penalty chose the beams, and the most repetitive of them came first after all."""
    table = rows(start={A: 1.0}, a={A: 0.6, B: 0.25, EOS: 0.15}, b={EOS: 0.5})
    options = {"max_length": 4, "beam_size": 4, "n_best": 4, "patience": math.inf}
    found = find(table, repetition_penalty=3.0, **options)
    assert [one.score for one in found if one.finish_reason == "eos"] == sorted(
        (one.score for one in found if one.finish_reason == "eos"), reverse=True
    )
    twice = next(one for one in found if one.token_ids == (A, A))
    assert twice.log_prob == pytest.approx(math.log(0.6) + math.log(0.15))
    assert twice.score == pytest.approx((3 * math.log(0.6) + math.log(0.15)) / 3)


# The prefix.


@settings(max_examples=30)
@given(seed=SEEDS, beam_size=st.integers(1, 5), prefix=st.lists(st.integers(3, 6), max_size=4))
def test_every_hypothesis_starts_with_the_prefix(seed, beam_size, prefix) -> None:
    table = random_table(seed, 7, none=0.0)
    found = find(table, prefix=tuple(prefix), beam_size=beam_size, n_best=beam_size)
    assert found
    for one in found:
        assert list(one.token_ids[: len(prefix)]) == prefix
        for place, token in enumerate(prefix):
            assert one.token_log_probs[place] == table((5, 2), one.token_ids[:place])[token], (
                "its tokens are scored as any other"
            )


@pytest.mark.parametrize("patience", [1.0, math.inf])
@pytest.mark.parametrize("beam_size", [1, 3, 5, 8])
def test_the_prefix_alone_is_no_answer_where_more_is_probable(
    beam_size: int, patience: float
) -> None:
    """With five beams that hold the same prefix, the end of the second one won elsewhere."""
    table = rows(
        start={A: 0.1, B: 0.9},
        a={B: 0.9, EOS: 0.1},
        b={C: 0.9, EOS: 0.1},
        c={EOS: 1.0},
    )
    found = find(table, prefix=(A,), beam_size=beam_size, patience=patience)
    assert tokens(found) == [(A, B, C)]


def test_all_beams_but_one_are_dead_while_a_prefix_is_read() -> None:
    decoder = TableDecoder(random_table(3, 7, none=0.0), 7)
    find(None, decoder=decoder, prefix=(A, B, C), beam_size=4)
    for request in decoder.requests[:4]:
        assert (request.scores > -math.inf).sum() == 1
    assert (decoder.requests[4].scores > -math.inf).sum() > 1


def test_a_prefix_may_hold_what_may_not_be_produced() -> None:
    """It is the caller's own text; an unknown word in it is forced as any other."""
    table = rows(start={A: 1.0}, a={UNK: 0.5, B: 0.5}, b={EOS: 1.0}, unk={A: 0.6, B: 0.4})
    found = find(table, prefix=(A, UNK, A), banned=((A,),), no_repeat_ngram_size=1, min_length=2)
    assert found[0].token_ids == (A, UNK, A, B)


def test_the_ngrams_of_the_prefix_count() -> None:
    table = rows(start={A: 1.0}, a={B: 0.9, C: 0.1}, b={A: 0.9, EOS: 0.1}, c={EOS: 1.0})
    found = find(table, prefix=(A, B, A), no_repeat_ngram_size=2, beam_size=1)
    assert tokens(found) == [(A, B, A, C)]


# What can't be.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prefix": (A, B, C), "max_length": 3}, "the prefix has 3 tokens and the end token"),
        ({"max_length": 0}, "max_length is 0; it must be 1 or more"),
        ({"banned": ((A,), ())}, "a banned sequence has no tokens"),
        ({"max_length": 4, "min_length": 5}, "min_length is 5, but .* at most 4 tokens"),
    ],
)
def test_what_can_not_be_is_refused_before_the_search(wrong: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        find(rows(start={}), **wrong)
