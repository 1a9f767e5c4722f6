"""A sentence does not notice its neighbours; a caller may watch, and stop, each on its own."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foretell.data.text.tokenizer import BOS, EOS
from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.candidates import highest
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import Search, search

TABLES = runpy.run_path(str(Path(__file__).with_name("search_tables.py")))
TableDecoder, batch = TABLES["TableDecoder"], TABLES["batch"]
fixed_table, random_table = TABLES["fixed_table"], TABLES["random_table"]
A, B, C = 4, 5, 6
SEEDS = st.integers(0, 10**6)
SOURCES = [(3, 2), (4, 4, 5, 2), (5, 2), (6, 3, 3, 3, 3, 2), (3, 4, 2), (2,)]


def ask(max_length: int = 8, **options) -> SearchRequest:
    return SearchRequest(options=TranslateOptions(**options), max_length=max_length)


def outline(found) -> list:
    """Everything of each hypothesis, bit by bit."""
    return [
        (
            one.token_ids,
            one.token_log_probs,
            one.log_prob,
            one.score,
            one.finish_reason,
            None if one.attention is None else one.attention.tolist(),
        )
        for one in found
    ]


# Different in everything that a batch could mix up.
REQUESTS = [
    ask(beam_size=4, n_best=4),
    ask(beam_size=1),
    ask(3, beam_size=2, n_best=2, attention=True),
    ask(12, beam_size=3, no_repeat_ngram_size=2, length_penalty=0.0),
    ask(beam_size=5, n_best=2, repetition_penalty=2.0, patience=math.inf),
    ask(beam_size=1, sample=True, seed=3),
]


@settings(max_examples=20)
@given(seed=SEEDS, order=st.permutations(range(6)), padding=st.integers(0, 4))
def test_alone_together_in_any_order_and_padded_wider_the_answer_is_the_same(
    seed, order, padding
) -> None:
    decoder = TableDecoder(random_table(seed, 7), 7)
    alone = [
        outline(search(decoder, *batch([source]), [request])[0])
        for source, request in zip(SOURCES, REQUESTS, strict=True)
    ]
    src, src_mask = batch([SOURCES[place] for place in order], 6 + padding)
    found = search(decoder, src, src_mask, [REQUESTS[place] for place in order])
    for place, hypotheses in zip(order, found, strict=True):
        assert outline(hypotheses) == alone[place]


def test_no_sentences_are_no_work() -> None:
    assert search(TableDecoder(None, 7), np.zeros((0, 3), int), np.zeros((0, 3), bool), []) == []


def test_a_sentence_leaves_the_batch_at_the_step_that_completes_it() -> None:
    table = fixed_table({(BOS,): {A: 1.0}, (A,): {A: 1.0}}, 7)
    decoder = TableDecoder(table, 7)
    requests = [ask(length, beam_size=1) for length in (3, 1, 5)]
    found = search(decoder, *batch(SOURCES[:3]), requests)
    assert [len(one.token_ids) for (one,) in found] == [3, 1, 5]
    assert [len(request.tokens) for request in decoder.requests] == [3, 2, 2, 1, 1]


def test_a_plain_sentence_asks_for_candidates_alone() -> None:
    """All probabilities of all beams are megabytes a step; few numbers do."""
    decoder = TableDecoder(random_table(1, 50, none=0.0), 50)
    search(decoder, *batch(SOURCES[:2]), [ask(beam_size=1), ask(beam_size=1)])
    search(decoder, *batch(SOURCES[:2]), [ask(beam_size=4), ask(beam_size=4, min_length=3)])
    assert not any(request.want_log_probs for request in decoder.requests)
    assert not any(request.want_attention for request in decoder.requests)
    greedy = [one.num_candidates for one in decoder.requests if one.tokens.shape[1] == 1]
    assert greedy[0] == 2, "the best, and the next should the best be the unknown token"
    assert max(one.num_candidates for one in decoder.requests) == 8 + 4 + 4


@given(
    values=st.lists(st.sampled_from([0.0, -1.0, -2.5, -math.inf]), min_size=1, max_size=12),
    count=st.integers(1, 14),
)
def test_the_highest_are_those_of_a_stable_sort(values, count) -> None:
    """Both ways to candidates, the decoder's and the whole distribution, have one order."""
    array = np.array(values, dtype=np.float32)
    expected = sorted(range(len(values)), key=lambda place: -values[place])[:count]
    assert highest(array, count).tolist() == expected


# Watching.


