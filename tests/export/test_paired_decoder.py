"""A proof must be able to fail: differences, wrong orders and near-ties of made-up decoders."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from foretell.export.paired_decoder import PairedDecoder, difference
from foretell.export.parity import summary
from foretell.export.translator_parity import compare_hypotheses
from foretell.runtime.search.decoding import StepAnswer, StepRequest
from foretell.runtime.search.hypotheses import FoundHypothesis

SRC = np.array([[4, 2]])


@dataclass(frozen=True)
class State:
    memory: dict = field(default_factory=dict)
    past: dict = field(default_factory=dict)


class Table:
    """A decoder that answers the same log probs at every step."""

    has_attention = False

    def __init__(self, log_probs, past=0.0):
        self.log_probs = np.array(log_probs, dtype=np.float32)
        self.vocab_size = len(self.log_probs)
        self.state = State({"memory_x": np.ones((1, 2))}, {"past_x": np.full((1, 1), past)})

    def start(self, src, src_mask):
        return self.state

    def step(self, state, request):
        log_probs = np.tile(self.log_probs, (*request.tokens.shape, 1))
        totals = (request.scores[..., None] + log_probs).reshape(1, -1)
        order = np.argsort(-totals, axis=1, kind="stable")[:, : request.num_candidates]
        return StepAnswer(
            state=self.state,
            candidates=order,
            candidate_log_probs=np.take_along_axis(log_probs.reshape(1, -1), order, axis=1),
            log_probs=log_probs,
        )

    def keep(self, state, rows):
        return state


def paired_step(expected, found):
    decoder = PairedDecoder(expected, found)
    decoder.where = "a search"
    request = StepRequest(
        tokens=np.array([[1]]),
        scores=np.zeros((1, 1), dtype=np.float32),
        parents=np.zeros((1, 1), dtype=np.int64),
        positions=np.array([4]),
        num_candidates=2,
        want_log_probs=True,
    )
    answer = decoder.step(decoder.start(SRC, SRC > 0), request)
    return decoder, answer


PLAIN = [-np.inf, -np.inf, -1.0, -2.0, -3.0]


def test_equal_sides_show_no_difference():
    decoder, answer = paired_step(Table(PLAIN), Table(PLAIN))
    assert summary(decoder.found)["failures"] == ()
    assert summary(decoder.found)["used"] == 0
    assert answer.candidates.tolist() == [[2, 3]]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (Table([-np.inf, -np.inf, -1.0, -2.01, -3.0]), "a search, step 4, log_probs"),
        (Table([-np.inf, -9.0, -1.0, -2.0, -3.0]), "log_probs: the largest difference is inf"),
        (Table([-np.inf, -np.inf, -1.0, np.nan, -3.0]), "log_probs: the largest difference is inf"),
        (Table(PLAIN, past=0.1), "a search, step 4, past_x"),
        (Table([-np.inf, -np.inf, -2.0, -1.0, -3.0]), "order of candidates"),
    ],
)
def test_each_difference_is_found_and_named(other, text):
    decoder, _ = paired_step(Table(PLAIN), other)
    assert text in " ".join(summary(decoder.found)["failures"])


def test_the_answers_are_those_of_the_graphs():
    """The proof follows the side that serves, or it would prove another way than the served one."""
    _, answer = paired_step(Table(PLAIN), Table([-np.inf, -np.inf, -3.0, -2.0, -1.0]))
    assert answer.candidates.tolist() == [[4, 3]]


def test_a_near_tie_is_reported_and_does_not_fail():
    near = [-np.inf, -np.inf, -1.0, -1.0 + 3e-5, -3.0]
    decoder, _ = paired_step(Table([*PLAIN[:2], -1.0, -1.0 - 3e-5, -3.0]), Table(near))
    assert summary(decoder.found)["failures"] == ()
    assert decoder.near_ties == ["a search, step 4, order of candidates, row 0"]


class TestDifference:
    def test_numbers_may_differ_by_the_tolerance(self):
        expected = np.array([0.0, 100.0], dtype=np.float32)
        assert difference("x", expected, expected + np.float32(9e-5)).used < 1
        assert difference("x", expected, expected + np.float32([1.1e-4, 0])).failed
        assert not difference("x", expected, expected + np.float32([0, 9e-3])).failed

    def test_shapes_and_types_may_not(self):
        x = np.zeros((2, 3), dtype=np.float32)
        assert difference("x", x, x[:1]).failed
        assert difference("x", x, x.astype(np.float64)).failed

    def test_truth_is_compared_exactly(self):
        x = np.array([True, False])
        assert not difference("x", x, x).failed
        assert difference("x", x, ~x).failed

    def test_nothing_to_compare_is_no_difference(self):
        """Caches hold nothing before the first step."""
        assert difference("x", np.empty((2, 0)), np.empty((2, 0))).used == 0


class TestHypotheses:
    ONE = FoundHypothesis(
        token_ids=(4, 5),
        token_log_probs=(-1.0,) * 3,
        log_prob=-3.0,
        score=-1.0,
        finish_reason="eos",
    )

    def compare(self, *found, had_near_tie=False):
        return compare_hypotheses("x", [self.ONE], list(found), had_near_tie=had_near_tie)

    def test_same_tokens_are_equal(self):
        assert self.compare(self.ONE) is None

    def test_other_tokens_fail_unless_their_scores_are_all_but_equal(self):
        other = replace(self.ONE, token_ids=(4, 6))
        assert self.compare(replace(other, score=-1.2)).failed
        assert not self.compare(replace(other, score=-1.00001)).failed

    def test_more_or_fewer_hypotheses_fail(self):
        assert self.compare().failed

    def test_after_a_near_tie_both_ways_are_right(self):
        other = replace(self.ONE, token_ids=(9,), score=-1.2)
        assert not self.compare(other, had_near_tie=True).failed
