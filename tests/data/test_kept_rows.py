"""Rows kept in memory are the rows of the file, as many as there is room for and no more."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import TableError
from foretell.data.series.options import Columns
from foretell.data.tables import parts
from foretell.data.tables.csv_source import CsvSource
from foretell.data.tables.kept_rows import KeptRows
from foretell.data.tables.plan import TablePlan, plan_table
from foretell.data.tables.reading import CsvFormat

ROOM = 1 << 20
HEADER = "unique_id,ds,y\n"


def block(ids: list[str], first: int) -> pa.Table:
    rows = np.arange(first, first + len(ids))
    return pa.table(
        {
            "unique_id": ids,
            "ds": pa.array([f"2024-01-{row % 28 + 1:02}" for row in rows]).dictionary_encode(),
            "y": rows.astype(float),
        }
    )


@given(
    blocks=st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), min_size=1),
    cut=st.data(),
)
def test_any_rows_come_back_as_they_were(blocks: list[list[str]], cut: st.DataObject) -> None:
    kept, tables, num_rows = KeptRows(ROOM), [], 0
    for ids in blocks:
        tables.append(block(ids, num_rows))
        kept.add(tables[-1])
        num_rows += len(ids)
    whole = pa.concat_tables(tables).to_pandas()
    first = cut.draw(st.integers(0, num_rows - 1))
    count = cut.draw(st.integers(1, num_rows - first))
    found = kept.rows(first, count)
    assert found is not None
    expected = whole.iloc[first : first + count]
    assert found.column("unique_id").to_pylist() == expected["unique_id"].tolist()
    assert found.column("ds").to_pylist() == expected["ds"].tolist()
    assert found.column("y").to_pylist() == expected["y"].tolist()
    assert kept.rows(first, num_rows - first + 1) is None, "the last of these was never there"


def test_where_there_is_no_more_room_the_first_rows_stay() -> None:
    """A table may be larger than memory: what is kept of it may not."""
    one = block(["a"] * 1_000, 0)
    kept = KeptRows(3 * one.nbytes)
    for number in range(100):
        kept.add(block(["a"] * 1_000, 1_000 * number))
    assert kept.is_full
    held = [kept.rows(1_000 * number, 1_000) is not None for number in range(100)]
    assert 1 <= sum(held) <= 6, "a run of ids takes no room to speak of"
    assert held == sorted(held, reverse=True)


def test_behind_a_gap_nothing_is_kept() -> None:
    kept = KeptRows(ROOM)
    kept.add(block(["a"], 0))
    kept.end()
    assert kept.is_full
    assert kept.rows(0, 1) is not None
    assert kept.rows(0, 2) is None


def lines(series: int, word: str = "") -> str:
    rows = [
        f"s{one},2024-01-{step + 1:02},{one + step}\n" for one in range(series) for step in range(4)
    ]
    if word:
        rows[-1] = f"s{series - 1},2024-01-04,{word}\n"
    return "".join([HEADER, *rows])


def plan_of(path: Path, work: Path, **more: int) -> TablePlan:
    return plan_table(path, csv=CsvFormat(), columns=Columns(), work=work, most_rows=8, **more)


class TestPlans:
    @pytest.fixture
    def read_again(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """First rows of the spans that were read from the file."""
        found: list[int] = []
        read = CsvSource.read
        monkeypatch.setattr(
            CsvSource,
            "read",
            lambda self, span: (found.append(span.first_row), read(self, span))[1],
        )
        return found

    def test_what_is_kept_is_not_read_again(self, tmp_path: Path, read_again: list[int]) -> None:
        path = tmp_path / "in.csv"
        path.write_text(lines(6))
        plan = plan_of(path, tmp_path / "work")
        tables = [plan.read(number).table for number in range(3)]
        assert [table["y"].tolist()[0] for table in tables] == [0, 2, 4]
        assert read_again == []

    def test_in_another_process_all_is_read(self, tmp_path: Path, read_again: list[int]) -> None:
        """A plan goes to workers, and stays small."""
        path = tmp_path / "in.csv"
        path.write_text(lines(2_000))
        plan = plan_of(path, tmp_path / "work")
        size = len(pickle.dumps(plan))
        assert size == len(pickle.dumps(plan_of(path, tmp_path / "work", most_kept_bytes=0)))
        away = pickle.loads(pickle.dumps(plan))
        assert away.read(1).table["y"].tolist() == plan.read(1).table["y"].tolist()
        assert read_again == [8]

    def test_rows_that_are_sorted_into_files_are_not_kept_beside_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Sorting takes memory enough by itself."""
        held = []
        sort_rows = parts.sort_rows
        drop = KeptRows.drop
        monkeypatch.setattr(KeptRows, "drop", lambda self: (drop(self), held.append(self))[0])

        def sort(*arguments: object, **named: object) -> object:
            assert [one.rows(0, 1) for one in held] == [None]
            return sort_rows(*arguments, **named)

        monkeypatch.setattr(parts, "sort_rows", sort)
        rows = lines(6).removeprefix(HEADER).splitlines(keepends=True)
        path = tmp_path / "in.csv"
        path.write_text("".join([HEADER, *rows[::2], *rows[1::2]]))
        plan = plan_of(path, tmp_path / "work")
        assert plan.is_partitioned
        assert plan.read(0).table["y"].tolist() == [0, 2, 1, 3, 1, 3, 2, 4]

    @pytest.mark.parametrize("word", ["", "n/k", "NaN"], ids=["blank", "word", "no number"])
    def test_a_block_that_is_more_than_numbers_is_read_when_all_is_known(
        self, tmp_path: Path, read_again: list[int], word: str
    ) -> None:
        """What a blank or a word is, the whole column tells."""
        path = tmp_path / "in.csv"
        path.write_text(lines(2, word=word or " "))
        plan = plan_of(path, tmp_path / "work")
        assert plan.read(0).table["y"].tolist()[:7] == [0, 1, 2, 3, 1, 2, 3]
        assert read_again == [0]

    @pytest.mark.parametrize("what", ["gone", "changed"])
    def test_an_input_that_goes_away_is_told_all_the_same(self, tmp_path: Path, what: str) -> None:
        """Else it would hang on the table's size whether a job ends."""
        path = tmp_path / "in.csv"
        path.write_text(lines(6))
        plan = plan_of(path, tmp_path / "work")
        if what == "gone":
            path.unlink()
        else:
            path.write_text(lines(6).replace("s1", "t1"))
            os.utime(path, (1, 1))
        with pytest.raises(TableError, match=re.escape(str(path))):
            plan.read(0)

    @pytest.mark.parametrize("kept", [0, ROOM])
    @pytest.mark.parametrize("column", ["unique_id", "ds"])
    def test_texts_that_are_views_are_ordered_as_others_are(
        self, tmp_path: Path, column: str, kept: int
    ) -> None:
        """Polars and DuckDB have such texts, and Arrow can't take rows of them."""
        path = tmp_path / "in.parquet"
        days = ["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02"]
        table = pa.table({"unique_id": ["a", "b", "a", "b"], "ds": days, "y": [1.0, 2.0, 3.0, 4.0]})
        place = table.column_names.index(column)
        views = pa.array(table.column(column).to_pylist(), pa.string_view())
        pq.write_table(table.set_column(place, column, views), path)
        plan = plan_of(path, tmp_path / "work", most_kept_bytes=kept)
        found = plan.read(0).table
        assert found["unique_id"].tolist() == ["a", "a", "b", "b"]
        assert found["ds"].tolist() == ["2024-01-01", "2024-01-02"] * 2
        assert found["y"].tolist() == [1, 3, 2, 4]

    def test_a_small_chunk_has_not_the_texts_of_all_others_with_it(self, tmp_path: Path) -> None:
        """Where no stamp comes twice, each of many chunks would work through all of them."""
        path = tmp_path / "in.csv"
        days = np.datetime64("2000-01-01") + np.arange(4_000)
        rows = [f"s{at // 8},{day},{at}\n" for at, day in enumerate(days)]
        path.write_text("".join([HEADER, *rows]))
        plan = plan_of(path, tmp_path / "work")
        assert plan.read(7).table["ds"].tolist() == list(map(str, days[56:64]))
        assert not isinstance(plan.read(7).table["ds"].dtype, pd.CategoricalDtype)
