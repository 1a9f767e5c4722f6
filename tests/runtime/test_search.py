"""What greedy and beam search promise; each test is a way in which a search has gone wrong."""

import math
import runpy
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.text.tokenizer import BOS, EOS, UNK
from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import search

TABLES = runpy.run_path(str(Path(__file__).with_name("search_tables.py")))
TableDecoder, batch = TABLES["TableDecoder"], TABLES["batch"]
fixed_table, random_table = TABLES["fixed_table"], TABLES["random_table"]
A, B, C = 4, 5, 6
SEEDS = st.integers(0, 10**6)


def ask(max_length: int = 8, *, prefix=(), banned=(), place=0, **options) -> SearchRequest:
    return SearchRequest(
        options=TranslateOptions(**options),
        max_length=max_length,
        prefix=prefix,
        banned=banned,
        place=place,
    )


def find(table, request: SearchRequest, *, source=(5, 2), vocab_size: int = 7) -> list:
    (found,) = search(TableDecoder(table, vocab_size), *batch([source]), [request])
    return found


def rows(**probabilities: dict[int, float]):
    """A table by the token before: `start` and the words a, b, c."""
    names = {"start": BOS, "a": A, "b": B, "c": C}
    return fixed_table({(names[name],): row for name, row in probabilities.items()}, 7)


def outline(found) -> list:
    return [(one.token_ids, one.log_prob, one.score, one.finish_reason) for one in found]


# Lengths and scores.


def test_the_length_counts_the_end_and_a_cut_hypothesis_has_none() -> None:
    """One token and the end are two; one that was cut is divided by its tokens alone."""
    table = rows(start={A: 1.0}, a={EOS: 0.5, B: 0.5}, b={B: 1.0})
    ended, cut = find(table, ask(3, beam_size=2, n_best=2, patience=math.inf))
    assert (ended.token_ids, ended.finish_reason) == ((A,), "eos")
    assert ended.score == pytest.approx(math.log(0.5) / 2)
    assert (cut.token_ids, cut.finish_reason) == ((A, B, B), "length")
    assert cut.score == pytest.approx(math.log(0.5) / 3)
    assert cut.score > ended.score, "one that was cut comes last, however high its score"


def test_the_two_formulas_normalise_each_in_its_way_and_0_is_neutral() -> None:
    table = rows(start={A: 1.0}, a={EOS: 0.5})
    for formula, norm in [("power", 2**1.5), ("gnmt", (7 / 6) ** 1.5)]:
        (found,) = find(table, ask(length_penalty=1.5, length_formula=formula))
        assert found.score == pytest.approx(math.log(0.5) / norm)
        (found,) = find(table, ask(length_penalty=0.0, length_formula=formula))
        assert found.score == found.log_prob


@settings(max_examples=30)
@given(seed=SEEDS, beam_size=st.integers(1, 5), a=st.sampled_from([0.0, 1.0]))
def test_the_token_scores_add_up_to_the_sum_and_the_sum_to_the_score(seed, beam_size, a) -> None:
    request = ask(beam_size=beam_size, n_best=beam_size, length_penalty=a)
    for one in find(random_table(seed, 7), request):
        assert one.log_prob == sum(one.token_log_probs)
        length = len(one.token_ids) + (one.finish_reason == "eos")
        assert len(one.token_log_probs) == length
        assert one.score == one.log_prob / length**a


@settings(max_examples=30)
@given(seed=SEEDS, max_length=st.integers(1, 9), data=st.data())
def test_lengths_stay_within_their_limits(seed, max_length, data) -> None:
    min_length = data.draw(st.integers(0, max_length))
    request = ask(max_length, beam_size=4, n_best=4, min_length=min_length)
    found = find(random_table(seed, 7, none=0.0), request)
    assert found
    for one in found:
        length = len(one.token_log_probs)
        assert min_length <= length <= max_length
        assert one.finish_reason == "eos" or length == max_length


# The order of what is found.


@settings(max_examples=30)
@given(seed=SEEDS, beam_size=st.integers(1, 6), patience=st.sampled_from([1.0, math.inf]))
def test_what_is_found_is_sorted_distinct_and_ends_before_it_is_cut(
    seed, beam_size, patience
) -> None:
    request = ask(beam_size=beam_size, n_best=beam_size, patience=patience)
    found = find(random_table(seed, 7), request)
    assert len({one.token_ids for one in found}) == len(found)
    keys = [(one.finish_reason == "length", -one.score) for one in found]
    assert keys == sorted(keys)


