"""The graphs behind a search: all state follows, and a bundle that would lose any is refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.bundles.bundle import read_bundle
from foretell.data.errors import BundleError
from foretell.data.text.tokenizer import BOS, EOS
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.decoding import StepAnswer, StepRequest
from foretell.runtime.session import Session

SRC = np.array([[5, 6, 7, EOS], [8, EOS, 0, 0]])
MASK = np.array([[True] * 4, [True, True, False, False]])


@pytest.fixture
def decoder(make_translator) -> OnnxDecoder:
    return OnnxDecoder(read_bundle(make_translator()), device="cpu")


def first(batch: int, **wanted: object) -> StepRequest:
    return StepRequest(
        tokens=np.full((batch, 1), BOS),
        scores=np.zeros((batch, 1), np.float32),
        parents=np.zeros((batch, 1), np.int64),
        positions=np.zeros(batch, np.int64),
        **wanted,
    )


def oracle(source: list[int], prefix: list[int], vocab: int, boost: float = 8.0) -> np.ndarray:
    """Work out what the stand-in says after a prefix, by its description in `conftest`."""
    trace = float(sum(source))
    for token in [BOS, *prefix]:
        trace = trace / 2 + token
    logits = np.sin(np.float32(trace) * np.arange(vocab, dtype=np.float32)).astype(np.float64)
    if len(prefix) < len(source):
        logits[source[len(prefix)]] += boost
    logits[:2] = -np.inf
    return logits - np.log(np.exp(logits[2:]).sum())


def check(answer: StepAnswer, prefixes: list[list[list[int]]]) -> None:
    sources = [row[mask].tolist() for row, mask in zip(SRC, MASK, strict=True)]
    assert answer.log_probs is not None
    for found, source, beams in zip(answer.log_probs, sources, prefixes, strict=True):
        expected = [oracle(source, beam, found.shape[-1]) for beam in beams]
        np.testing.assert_allclose(found, expected, atol=1e-5)


class TestSteps:
    def test_each_beam_goes_on_from_its_own_parent(self, decoder: OnnxDecoder) -> None:
        """Greedy search never shows a state in the wrong order; crossed beams do."""
        answer = decoder.step(decoder.start(SRC, MASK), first(2, want_log_probs=True))
        check(answer, [[[]], [[]]])
        answer = decoder.step(
            answer.state,
            StepRequest(
                tokens=np.array([[9, 10, 11], [12, 13, 14]]),
                scores=np.zeros((2, 3), np.float32),
                parents=np.zeros((2, 3), np.int64),
                positions=np.array([1, 1]),
                want_log_probs=True,
            ),
        )
        check(answer, [[[9], [10], [11]], [[12], [13], [14]]])
        answer = decoder.step(
            answer.state,
            StepRequest(
                tokens=np.array([[4, 5, 6, 7], [8, 9, 10, 11]]),
                scores=np.zeros((2, 4), np.float32),
                parents=np.array([[2, 2, 0, 1], [1, 0, 1, 2]]),
                positions=np.array([2, 2]),
                want_log_probs=True,
            ),
        )
        first_row = [[11, 4], [11, 5], [9, 6], [10, 7]]
        check(answer, [first_row, [[13, 8], [12, 9], [13, 10], [14, 11]]])

    def test_kept_rows_go_on_as_if_alone(self, decoder: OnnxDecoder) -> None:
        state = decoder.step(decoder.start(SRC, MASK), first(2)).state
        answers = []
        for rows in ([1], [1, 0], [0, 1, 0]):
            request = StepRequest(
                tokens=np.full((len(rows), 2), 9),
                scores=np.zeros((len(rows), 2), np.float32),
                parents=np.zeros((len(rows), 2), np.int64),
                positions=np.ones(len(rows), np.int64),
                want_log_probs=True,
                want_attention=True,
            )
            answers.append(decoder.step(decoder.keep(state, np.array(rows)), request))
        alone, turned, doubled = answers
        for name in ("log_probs", "attention"):
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(turned, name)[0])
            np.testing.assert_array_equal(getattr(turned, name)[[1, 0, 1]], getattr(doubled, name))

    def test_only_what_is_asked_for_is_answered(self, decoder: OnnxDecoder) -> None:
        state = decoder.start(SRC, MASK)
        answer = decoder.step(state, first(2, num_candidates=3))
        assert answer.log_probs is None
        assert answer.attention is None
        assert answer.candidates.tolist()[1][0] == 8
        answer = decoder.step(state, first(2, want_attention=True))
        assert answer.candidates is None
        np.testing.assert_allclose(answer.attention.sum(axis=2), 1, rtol=1e-6)
        assert (answer.attention[1, :, 2:] == 0).all()

    @given(
        scores=st.lists(st.sampled_from([0.0, -0.5, -3.0, -np.inf]), min_size=2, max_size=2),
        count=st.integers(1, 8),
    )
    def test_candidates_are_the_best_sums(self, scores: list[float], count: int) -> None:
        decoder = self.shared
        state = decoder.step(decoder.start(SRC[:1], MASK[:1]), first(1)).state
        request = StepRequest(
            tokens=np.array([[9, 10]]),
            scores=np.array([scores], np.float32),
            parents=np.zeros((1, 2), np.int64),
            positions=np.ones(1, np.int64),
            num_candidates=count,
            want_log_probs=True,
        )
        answer = decoder.step(state, request)
        sums = (request.scores[..., None] + answer.log_probs).ravel()
        order = np.lexsort([np.arange(sums.size), -sums])[:count]
        np.testing.assert_array_equal(answer.candidates[0], order)
        np.testing.assert_array_equal(
            answer.candidate_log_probs[0], answer.log_probs.ravel()[order]
        )

    @pytest.fixture(autouse=True)
    def _share(self, decoder: OnnxDecoder) -> None:
        type(self).shared = decoder

    def test_a_state_can_be_gone_on_from_twice(self, decoder: OnnxDecoder) -> None:
        state = decoder.start(SRC, MASK)
        once = decoder.step(state, first(2, want_log_probs=True))
        again = decoder.step(state, first(2, want_log_probs=True))
        np.testing.assert_array_equal(once.log_probs, again.log_probs)


@pytest.mark.parametrize(("arch", "rows"), [("recurrent", 2), ("transformer", 1)])
def test_a_lone_row_of_a_recurrent_encoder_runs_as_two(
    make_translator, monkeypatch: pytest.MonkeyPatch, arch: str, rows: int
) -> None:
    """ONNX's RNN rounds a single row otherwise: alone a sentence would get another memory."""
    decoder = OnnxDecoder(read_bundle(make_translator(arch=arch)), device="cpu")
    seen, run = [], Session.run

    def watch(session, inputs, outputs=None, **options):
        seen.append(len(inputs["src"]))
        return run(session, inputs, outputs, **options)

    monkeypatch.setattr(Session, "run", watch)
    state = decoder.start(SRC[:1], MASK[:1])
    assert seen == [rows]
    assert {len(array) for array in (*state.memory.values(), *state.past.values())} == {1}


