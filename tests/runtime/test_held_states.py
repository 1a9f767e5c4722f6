"""States that stay on the device are the same states, to the last bit.

A GPU holds them where it computes. The same way can be gone on a CPU, where everything but CUDA
itself is proven here: what is bound, what comes back, what leaves, what ends in its midst.
"""

import dataclasses

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from foretell.data.bundles.bundle import TensorSpec, read_bundle
from foretell.data.text.number_words import english_words
from foretell.data.text.tokenizer import BOS, EOS, PAD
from foretell.data.text.translation import TranslateOptions
from foretell.runtime import translator as translator_module
from foretell.runtime.devices import CPU_PROVIDER
from foretell.runtime.row_graph import ROWS, row_graph, taken
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.decoding import StepRequest
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import Search, search
from foretell.runtime.search.stopping import Stop, StoppedError
from foretell.runtime.session import RowTaker, hold, on_host
from foretell.runtime.translator import Translator

# Different in all that chooses outputs, beams and lengths; rows leave at steps of their own.
OPTIONS = [
    {"beam_size": 1},
    {"beam_size": 4, "n_best": 4, "attention": True},
    {"beam_size": 3, "no_repeat_ngram_size": 2, "length_penalty": 0.0},
    {"beam_size": 2, "repetition_penalty": 2.0, "attention": True},
    {"beam_size": 1, "sample": True, "seed": 3},
    {"beam_size": 5, "n_best": 2},
]


def requests(options: list[dict]) -> list[SearchRequest]:
    return [
        SearchRequest(options=TranslateOptions(**one), max_length=4 + place, place=place)
        for place, one in enumerate(options)
    ]


def sources(vocab_size: int, rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    counts = rng.integers(1, length + 1, rows)
    src = rng.integers(4, vocab_size, (rows, length))
    src[np.arange(rows), counts - 1] = EOS
    src_mask = np.arange(length) < counts[:, None]
    return np.where(src_mask, src, PAD), src_mask


def outline(found) -> list:
    """Everything of each hypothesis, bit by bit."""
    return [
        [
            (
                one.token_ids,
                one.token_log_probs,
                one.score,
                one.finish_reason,
                None if one.attention is None else one.attention.tolist(),
            )
            for one in hypotheses
        ]
        for hypotheses in found
    ]


@pytest.fixture
def both(translator_graphs) -> tuple[OnnxDecoder, OnnxDecoder]:
    """A decoder whose states are NumPy's, and one whose states onnxruntime holds."""
    bundle = read_bundle(translator_graphs)
    plain, held = (OnnxDecoder(bundle, device="cpu", threads=1, holds=x) for x in (False, True))
    return plain, held


def test_searches_of_every_kind_find_the_same(both) -> None:
    for options in ([OPTIONS[0]] * 5, [OPTIONS[1]] * 5, OPTIONS, OPTIONS[:1]):
        asked = requests(options)
        src, src_mask = sources(both[0].vocab_size, len(asked), 9)
        expected, found = (search(decoder, src, src_mask, asked) for decoder in both)
        assert outline(found) == outline(expected)


def test_a_state_is_held_from_the_start_and_only_what_is_chosen_from_comes_back(both) -> None:
    _, held = both
    src, src_mask = sources(held.vocab_size, 6, 9)
    running = Search(held, src, src_mask, requests(OPTIONS))
    while not running.is_done:
        state = running._state
        arrays = {**state.memory, **state.past}
        outside = [name for name, x in arrays.items() if not isinstance(x, ort.OrtValue)]
        assert all(arrays[name].size == 0 for name in outside)  # what there is before any step
        running.step()


def test_rows_that_leave_turn_or_double_leave_the_same_states(both) -> None:
    rng = np.random.default_rng(1)
    src, src_mask = sources(both[0].vocab_size, 5, 7)
    states = [decoder.start(src, src_mask) for decoder in both]
    for step, rows in enumerate(([0, 1, 2, 3, 4], [4, 2, 0], [1, 1, 0], [2])):
        kept = [d.keep(state, np.array(rows)) for d, state in zip(both, states, strict=True)]
        request = StepRequest(
            tokens=rng.integers(4, both[0].vocab_size, (len(rows), 3)),
            scores=np.zeros((len(rows), 3), np.float32),
            parents=np.zeros((len(rows), 3), np.int64),
            positions=np.full(len(rows), step),
            num_candidates=6,
            want_log_probs=True,
            want_attention=True,
        )
        one, other = (d.step(state, request) for d, state in zip(both, kept, strict=True))
        for name in ("candidates", "candidate_log_probs", "log_probs", "attention"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name))
        states = [one.state, other.state]
        for part in ("memory", "past"):
            plain, held = (getattr(state, part) for state in states)
            assert set(plain) == set(held)
            for name, array in plain.items():
                np.testing.assert_array_equal(on_host(held[name]), array)


