"""How far a table is read is told while it is, of whatever kind it is: it may take an hour."""

import gzip
import os
import threading

import numpy as np
import pandas as pd
import pytest

from foretell.data.series.options import Columns
from foretell.data.tables import csv_blocks, parquet_source
from foretell.data.tables.plan import plan_table
from foretell.data.tables.reading import CsvFormat

SERIES, STEPS = 40, 50


@pytest.fixture
def table():
    days = pd.date_range("2024-01-01", periods=STEPS).strftime("%Y-%m-%d")
    return pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{i:02d}" for i in range(SERIES)], STEPS),
            "ds": np.tile(days, SERIES),
            "y": np.arange(SERIES * STEPS) % 7,
        }
    )


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Makes a plan; returns what was heard by what was done, and the plan."""
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(parquet_source, "_BATCH_ROWS", 100)

    def plan(path, **options):
        heard = {}
        made = plan_table(
            path,
            csv=CsvFormat(),
            columns=Columns(),
            work=tmp_path / "work",
            most_rows=200,
            read=lambda read: heard.setdefault((read.name, read.doing), []).append(read),
            **options,
        )
        return heard, made

    return plan


def check(reads, total):
    """Step by step, up to all of it."""
    done = [read.done_bytes for read in reads]
    assert len(done) >= 5
    assert done == sorted(done)
    assert {read.total_bytes for read in reads} == {total}
    assert done[-1] == total


def write_folder(table, folder):
    folder.mkdir()
    for number in range(4):
        part = table[number * 500 : (number + 1) * 500]
        part.to_parquet(folder / f"{number}.parquet", index=False, row_group_size=300)


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_files_are_told_with_their_size(table, told, tmp_path, kind):
    path = tmp_path / f"in.{kind}"
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "parquet":
        table.to_parquet(path, index=False, row_group_size=300)
    else:
        write_folder(table, path)
    heard, made = told(path)
    files = path.iterdir() if path.is_dir() else [path]
    assert list(heard) == [(str(path), "read")]
    check(heard[str(path), "read"], sum(file.stat().st_size for file in files))
    assert made.num_rows == SERIES * STEPS


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_sorting_is_a_second_way_through_the_file(table, told, tmp_path, kind):
    path, mixed = tmp_path / f"in.{kind}", table.sample(frac=1, random_state=3)
    if kind == "csv":
        mixed.to_csv(path, index=False)
    else:
        mixed.to_parquet(path, index=False)
    heard, made = told(path)
    assert made.is_partitioned
    assert list(heard) == [(str(path), "read"), (str(path), "sorted")]
    for reads in heard.values():
        check(reads, path.stat().st_size)


def test_what_is_copied_first_is_told_as_far_as_it_has_come(table, told, tmp_path):
    """Nobody knows how much a pipe will bring, nor what is packed in a file."""
    content = table.to_csv(index=False).encode()
    packed, pipe = tmp_path / "in.csv.gz", tmp_path / "pipe"
    packed.write_bytes(gzip.compress(content))
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_bytes, args=(content,)).start()
    for path in (packed, pipe):
        heard, _ = told(path)
        copied, _ = heard[str(path), "copied"], heard[str(path), "read"]
        assert {read.total_bytes for read in copied} == {None}
        assert copied[-1].done_bytes == len(content)


def test_a_future_table_is_told_too(table, told, tmp_path):
    table.to_csv(tmp_path / "in.csv", index=False)
    ahead = table.groupby("unique_id").head(2).drop(columns="y").assign(ds="2024-03-01")
    ahead.to_csv(tmp_path / "ahead.csv", index=False)
    heard, _ = told(tmp_path / "in.csv", future=tmp_path / "ahead.csv")
    assert [name for name, _ in heard] == [str(tmp_path / "in.csv"), str(tmp_path / "ahead.csv")]