class TestRefusing:
    def refused(self, make_translator, *change: str, **spec: object) -> list[str]:
        path: Path = make_translator(alter=lambda text: text.replace(*change), **spec)
        with pytest.raises(BundleError) as caught:
            OnnxDecoder(read_bundle(path), device="cpu")
        return list(caught.value.problems)

    def test_a_state_without_its_present_is_refused(self, make_translator) -> None:
        """Skipped without a word, it would be another beam's at the next step."""
        (problem,) = self.refused(make_translator, "present_trace", "current_trace")
        assert "the outputs of decoder.onnx are" in problem
        assert "'present_trace', 'present_entries']" in problem

    def test_a_first_state_that_no_step_reads_is_refused(self, make_translator) -> None:
        (problem,) = self.refused(make_translator, "initial_trace", "initial_traces")
        assert "the outputs of encoder.onnx are ['memory_ids', 'initial_traces']" in problem

    def test_a_memory_that_nobody_gives_is_refused(self, make_translator) -> None:
        def other(text: str) -> str:
            return text.replace("memory_ids", "memory_id") if "decoder (" in text else text

        with pytest.raises(BundleError, match=r"the inputs of decoder\.onnx are .*'memory_id'"):
            OnnxDecoder(read_bundle(make_translator(alter=other)), device="cpu")

    def test_a_first_size_that_nobody_knows_is_refused(self, make_translator) -> None:
        (problem,) = self.refused(
            make_translator, "batch, past_len, 1] past", "batch, entries, 1] past"
        )
        assert problem == (
            "past_entries has the axes ['entries'], and the encoder gives no initial_entries; "
            "nobody knows their first sizes."
        )

    def test_sentences_must_be_the_first_axis(self, make_translator) -> None:
        problems = self.refused(
            make_translator, "[batch, past_len, 1] past", "[rows, past_len, 1] past"
        )
        assert any("its first axis must be 'batch'" in problem for problem in problems)

    def test_a_size_or_an_output_that_the_manifest_does_not_tell_is_refused(
        self, make_translator
    ) -> None:
        problems = self.refused(make_translator, "", "", has_attention=False)
        assert any("expected ['candidates'" in problem for problem in problems)
        path = make_translator(vocab_size=999, name="other")
        with pytest.raises(BundleError, match=r"log_probs .* expected \['batch', 'beams', 999\]"):
            OnnxDecoder(read_bundle(path), device="cpu")

    def test_a_forecasters_bundle_is_refused(self, make_bundle) -> None:
        with pytest.raises(BundleError, match="holds a forecaster; expected a translator"):
            OnnxDecoder(read_bundle(make_bundle()), device="cpu")