@settings(max_examples=30)
@given(seed=SEEDS, beam_size=st.integers(1, 6), patience=st.sampled_from([0.5, 1.0, math.inf]))
def test_asking_for_more_changes_none_of_those_before(seed, beam_size, patience) -> None:
    """n_best=5 and n_best=1 must agree on the best."""
    longest = find(
        random_table(seed, 7), ask(beam_size=beam_size, n_best=beam_size, patience=patience)
    )
    for n_best in range(1, beam_size):
        shorter = find(
            random_table(seed, 7), ask(beam_size=beam_size, n_best=n_best, patience=patience)
        )
        assert outline(shorter) == outline(longest[:n_best])


@settings(max_examples=30)
@given(seed=SEEDS)
def test_a_beam_of_one_is_greedy(seed) -> None:
    table = random_table(seed, 7)
    tokens: tuple[int, ...] = ()
    while len(tokens) < 8:
        row = table((5, 2), tokens)
        token = max((token for token in range(7) if token != UNK), key=lambda one: row[one])
        if row[token] == -math.inf:
            break
        if token == EOS:
            (found,) = find(table, ask(beam_size=1))
            assert (found.token_ids, found.finish_reason) == (tokens, "eos")
            return
        tokens = (*tokens, token)
    assert [one.token_ids for one in find(table, ask(beam_size=1))] == [tokens][: len(tokens) // 8]


def test_ties_go_to_the_better_beam_then_to_the_lower_token() -> None:
    """The GPU's order of equal values is nobody's; ours must be the same everywhere."""
    half = {B: 0.25, C: 0.25, A: 0.25, EOS: 0.25}
    table = rows(start=half, a=half, b=half, c=half)
    found = find(table, ask(2, beam_size=3, n_best=3, length_penalty=0.0, patience=math.inf))
    assert [one.token_ids for one in found] == [(), (A,), (A, A)]
    (greedy,) = find(rows(start={C: 0.4, B: 0.4}, b={EOS: 1.0}, c={EOS: 1.0}), ask(beam_size=1))
    assert greedy.token_ids == (B,)


class ShuffledDecoder(TableDecoder):
    """Gives equal candidates in no order, as a GPU does."""

    def step(self, state, request):
        answer = super().step(state, request)
        scores = np.take_along_axis(
            request.scores, answer.candidates // self.vocab_size, axis=1
        ) + np.asarray(answer.candidate_log_probs)
        order = np.lexsort((-answer.candidates, -scores))
        return type(answer)(
            state=answer.state,
            candidates=np.take_along_axis(answer.candidates, order, axis=1),
            candidate_log_probs=np.take_along_axis(answer.candidate_log_probs, order, axis=1),
        )


@settings(max_examples=30)
@given(seed=SEEDS)
def test_the_decoders_order_of_equal_candidates_does_not_matter(seed) -> None:
    # One word and the end: all candidates fit in, so that none is lost at the edge.
    table = random_table(seed, 5, levels=2)
    request = ask(beam_size=3, n_best=3)
    (found,) = search(ShuffledDecoder(table, 5), *batch([(5, 2)]), [request])
    assert outline(found) == outline(find(table, request, vocab_size=5))


# Stopping.


def test_the_search_goes_on_while_a_longer_hypothesis_can_overtake() -> None:
    """With a = 1 stopping at the first end returns the shortest, not the best."""
    table = rows(start={EOS: 0.4, A: 0.6}, a={B: 0.9, EOS: 0.1}, b={EOS: 1.0})
    (found,) = find(table, ask(beam_size=2, patience=math.inf))
    assert found.token_ids == (A, B)
    assert find(table, ask(beam_size=2, patience=0.5))[0].token_ids == (A, B), "the leader goes on"


def test_a_patience_is_content_once_no_live_hypothesis_is_better_by_now() -> None:
    """Three tokens of 0.4 in all beat one of 0.6, but only once they are three."""
    table = rows(start={EOS: 0.6, A: 0.4}, a={B: 1.0}, b={EOS: 1.0})
    assert find(table, ask(beam_size=2, patience=0.5))[0].token_ids == ()
    assert find(table, ask(beam_size=2, patience=math.inf))[0].token_ids == (A, B)


def test_improbable_ends_do_not_stop_a_search_that_leads_by_far() -> None:
    """A sure model ends its beam's improbable hypotheses first; beam must not lose to greedy."""
    sure = {A: 0.97, EOS: 0.02, B: 0.01}
    table = rows(start=sure, a={B: 0.97, EOS: 0.02, C: 0.01}, b={C: 0.97, EOS: 0.03}, c={EOS: 1.0})
    greedy = find(table, ask(beam_size=1))[0]
    for beam_size in (2, 3, 5):
        assert find(table, ask(beam_size=beam_size))[0].token_ids == greedy.token_ids == (A, B, C)


@settings(max_examples=30)
@given(
    seed=SEEDS, a=st.sampled_from([0.0, 0.6, 1.0, 2.0]), formula=st.sampled_from(["power", "gnmt"])
)
def test_a_beam_that_holds_everything_finds_the_true_best(seed, a, formula) -> None:
    table, source = random_table(seed, 5, none=0.1), (5, 2)
    sums = []
    for length in range(5):
        for tokens in product((UNK, A), repeat=length):
            ended = (*tokens, EOS)
            total = sum(table(source, ended[:place])[one] for place, one in enumerate(ended))
            norm = (length + 1) ** a if formula == "power" else ((6 + length) / 6) ** a
            sums.append((total / norm, tokens))
    best = max(score for score, _ in sums)
    found = find(
        table,
        ask(
            5,
            beam_size=64,
            length_penalty=a,
            length_formula=formula,
            patience=math.inf,
            replace_unknowns=True,
        ),
        vocab_size=5,
    )
    ended = [one for one in found if one.finish_reason == "eos"]
    assert bool(ended) == (best > -math.inf)
    for one in ended:
        assert one.score == pytest.approx(best)


def test_the_stop_saves_steps_where_nothing_can_overtake() -> None:
    """Without a length penalty sums only fall: the first end that leads is the best."""
    decoder = TableDecoder(rows(start={EOS: 0.9, A: 0.1}, a={A: 0.9, EOS: 0.1}), 7)
    search(decoder, *batch([(5, 2)]), [ask(50, beam_size=2, length_penalty=0.0, patience=math.inf)])
    assert len(decoder.requests) == 1


# Beams that end, beams that die.


def test_an_ended_beam_is_replaced_and_only_the_first_may_end() -> None:
    """Both beams go on although the end leads; an end that comes third of two does not count."""
    table = rows(
        start={EOS: 0.5, A: 0.3, B: 0.2},
        a={C: 0.5, B: 0.3, EOS: 0.2},
        b={C: 0.9, EOS: 0.1},
        c={EOS: 1.0},
    )
    found = find(table, ask(beam_size=2, n_best=2, length_penalty=0.0, patience=math.inf))
    assert [one.token_ids for one in found] == [(), (B, C)]
    assert (A,) not in [one.token_ids for one in found]


def test_the_first_step_expands_one_beam() -> None:
    """Five equal beams would give five equal hypotheses."""
    decoder = TableDecoder(random_table(1, 7, none=0.0), 7)
    (found,) = search(decoder, *batch([(5, 2)]), [ask(beam_size=5, n_best=5)])
    assert decoder.requests[0].tokens.shape == (1, 1)
    assert len({one.token_ids for one in found}) == 5


@pytest.mark.parametrize("beam_size", [1, 4, 64])
def test_a_vocabulary_smaller_than_the_candidates_is_no_error(beam_size: int) -> None:
    table = rows(start={A: 0.9, EOS: 0.1}, a={A: 0.9, EOS: 0.1})
    found = find(table, ask(3, beam_size=beam_size, n_best=beam_size))
    assert found[0].token_ids in {(A, A), (A, A, A), (A,)}


def test_nothing_probable_is_nothing_found() -> None:
    """Where the model gives no token a probability, there is no answer to invent."""
    table = rows(start={})
    assert find(table, ask(beam_size=3)) == []


def test_a_model_that_gives_no_numbers_gives_no_answer() -> None:
    def table(source, tokens):
        return [math.nan] * 7

    for options in ({}, {"repetition_penalty": 2.0}, {"sample": True, "beam_size": 1}):
        assert find(table, ask(**options)) == []
