"""Torch as a decoder: the choice among candidates, and nothing that wasn't asked for."""

import numpy as np
import pytest
import torch

from foretell.data.text.tokenizer import BOS, EOS
from foretell.export.torch_decoder import TorchDecoder
from foretell.model.run import make_translator
from foretell.model.translator_config import RecurrentConfig
from foretell.runtime.search.decoding import StepRequest

VOCAB_SIZE = 9


@pytest.fixture
def model():
    torch.manual_seed(3)
    config = RecurrentConfig(vocab_size=VOCAB_SIZE, d_model=8, cell="tanh", attention="dot")
    return make_translator(config).eval()


@pytest.fixture
def decoder(model):
    return TorchDecoder(model)


@pytest.fixture
def started(decoder):
    src = np.array([[4, 5, EOS], [6, EOS, 0]])
    return decoder.start(src, src > 0)


def request(scores, num_candidates=0, **wanted):
    scores = np.array(scores, dtype=np.float32)
    zeros = np.zeros(scores.shape, dtype=np.int64)
    return StepRequest(
        tokens=zeros + BOS,
        scores=scores,
        parents=zeros,
        positions=zeros[:, 0],
        num_candidates=num_candidates,
        **wanted,
    )


@pytest.mark.parametrize(
    "scores", [[[0, -1, -0.5]] * 2, [[-np.inf, 0, -3], [-1, -np.inf, -np.inf]]]
)
@pytest.mark.parametrize("num_candidates", [1, 6, 3 * VOCAB_SIZE])
def test_candidates_are_the_highest_sums_the_first_of_equals_first(
    decoder, started, scores, num_candidates
):
    answer = decoder.step(started, request(scores, num_candidates, want_log_probs=True))
    totals = np.array(scores, dtype=np.float32)[..., None] + answer.log_probs
    for row in range(2):
        flat = totals[row].ravel()
        expected = sorted(range(flat.size), key=lambda place: (-flat[place], place))
        assert answer.candidates[row].tolist() == expected[:num_candidates]
        assert (
            answer.candidate_log_probs[row].tolist()
            == answer.log_probs[row].ravel()[expected[:num_candidates]].tolist()
        )


def test_equal_beams_come_in_their_order(model, decoder, started):
    """All pieces are equally probable here, so only the order can decide."""
    model.output_bias.data.zero_()
    model.embedding.weight.data.zero_()
    answer = decoder.step(started, request([[0.0, 0.0]] * 2, 10))
    alike = [beam * VOCAB_SIZE + token for beam in range(2) for token in range(2, VOCAB_SIZE)]
    assert answer.candidates.tolist() == [alike[:10]] * 2


def test_what_was_not_asked_for_is_none(decoder, started):
    answer = decoder.step(started, request([[0.0]] * 2))
    assert (answer.candidates, answer.candidate_log_probs) == (None, None)
    assert (answer.log_probs, answer.attention) == (None, None)
    wanted = decoder.step(started, request([[0.0]] * 2, want_attention=True))
    assert wanted.attention.shape == (2, 1, 3)


def test_sentences_that_are_kept_answer_as_before(decoder, started):
    before = decoder.step(started, request([[0.0]] * 2, want_log_probs=True))
    kept = decoder.keep(started, np.array([1]))
    after = decoder.step(kept, request([[0.0]], want_log_probs=True))
    np.testing.assert_allclose(after.log_probs, before.log_probs[1:], rtol=1e-5)


def test_a_state_may_be_stepped_from_twice(decoder, started):
    first = decoder.step(started, request([[0.0]] * 2, want_log_probs=True))
    again = decoder.step(started, request([[0.0]] * 2, want_log_probs=True))
    np.testing.assert_array_equal(first.log_probs, again.log_probs)
