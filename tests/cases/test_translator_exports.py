"""HC01, HC02: exported translators of every kind compute what torch computes, at every size."""

import numpy as np
import pytest

from foretell.data.bundles.bundle import read_bundle
from foretell.data.text.tokenizer import BOS
from foretell.export.paired_decoder import PairedDecoder
from foretell.export.torch_decoder import TorchDecoder
from foretell.export.translator import EXAMPLE_LENGTH
from foretell.export.translator_parity import change_beams, lead_along, source_batches
from foretell.model.run import WEIGHTS_FILE, load_weights, make_translator, translator_config
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.decoding import StepRequest

LENGTHS = (1, 2, 3, EXAMPLE_LENGTH - 1, EXAMPLE_LENGTH, EXAMPLE_LENGTH + 1)


@pytest.fixture
def bundle(translator_graphs):
    return read_bundle(translator_graphs)


@pytest.fixture
def model(bundle):
    spec = bundle.manifest.translator
    model = make_translator(translator_config(spec.arch, bundle.manifest.config))
    load_weights(bundle.path / WEIGHTS_FILE, model)
    return model.eval()


@pytest.fixture
def graphs(bundle):
    return OnnxDecoder(bundle, device="cpu", threads=1)


def test_export_equals_training_side_at_every_length_and_batch(model, graphs):
    """HC02: a graph that is right at the size it was exported with may be wrong at all others.

    With a cache against without one, and beams that cross, multiply and die against torch's.
    """
    decoder = PairedDecoder(TorchDecoder(model), graphs)
    batches = list(source_batches(graphs.spec, (1, 2, 3, 8), LENGTHS))
    assert {batch.src.shape for batch in batches} == {
        (rows, length) for rows in (1, 2, 3, 8) for length in (*LENGTHS, 12)
    }
    assert any((batch.src_mask.sum(axis=1) < batch.src.shape[1]).any() for batch in batches)
    for batch in batches:
        decoder.found.append(lead_along(decoder, model, batch, steps=6))
        change_beams(decoder, batch)
    assert [str(one) for one in decoder.found if one.failed] == []
    assert len(decoder.found) > 1000


def test_torch_answers_the_same_twice(model, graphs):
    """HC02: dropout that is still on makes every comparison a game of chance."""
    batch = next(source_batches(graphs.spec, (3,), (5,)))
    for side in (TorchDecoder(model), graphs):
        once, again = (first_step(side, batch.src, batch.src_mask) for _ in range(2))
        np.testing.assert_array_equal(once.log_probs, again.log_probs)


def test_a_row_with_nothing_to_attend_to_hurts_nobody(graphs):
    """HC01: its softmax is 0/0, and one NaN spreads over a batch."""
    batch = next(source_batches(graphs.spec, (3,), (7,)))
    src_mask = batch.src_mask.copy()
    src_mask[1] = False
    before = first_step(graphs, batch.src, batch.src_mask)
    after = first_step(graphs, batch.src, src_mask)
    for name in ("log_probs", "attention", "candidate_log_probs"):
        expected, found = getattr(before, name), getattr(after, name)
        if expected is not None:
            assert not np.isnan(found).any()
            np.testing.assert_array_equal(found[[0, 2]], expected[[0, 2]])
    if after.attention is not None:
        assert (after.attention[1] == 0).all()


def first_step(decoder, src, src_mask):
    rows = len(src)
    return decoder.step(
        decoder.start(src, src_mask),
        StepRequest(
            tokens=np.full((rows, 1), BOS),
            scores=np.zeros((rows, 1), dtype=np.float32),
            parents=np.zeros((rows, 1), dtype=np.int64),
            positions=np.zeros(rows, dtype=np.int64),
            num_candidates=4,
            want_log_probs=True,
            want_attention=True,
        ),
    )
