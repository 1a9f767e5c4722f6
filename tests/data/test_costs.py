"""What laying grids costs: bounded by the rows and the steps that are laid, whatever comes in."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.calendars.calendar import Frequency
from foretell.data.calendars.inference import candidates
from foretell.data.segments import order_within
from foretell.data.series import grid
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Panel
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_rows


def table(series: dict[str, list[object]]) -> pd.DataFrame:
    return pd.DataFrame(
        [(name, stamp, 1.0) for name, stamps in series.items() for stamp in stamps],
        columns=["unique_id", "ds", "y"],
    )


def panel(df: pd.DataFrame, model: str = "any", max_steps: int | None = None) -> Panel:
    rows, options = read_rows(df, Columns()), ForecastOptions(horizon=2)
    return regularise(rows, options=options, model_frequency=model, max_steps=max_steps)


def test_rows_far_apart_take_no_more_memory_than_the_steps_that_are_laid() -> None:
    """45 kilobytes of a request would otherwise become 900 megabytes of empty steps."""
    df = table({f"s{n}": [0, 1, 99_999] for n in range(500)})
    tracemalloc.start()
    found = panel(df, max_steps=64)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(found.ids), len(found.target)) == (500, 500 * 64)
    assert peak < 16e6


@pytest.mark.parametrize("model", ["ME", "BME", "D"])
def test_frequencies_are_compared_once_each_and_not_once_a_series(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """Series are many, frequencies few: 100,000 comparisons take longer than all other checks."""
    compared = []
    same_rhythm = Frequency.same_rhythm
    monkeypatch.setattr(
        Frequency,
        "same_rhythm",
        lambda self, other: compared.append(self) or same_rhythm(self, other),
    )
    aliases = ["ME", "BME", "D", "h"]
    grids = {alias: pd.date_range("2024-01-31", periods=5, freq=alias) for alias in aliases}
    panel(
        table({f"{alias} {copy}": grids[alias] for alias in aliases for copy in range(50)}), model
    )
    assert len(compared) <= 2 * len(aliases)


def test_series_off_their_grids_are_looked_at_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint looks for the step that was meant; over all series each time, it took minutes."""
    looked_at = []
    monkeypatch.setattr(
        grid,
        "candidates",
        lambda stamps, *others: looked_at.extend(stamps) or candidates(stamps, *others),
    )
    df = table({f"s{n}": [0, 2 * n, 4 * n, 4 * n + 1] for n in range(2, 40)})
    assert len(panel(df).refusals) == 38
    assert len(looked_at) == len(df)


def test_series_of_many_frequencies_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stray stamps give every series a step of its own; one by one, 10,000 took 14 s."""
    calls = []
    monkeypatch.setattr(
        grid, "candidates", lambda *those: calls.append(those) or candidates(*those)
    )
    found = panel(table({f"s{n}": [0, 2 * n, 4 * n, 4 * n + 1] for n in range(2, 40)}))
    assert len(found.refusals) == 38
    assert len(calls) == 1


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([0, 0], id="two rows of a stamp"),
        pytest.param([0, 2, 4, 5], id="off the grid"),
        pytest.param([0, 1, 2, 2**61], id="nearly all empty"),
        pytest.param([0], id="no frequency"),
    ],
)
def test_work_that_nobody_wants_is_left_at_its_next_step(steps: list[int]) -> None:
    """Ten thousand refusals take a second to write; whoever asked may be gone by then."""
    rows = read_rows(table({f"s{n}": steps for n in range(20)}), Columns())
    seen = []

    def leave_at_third() -> None:
        seen.append(1)
        if len(seen) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        regularise(rows, options=ForecastOptions(horizon=2), on_step=leave_at_third)
    assert len(seen) == 3


def test_grids_of_one_unit_are_laid_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else 10,000 multiples, one a series, cost a walk through the calendar of its zone each."""
    laid = []
    positions = Frequency.positions
    monkeypatch.setattr(
        Frequency,
        "positions",
        lambda self, *args, **more: laid.append(self) or positions(self, *args, **more),
    )
    first = pd.Timestamp("2024-01-01 13:00", tz="Europe/Berlin")
    steps = {f"s{n}": [first + pd.DateOffset(days=n * i) for i in range(6)] for n in range(1, 60)}
    found = panel(table(steps))
    assert len(set(found.frequencies)) == 59
    assert len(laid) <= 4  # days, days by several, weeks, weeks by several


@given(st.lists(st.sampled_from([0, 1, 2, 3, 40, 90]), min_size=1, max_size=5), st.data())
def test_each_series_is_sorted_by_itself(counts: list[int], data: st.DataObject) -> None:
    indptr = np.concatenate([[0], np.cumsum(counts)])
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = random.integers(-3, 3, indptr[-1]) * 2**61
    expected = [
        place
        for start, end in itertools.pairwise(indptr.tolist())
        for place in sorted(range(start, end), key=values.tolist().__getitem__)
    ]
    assert order_within(values, indptr).tolist() == expected


@given(st.lists(st.integers(0, 4), min_size=1), st.data())
def test_ranges_are_those_of_a_plain_loop(counts: list[int], data: st.DataObject) -> None:
    indptr = np.concatenate([[0], np.cumsum(counts)])
    members = data.draw(st.lists(st.integers(0, len(counts) - 1), unique=True))
    rows, begins = grid.ranges(indptr, np.array(members, dtype=np.int64))
    expected = [list(range(indptr[place], indptr[place + 1])) for place in members]
    assert [rows[a:b].tolist() for a, b in itertools.pairwise(begins.tolist())] == expected
