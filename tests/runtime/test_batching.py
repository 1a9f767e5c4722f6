"""How series are laid out must not show in their answers.

Bugs here give a series its neighbour's past, or other numbers on a busy day than alone.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import OptionError
from foretell.runtime.batching import (
    MAX_BATCH_TOKEN_PAIRS,
    check_horizon,
    context_ladder,
    fill_rows,
    gather_context,
    plan_batches,
)

LENGTHS = st.lists(st.integers(1, 300), max_size=60)


def plan(lengths: list[int], horizon: int = 5, patch: int = 8, context: int = 100, **limits: int):
    limits = {"max_tokens": 64, **limits}
    return list(
        plan_batches(
            np.array(lengths, dtype=np.int64),
            horizon,
            context_length=context,
            patch_length=patch,
            **limits,
        )
    )


@given(lengths=LENGTHS, horizon=st.integers(1, 50), parts=st.integers(1, 5))
def test_every_series_runs_exactly_once(lengths: list[int], horizon: int, parts: int) -> None:
    batches = plan(lengths, horizon, parts=parts)
    series = np.concatenate([batch.series for batch in batches]) if batches else []
    assert sorted(series) == list(range(len(lengths)))


@given(lengths=LENGTHS, horizon=st.integers(1, 50), parts=st.integers(1, 5))
def test_the_padded_length_depends_on_the_series_alone(
    lengths: list[int], horizon: int, parts: int
) -> None:
    for batch in plan(lengths, horizon, parts=parts):
        for series in batch.series:
            (alone,) = plan([lengths[series]])
            assert alone.context_length == batch.context_length


@given(lengths=LENGTHS)
def test_nothing_is_cut_but_what_the_model_cannot_see(lengths: list[int]) -> None:
    for batch in plan(lengths, context=100):
        assert all(batch.context_length >= min(lengths[series], 100) for series in batch.series)


@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=60), horizon=st.integers(1, 50))
def test_batches_stay_below_their_limit(lengths: list[int], horizon: int) -> None:
    for batch in plan(lengths, horizon, max_tokens=64):
        tokens = -(-batch.context_length // 8) + -(-horizon // 8)
        assert len(batch.series) == 1 or len(batch.series) * tokens <= 64


def test_long_horizons_are_limited_by_pairs_of_tokens() -> None:
    """100,000 steps ahead of 1,000 series must not ask for all the memory of a machine."""
    for batch in plan([50] * 20, horizon=8_000, max_tokens=10**9):
        assert len(batch.series) * 1_007**2 <= MAX_BATCH_TOKEN_PAIRS


def test_series_of_one_length_are_shared_out() -> None:
    """Four cores get four batches of a request, not one batch for the first core."""
    assert [len(batch.series) for batch in plan([16] * 10, parts=4)] == [3, 3, 3, 1]


@pytest.mark.parametrize(
    ("context", "patch", "expected"),
    [
        (512, 16, [16, 32, 48, 64, 96, 128, 192, 256, 384, 512]),
        (100, 8, [8, 16, 24, 32, 48, 64, 96, 100]),
        (8, 8, [8]),
        (5, 8, [5]),
        (17, 8, [8, 16, 17]),
    ],
)
def test_ladder(context: int, patch: int, expected: list[int]) -> None:
    assert context_ladder(context, patch).tolist() == expected


@given(context=st.integers(1, 5_000), patch=st.integers(1, 64))
def test_the_ladder_is_short_and_its_steps_are_close(context: int, patch: int) -> None:
    ladder = context_ladder(context, patch)
    assert ladder[-1] == context
    assert (np.diff(ladder) > 0).all()
    assert (ladder[2:] <= 1.5 * ladder[1:-1]).all()  # at most half again of padding
    assert len(ladder) <= 2 + 2 * np.log2(max(context / patch, 2))
    assert (ladder[:-1] % patch == 0).all()


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    context=st.integers(1, 16),
    columns=st.integers(0, 3),
)
def test_gathering_equals_a_loop(lengths: list[int], context: int, columns: int) -> None:
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    values = np.arange(indptr[-1] * columns, dtype=np.float64).reshape(indptr[-1], columns)
    chosen = np.array([len(lengths) - 1, 0])
    found = gather_context(values, indptr, chosen, context)
    for row, series in enumerate(chosen):
        last = values[indptr[series] : indptr[series + 1]][-context:]
        expected = np.full((context, columns), np.nan)
        expected[context - len(last) :] = last
        np.testing.assert_array_equal(found[row], expected)


@given(count=st.integers(1, 40), patch=st.integers(1, 40))
def test_rows_make_up_whole_vectors_of_four(count: int, patch: int) -> None:
    series = np.arange(count)
    rows = fill_rows(series, patch)
    assert (len(rows) * patch) % 4 == 0
    assert len(rows) - count < 4
    assert rows[:count].tolist() == series.tolist()
    assert set(rows[count:].tolist()) <= {count - 1}


def test_patches_of_a_multiple_of_four_cost_nothing() -> None:
    assert fill_rows(np.array([5]), 16).tolist() == [5]


def test_a_horizon_that_would_take_the_machines_memory_is_refused() -> None:
    """Attention's memory grows with the square: 572 bytes asked for 10 GB."""
    check_horizon(2048 * 4 - 48, context_length=48, patch_length=4)
    with pytest.raises(OptionError, match="at most as many") as error:
        check_horizon(100_000, context_length=48, patch_length=4)
    assert "8,144" in str(error.value)
