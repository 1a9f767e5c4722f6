"""Which sentences run together, and how they are padded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.text.tokenizer import EOS, PAD
from foretell.runtime.packing import pad_sources, plan_batches, source_ladder

LONGEST = 50


def plan(
    lengths: list[int],
    beam_sizes: list[int],
    max_tokens: int = 100,
    parts: int = 1,
    max_lengths: list[int] | None = None,
):
    return list(
        plan_batches(
            lengths,
            beam_sizes,
            max_lengths or [1] * len(lengths),
            max_source_length=LONGEST,
            max_tokens=max_tokens,
            parts=parts,
        )
    )


@pytest.mark.parametrize("longest", [2, 15, 16, 17, 48, 50, 100, 512])
def test_the_ladder_rises_to_the_models_limit_in_small_steps(longest: int) -> None:
    ladder = source_ladder(longest)
    assert ladder[-1] == longest
    assert (np.diff(ladder) > 0).all()
    steps = ladder[1:] / ladder[:-1]
    assert (steps[1:] <= 1.5).all(), "of a long source at most half again is padding"


sentences = st.lists(st.tuples(st.integers(1, LONGEST), st.sampled_from([1, 4, 5])), max_size=60)


@given(sentences, st.integers(1, 2000), st.integers(1, 4))
def test_every_sentence_runs_once_in_bounded_batches_of_its_own_kind(
    sentences: list[tuple[int, int]], max_tokens: int, parts: int
) -> None:
    lengths, beams = [s[0] for s in sentences], [s[1] for s in sentences]
    batches = plan(lengths, beams, max_tokens, parts)
    assert sorted(i for batch in batches for i in batch.sentences) == list(range(len(sentences)))
    for batch in batches:
        tokens = len(batch.sentences) * batch.source_length * batch.beam_size
        assert tokens <= max_tokens or len(batch.sentences) == 1
        for sentence in batch.sentences:
            assert beams[sentence] == batch.beam_size
            (alone,) = plan([lengths[sentence]], [beams[sentence]])
            assert alone.source_length == batch.source_length, "padding is a sentence's own affair"


def test_what_takes_longest_begins_first_and_equals_are_shared_out() -> None:
    batches = plan([3, 40, 16, 3, 17], [1, 1, 1, 1, 1], parts=2)
    assert [(batch.source_length, batch.sentences) for batch in batches] == [
        (48, (1,)),
        (32, (4,)),
        (16, (0, 2)),
        (16, (3,)),
    ]


def test_long_translations_need_room() -> None:
    """Their cached keys and values would else fill the memory, however short the sources are."""
    short = plan([8] * 64, [4] * 64, max_tokens=2048)
    long = plan([8] * 64, [4] * 64, max_tokens=2048, max_lengths=[20] * 63 + [512])
    assert max(len(batch.sentences) for batch in short) == 32
    assert max(len(batch.sentences) for batch in long) == 4


def test_sources_are_padded_on_the_right_and_masked() -> None:
    src, mask = pad_sources([[7, 8, EOS], [EOS]], 4)
    np.testing.assert_array_equal(src, [[7, 8, EOS, PAD], [EOS, PAD, PAD, PAD]])
    np.testing.assert_array_equal(mask, [[True, True, True, False], [True, False, False, False]])
