"""Batches of sentence pairs: every pair once an epoch, alike in length, limited in tokens."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.text.tokenizer import BOS, EOS, PAD
from foretell.model.pairs import PairBatches, Pairs, collate, cut_by_tokens, validation_batches

LENGTHS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=40)


def make_pairs(lengths):
    """Pair i is all tokens 4 + i, so that batches tell who is in them."""
    return Pairs(
        [[4 + i] * src for i, (src, _) in enumerate(lengths)],
        [[4 + i] * tgt for i, (_, tgt) in enumerate(lengths)],
    )


def members(batch):
    return [int(row[0]) - 4 for row in batch["src"]]


@given(LENGTHS, st.integers(8, 60), st.integers(0, 3))
def test_an_epoch_takes_every_pair_once(lengths, batch_tokens, seed):
    """Else some sentences would be learned twice and others never."""
    batches = PairBatches(make_pairs(lengths), batch_tokens, seed)
    step = 0
    for _ in range(3):
        seen: Counter[int] = Counter()
        while seen.total() < len(lengths):
            seen.update(members(batches(step)))
            step += 1
        assert seen == Counter(range(len(lengths)))


@given(LENGTHS, st.integers(8, 60))
def test_a_batch_holds_at_most_so_many_tokens_with_padding(lengths, batch_tokens):
    """On both sides, bos or eos counted: memory is what limits it. One long pair goes alone."""
    for batch in validation_batches(make_pairs(lengths), batch_tokens):
        rows = len(batch["src"])
        width = max(batch["src"].shape[1], batch["tgt"].shape[1] - 1)
        assert rows * width <= batch_tokens or rows == 1


@given(LENGTHS, st.integers(8, 60), st.integers(0, 99), st.integers(0, 30), st.integers(0, 30))
def test_a_batch_depends_on_seed_and_step_alone(lengths, batch_tokens, seed, step, asked_before):
    """A resumed training asks for its step first; an unbroken one has asked for all before."""
    pairs = make_pairs(lengths)
    fresh = PairBatches(pairs, batch_tokens, seed)(step)
    used = PairBatches(pairs, batch_tokens, seed)
    used(asked_before)
    for name, value in used(step).items():
        assert torch.equal(value, fresh[name])


def test_epochs_and_seeds_put_pairs_together_in_other_ways():
    pairs = make_pairs([(5, 5)] * 40)
    batches = PairBatches(pairs, 24, 0)
    epoch = len(cut_by_tokens(pairs, range(40), 24))
    first = {frozenset(members(batches(step))) for step in range(epoch)}
    second = {frozenset(members(batches(step))) for step in range(epoch, 2 * epoch)}
    other = {frozenset(members(PairBatches(pairs, 24, 1)(step))) for step in range(epoch)}
    assert first != second
    assert first != other


def test_batches_of_any_length_come_in_any_order():
    """Not from short to long, or each epoch would end by forgetting short sentences."""
    batches = PairBatches(make_pairs([(n, n) for n in range(1, 21)] * 5), 60, 0)
    widths = [batches(step)["src"].shape[1] for step in range(20)]
    assert widths != sorted(widths)


def test_pairs_in_a_batch_are_alike_so_that_little_is_padding():
    rng = np.random.default_rng(0)
    lengths = [(int(n), int(max(1, n + rng.integers(-2, 3)))) for n in rng.integers(1, 40, 2000)]
    batches = validation_batches(make_pairs(lengths), 2000)
    padding = sum(int((batch["tgt"] == PAD).sum()) for batch in batches)
    assert padding < 0.05 * sum(batch["tgt"].numel() for batch in batches)


def test_eos_ends_both_sides_and_bos_starts_the_target():
    """The decoder reads bos first, and learns to say eos; the source's eos says where it ends."""
    batch = collate(Pairs([[7, 8], [9]], [[5], [6, 6, 6]]), [1, 0])
    assert batch["src"].tolist() == [[9, EOS, PAD], [7, 8, EOS]]
    assert batch["tgt"].tolist() == [[BOS, 6, 6, 6, EOS], [BOS, 5, EOS, PAD, PAD]]


@pytest.mark.parametrize("pairs", [Pairs([], [])])
def test_no_pairs_give_no_validation(pairs):
    assert validation_batches(pairs, 100) == []