def test_a_held_state_can_be_gone_on_from_twice(both) -> None:
    """A step writes its answer beside the state, never into it."""
    _, held = both
    src, src_mask = sources(held.vocab_size, 3, 5)
    request = StepRequest(
        tokens=np.full((3, 1), BOS),
        scores=np.zeros((3, 1), np.float32),
        parents=np.zeros((3, 1), np.int64),
        positions=np.zeros(3, np.int64),
        want_log_probs=True,
    )
    state = held.step(held.start(src, src_mask), request).state
    once, again = (held.step(state, request).log_probs for _ in range(2))
    np.testing.assert_array_equal(once, again)


@pytest.fixture(params=["translator_bundle_path", "recurrent_bundle_path"])
def translators(request, monkeypatch) -> tuple[Translator, Translator]:
    path = request.getfixturevalue(request.param)
    plain = Translator(path, device="cpu", threads=2)
    monkeypatch.setattr(
        translator_module,
        "OnnxDecoder",
        lambda bundle, **more: OnnxDecoder(bundle, **more, holds=True),
    )
    return plain, Translator(path, device="cpu", threads=2)


def test_translations_streams_and_scores_are_the_same(translators) -> None:
    texts = [english_words(number) for number in (7, 21, 99, 640)] + ["", "seven"]
    for options in (TranslateOptions(beam_size=beam_size) for beam_size in (1, 4)):
        asked = dataclasses.replace(options, attention=True)
        expected, found = (one.translate(texts, asked) for one in translators)
        assert str(found) == str(expected)
        for one, other in zip(found, expected, strict=True):
            for a, b in zip(one.hypotheses, other.hypotheses, strict=True):
                assert (a.tokens, a.score) == (b.tokens, b.score)
                assert a.token_log_probs == b.token_log_probs
        parts = [[str(x) for x in one.translate_stream(texts[2], options)] for one in translators]
        assert parts[0] == parts[1]
    pairs = [("seven", "sieben"), ("ninety nine", "neun und neunzig"), ("one", "")]
    scores = [[one.log_prob for one in side.score(pairs)] for side in translators]
    assert scores[0] == scores[1]


def test_a_stop_ends_held_work_in_its_midst(translators, stop_in_its_midst) -> None:
    decoder = translators[1]._decoder
    src, src_mask = np.full((4000, 40), 7), np.ones((4000, 40), dtype=bool)
    stop = Stop()
    outcome = stop_in_its_midst(stop, lambda: decoder.until(stop).start(src, src_mask))
    assert isinstance(outcome, StoppedError)
    state = decoder.start(src[:2], src_mask[:2])  # the graph goes on for others
    with pytest.raises(StoppedError):
        decoder.until(stop).keep(decoder.step(state, _first(2)).state, np.array([1]))


def _first(rows: int) -> StepRequest:
    return StepRequest(
        tokens=np.full((rows, 1), BOS),
        scores=np.zeros((rows, 1), np.float32),
        parents=np.zeros((rows, 1), np.int64),
        positions=np.zeros(rows, np.int64),
    )


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64", "float16"])
@given(data=st.data())
def test_rows_are_taken_as_numpy_takes_them(dtype, data) -> None:
    shapes = [(4, *data.draw(arrays.array_shapes(min_dims=0, max_dims=2))), (4, 0, 3)]
    rng = np.random.default_rng(0)
    held = {
        f"x{place}": rng.integers(0, 9, shape).astype(dtype) for place, shape in enumerate(shapes)
    }
    tensors = [TensorSpec(name, dtype, ("batch", *x.shape[1:])) for name, x in held.items()]
    rows = data.draw(arrays.arrays(np.int64, st.integers(1, 6), elements=st.integers(0, 3)))
    taker = RowTaker(tensors, CPU_PROVIDER)
    found = taker.take({name: hold(x, CPU_PROVIDER) for name, x in held.items()}, rows)
    for name, array in held.items():
        np.testing.assert_array_equal(found[name].numpy(), array[rows])


def test_the_graph_that_takes_rows_is_a_sound_one() -> None:
    """Its bytes are put together by hand; onnx reads them as anybody else's."""
    long_name = "past_" + "k" * 300
    tensors = [
        TensorSpec(long_name, "float32", ("batch", "past_len", 16)),
        TensorSpec("src_mask", "bool", ("batch", "src_len")),
    ]
    model = onnx.load_from_string(row_graph(tensors))
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == [long_name, "src_mask", ROWS]
    assert [value.name for value in model.graph.output] == [taken(long_name), taken("src_mask")]
