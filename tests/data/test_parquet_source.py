"""Spans of Parquet files: the same rows in any order, by any thread, and each decoded once."""

import pickle
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foretell.data.series.options import Columns
from foretell.data.tables.parquet_source import ParquetSource
from foretell.data.tables.plan import plan_table
from foretell.data.tables.reading import CsvFormat

STEPS, SERIES, GROUP = 7, 60, 50  # so that series, chunks and row groups end apart


@pytest.fixture
def plan(tmp_path):
    table = pd.DataFrame(
        {
            "unique_id": [f"s{at // STEPS:03d}" for at in range(STEPS * SERIES)],
            "ds": pd.date_range("2024-01-01", periods=STEPS * SERIES, freq="h"),
            "y": [float(at) for at in range(STEPS * SERIES)],
        }
    )
    folder = tmp_path / "in"
    folder.mkdir()
    half = STEPS * SERIES // 2 + 3
    for name, part in (("a", table[:half]), ("b", table[half:])):
        file = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), file, row_group_size=GROUP)
    work = tmp_path / "work"
    return plan_table(
        folder, csv=CsvFormat(), columns=Columns(), work=work, most_rows=40, most_kept_bytes=0
    )


def rows(plan, number):
    return plan.read(number).table.y.tolist()


def test_in_order_every_row_group_is_decoded_once(plan, monkeypatch):
    """Groups are larger than chunks in most files; decoded for each chunk they cost many times."""
    begun = Counter()
    tables = ParquetSource._tables

    def counted(self, fragment, groups=None):
        for group in groups:
            begun[fragment.path, group] += 1
            yield from tables(self, fragment, [group])

    monkeypatch.setattr(ParquetSource, "_tables", counted)
    found = [rows(plan, chunk.number) for chunk in plan.chunks]
    assert [one for chunk in found for one in chunk] == [float(at) for at in range(STEPS * SERIES)]
    assert len(plan.chunks) > len(begun)
    assert set(begun.values()) == {1}


def test_in_any_order_by_many_threads_the_rows_are_the_same(plan):
    numbers = [chunk.number for chunk in plan.chunks] * 5
    random.Random(0).shuffle(numbers)
    whole = {number: rows(pickle.loads(pickle.dumps(plan)), number) for number in set(numbers)}
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda at: rows(plan, at), numbers)) == [
            whole[number] for number in numbers
        ]