@settings(max_examples=30)
@given(
    seed=SEEDS,
    beam_sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    patience=st.sampled_from([1.0, math.inf]),
)
def test_what_a_stream_tells_is_never_taken_back(seed, beam_sizes, patience) -> None:
    """Greedy or with beams: the parts put together are the best hypothesis."""
    told: dict[int, tuple[int, ...]] = dict.fromkeys(range(len(beam_sizes)), ())
    answers = {}

    def on_step(running) -> None:
        for one in running.progress():
            assert one.row not in answers, "nothing is told of a sentence that is complete"
            told[one.row] += one.tokens
            if one.answer is not None:
                answers[one.row] = one.answer

    requests = [ask(beam_size=beam_size, patience=patience) for beam_size in beam_sizes]
    sources = batch(SOURCES[: len(requests)])
    found = search(TableDecoder(random_table(seed, 7), 7), *sources, requests, on_step)
    assert answers == dict(enumerate(found))
    assume(all(found))  # a way with no way on has been told of, and nothing is found
    assert told == {row: answer[0].token_ids if answer else () for row, answer in enumerate(found)}


def test_greedy_search_tells_every_token_at_once_and_a_beam_what_is_sure() -> None:
    table = fixed_table(
        {
            (BOS,): {A: 1.0},
            (A,): {B: 0.6, C: 0.4},
            (B,): {EOS: 1.0},
            (C,): {EOS: 1.0},
        },
        7,
    )
    for beam_size, parts in [(1, [(A,), (B,), ()]), (2, [(A,), (), (B,)])]:
        told = []
        search(
            TableDecoder(table, 7),
            *batch([(5, 2)]),
            [ask(beam_size=beam_size)],
            lambda running, told=told: told.extend(one.tokens for one in running.progress()),
        )
        assert told == parts


@settings(max_examples=20)
@given(seed=SEEDS, given_up=st.sets(st.integers(0, 5)), step=st.integers(1, 4))
def test_a_sentence_can_be_given_up_and_the_others_go_on(seed, given_up, step) -> None:
    decoder = TableDecoder(random_table(seed, 7), 7)
    whole = search(decoder, *batch(SOURCES), REQUESTS)
    steps = 0

    def on_step(_running):
        nonlocal steps
        steps += 1
        return given_up if steps == step else None

    found = search(decoder, *batch(SOURCES), REQUESTS, on_step)
    for row, (got, right) in enumerate(zip(found, whole, strict=True)):
        if row not in given_up:
            assert outline(got) == outline(right)
        else:
            assert (
                all(one.finish_reason == "eos" for one in got)
                or got == []
                or (outline(got) == outline(right))
            )


def test_what_the_watcher_raises_ends_the_search() -> None:
    class CancelledError(Exception):
        pass

    def on_step(_running):
        raise CancelledError

    decoder = TableDecoder(random_table(1, 7), 7)
    with pytest.raises(CancelledError):
        search(decoder, *batch(SOURCES), REQUESTS, on_step)
    assert len(decoder.requests) == 1


def test_a_search_can_be_led_step_by_step() -> None:
    """A scheduler does other things between steps."""
    decoder = TableDecoder(random_table(5, 7), 7)
    running = Search(decoder, *batch(SOURCES), REQUESTS)
    while not running.is_done:
        running.step()
    expected = search(decoder, *batch(SOURCES), REQUESTS)
    assert list(map(outline, running.answers)) == list(map(outline, expected))


# What a hypothesis holds.


def test_all_that_a_hypothesis_holds_follows_its_parent() -> None:
    """The beams change places here; greedy search would never show a state left in place."""
    table = fixed_table(
        {
            (BOS,): {A: 0.6, B: 0.4},
            (BOS, A): {C: 0.3, EOS: 0.7},
            (BOS, B): {C: 1.0},
            (A, C): {A: 0.5, EOS: 0.5},
            (B, C): {B: 1.0},
            (C, A): {EOS: 1.0},
            (C, B): {EOS: 1.0},
        },
        7,
    )
    decoder = TableDecoder(table, 7)
    request = ask(beam_size=2, n_best=2, min_length=3, attention=True)
    ((best, _),) = search(decoder, *batch([(5, 2)]), [request])
    assert [one.parents.tolist()[0] for one in decoder.requests[1:3]] == [[0, 0], [1, 0]]
    assert best.token_ids == (B, C, B)
    assert best.token_log_probs == pytest.approx((math.log(0.4), 0.0, 0.0, 0.0))
    weights = [TABLES["weights"]((5, 2), best.token_ids[:step], 2) for step in range(3)]
    np.testing.assert_array_equal(best.attention, weights)


def test_weights_are_cut_to_the_sentences_own_source_and_only_where_there_are_any() -> None:
    table = random_table(2, 7, none=0.0)
    requests = [ask(beam_size=3, attention=True), ask(beam_size=2, replace_unknowns=True)]
    found = search(TableDecoder(table, 7), *batch([(3, 2), (3, 4, 5, 2)], 9), requests)
    for hypotheses, length in zip(found, (2, 4), strict=True):
        for one in hypotheses:
            assert one.attention.shape == (len(one.token_ids), length)
            np.testing.assert_allclose(one.attention.sum(axis=1), 1.0, rtol=1e-6, atol=0)
    blind = TableDecoder(table, 7, has_attention=False)
    found = search(blind, *batch([(3, 2), (3, 4, 5, 2)]), requests)
    assert all(one.attention is None for hypotheses in found for one in hypotheses)
