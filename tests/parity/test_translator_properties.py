"""What DESIGN promises of a translator's graphs, checked on the ONNX files themselves.

The same promises of whole translations are in tests/runtime and tests/cases.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.bundles.bundle import read_bundle
from foretell.data.text.tokenizer import BOS, EOS, PAD
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.decoding import StepRequest


@pytest.fixture(scope="module", params=["translator_bundle_path", "recurrent_bundle_path"])
def decoder(request):
    return OnnxDecoder(read_bundle(request.getfixturevalue(request.param)), device="cpu", threads=1)


def sources(vocab_size, rows, length, seed=0):
    """Random sources of all lengths up to `length`, ended and padded."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, length + 1, rows)
    counts[0] = length
    src = rng.integers(4, vocab_size, (rows, length))
    src[np.arange(rows), counts - 1] = EOS
    src_mask = np.arange(length) < counts[:, None]
    return np.where(src_mask, src, PAD), src_mask


def step(decoder, state, position, tokens, parents, scores=None, **wanted):
    tokens, parents = np.array(tokens), np.array(parents)
    if scores is None:
        scores = np.zeros(tokens.shape)
    return decoder.step(
        state,
        StepRequest(
            tokens=tokens,
            scores=np.array(scores, dtype=np.float32),
            parents=parents,
            positions=np.full(len(tokens), position),
            **wanted,
        ),
    )


def after_first_step(decoder, src, src_mask):
    bos = np.full((len(src), 1), BOS)
    return step(decoder, decoder.start(src, src_mask), 0, bos, np.zeros_like(bos)).state


@given(seed=st.integers(0, 1000), padding=st.integers(1, 20))
def test_neither_padding_nor_neighbours_change_an_answer(decoder, seed, padding):
    src, src_mask = sources(decoder.vocab_size, 3, 9, seed)
    wide = np.pad(src, ((0, 0), (0, padding)), constant_values=7)
    wide_mask = np.pad(src_mask, ((0, 0), (0, padding)))
    tokens, parents = [[5, 9]] * 3, [[0, 0]] * 3
    together = step(
        decoder, after_first_step(decoder, wide, wide_mask), 1, tokens, parents, want_log_probs=True
    )
    for row in range(3):
        length = src_mask[row].sum()
        alone = src[row : row + 1, :length], src_mask[row : row + 1, :length]
        answer = step(
            decoder, after_first_step(decoder, *alone), 1, [[5, 9]], [[0, 0]], want_log_probs=True
        )
        np.testing.assert_allclose(
            answer.log_probs[0], together.log_probs[row], rtol=1e-4, atol=1e-4
        )


@given(seed=st.integers(0, 1000), order=st.permutations(range(4)))
def test_beams_in_another_order_give_the_same_in_that_order(decoder, seed, order):
    """Whatever follows a beam must follow it when beams change places: caches, cells, outputs."""
    src, src_mask = sources(decoder.vocab_size, 2, 6, seed)
    state = after_first_step(decoder, src, src_mask)
    four = step(decoder, state, 1, [[5, 9, 20, 33]] * 2, [[0] * 4] * 2).state
    plain = step(decoder, four, 2, [[6] * 4] * 2, [[0, 1, 2, 3]] * 2, want_log_probs=True)
    moved = step(decoder, four, 2, [[6] * 4] * 2, [list(order)] * 2, want_log_probs=True)
    np.testing.assert_allclose(
        moved.log_probs, plain.log_probs[:, list(order)], rtol=1e-5, atol=1e-5
    )
    then = [
        step(decoder, answer.state, 3, [[8] * 4] * 2, [[0, 1, 2, 3]] * 2, want_log_probs=True)
        for answer in (plain, moved)
    ]
    np.testing.assert_allclose(
        then[1].log_probs, then[0].log_probs[:, list(order)], rtol=1e-5, atol=1e-5
    )
    assert np.ptp(plain.log_probs[..., 2:], axis=1).max() > 1e-4  # beams that differ at all


def test_probabilities_sum_to_one_and_padding_and_start_have_none(decoder):
    src, src_mask = sources(decoder.vocab_size, 8, 12)
    state = after_first_step(decoder, src, src_mask)
    answer = step(
        decoder, state, 1, [[5, 9]] * 8, [[0, 0]] * 8, want_log_probs=True, want_attention=True
    )
    np.testing.assert_allclose(np.exp(answer.log_probs).sum(axis=-1), 1, rtol=1e-5)
    assert (answer.log_probs[..., [PAD, BOS]] == -np.inf).all()
    assert np.isfinite(answer.log_probs[..., 2:]).all()
    np.testing.assert_allclose(answer.attention.sum(axis=-1), 1, rtol=1e-5)
    assert (
        answer.attention[~np.broadcast_to(src_mask[:, None], answer.attention.shape)] == 0
    ).all()


@given(
    seed=st.integers(0, 1000),
    num_candidates=st.integers(1, 30),
    dead=st.lists(st.booleans(), min_size=3, max_size=3).filter(lambda dead: not all(dead)),
)
def test_candidates_are_the_highest_sums(decoder, seed, num_candidates, dead):
    """Against a sort; a dead beam offers nothing while a live one does."""
    src, src_mask = sources(decoder.vocab_size, 2, 5, seed)
    scores = np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float32)
    scores[:, dead] = -np.inf
    answer = step(
        decoder,
        after_first_step(decoder, src, src_mask),
        1,
        [[5, 9, 20]] * 2,
        [[0, 0, 0]] * 2,
        scores,
        num_candidates=num_candidates,
        want_log_probs=True,
    )
    totals = (scores[..., None] + answer.log_probs).reshape(2, -1)
    expected = np.argsort(-totals, axis=1, kind="stable")[:, :num_candidates]
    np.testing.assert_array_equal(answer.candidates, expected)
    beams = answer.candidates // decoder.vocab_size
    assert not np.array(dead)[beams].any()
    np.testing.assert_array_equal(
        answer.candidate_log_probs,
        np.take_along_axis(answer.log_probs.reshape(2, -1), expected, axis=1),
    )


def test_asking_for_more_changes_nothing(decoder):
    src, src_mask = sources(decoder.vocab_size, 3, 6)
    state = after_first_step(decoder, src, src_mask)
    asked = ([[5, 9]] * 3, [[0, 0]] * 3)
    few = step(decoder, state, 1, *asked, num_candidates=4)
    more = step(
        decoder, state, 1, *asked, num_candidates=4, want_log_probs=True, want_attention=True
    )
    np.testing.assert_array_equal(few.candidates, more.candidates)
    np.testing.assert_array_equal(few.candidate_log_probs, more.candidate_log_probs)
