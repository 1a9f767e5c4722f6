"""A table in chunks is the table at once: same rows, types, refusals and errors, at any cut."""

import datetime
import decimal
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.series.options import Columns
from foretell.data.tables import csv_blocks
from foretell.data.tables.reading import CsvFormat

oracle = runpy.run_path(str(Path(__file__).with_name("table_oracle.py")))
assert_same = oracle["assert_same"]

ids = st.sampled_from(["a", "b", "007", "7", "NA", "Köln", 'x"y', "1e3", "c,d"])
stamps = {
    "ISO": ["2024-01-01", "2024-01-02", "2024-01-03", "2024-02-01T10:00"],
    "spoilt ISO": ["2024-01-01", "2024-01-02", "", "soon", "1500-01-01"],
    "offsets": ["2024-01-01T00:00Z", "2024-01-02T00:00+01:00", "2024-01-03T05:00Z", "never"],
    "some offsets": ["2024-01-01", "2024-01-02T00:00Z", "2024-01-03"],
    "days first": ["30/01/2024", "01/02/2024", "05/05/2024", ""],
    "days or months": ["05/06/2024", "01/02/2024", "05/05/2024"],
    "both": ["05/30/2024", "30/02/2024", "05/05/2024"],
    "times": ["30.01.2024 10:05", "01.02.2024 00:00", "05.05.2024 7:30"],
    "steps": ["1", "2", "3", "20240101", "20240102", ""],
    "steps or dates": ["20240101", "20240102", "20240103"],
    "steps or months": ["202401", "202402", "202312", "202313"],
    "far steps": ["1", str(2**53 + 1), "", str(2**61 + 1)],
    "words": ["soon", "later"],
    "blank": ["", " "],
}
values = {
    "numbers": ["1.5", "2", "-3e5", "", "NA", "+7", " 8 "],
    "some words": ["1.5", "n/k", "", "inf", "3e200"],
    "words": ["n/k", "", "high"],
    "blank": ["", "null"],
    "commas": ["1,5", "2", "3"],
    "strange": ["NAN", "1", "-nan", "x"],
}


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    when = stamps[draw(st.sampled_from(sorted(stamps)))]
    what = values[draw(st.sampled_from(sorted(values)))]
    row = st.tuples(ids, st.sampled_from(when), st.sampled_from(what))
    rows = draw(st.lists(row, min_size=1, max_size=12))
    if draw(st.booleans()):
        rows.sort(key=lambda cells: cells[0])
    return pd.DataFrame(rows, columns=["unique_id", "ds", "y"], dtype="str")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 48)


@given(
    table=tables(),
    most_rows=st.integers(1, 9),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([0, 1]),
    decimal=st.sampled_from([".", ","]),
)
@pytest.mark.usefixtures("small_blocks")
def test_chunks_are_the_whole_table(
    tmp_path_factory: pytest.TempPathFactory,
    table: pd.DataFrame,
    most_rows: int,
    end: str,
    quoting: int,
    decimal: str,
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    path = folder / "table.csv"
    text = table.to_csv(index=False, quoting=quoting, lineterminator=end, sep=";")
    path.write_bytes(text.encode())
    assert_same(path, CsvFormat(decimal=decimal), Columns(), folder / "work", most_rows)


@given(
    st.lists(st.lists(st.sampled_from('a;,"\r\n 1x'), max_size=6).map("".join), max_size=9),
    st.integers(1, 9),
)
@pytest.mark.usefixtures("small_blocks")
def test_a_spoilt_file_is_refused_in_the_same_words(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], most_rows: int
) -> None:
    """Quotes left open, lines too short or too long, line ends of all kinds."""
    folder = tmp_path_factory.mktemp("spoilt")
    path = folder / "table.csv"
    rows = [f"a,2024-01-0{place % 9 + 1},1{piece}" for place, piece in enumerate(pieces)]
    path.write_bytes("\n".join(["unique_id,ds,y,note", *rows]).encode())
    assert_same(path, CsvFormat(), Columns(), folder / "work", most_rows)


days = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
moments = [datetime.datetime(2024, 1, day, 5) for day in (1, 2, 3)]
columns_of = {
    "text": (pa.string(), ["30/01/2024", "01/02/2024", "2024-01-01", "5", "20240101", ""]),
    "coded text": (pa.dictionary(pa.int8(), pa.string()), ["b", "a", "5", "2024-01-01"]),
    "coded integers": (pa.dictionary(pa.int8(), pa.int64()), [3, 1, 20240101]),
    "integers": (pa.int64(), [20240101, 20240102, 20240103]),
    "small integers": (pa.uint8(), [1, 2, 3]),
    "large integers": (pa.uint64(), [2**53 + 1, 1, 2**63]),
    "floats": (pa.float64(), [20240101.0, -0.0, 0.0, 1.5, float("nan"), 1e200]),
    "truths": (pa.bool_(), [True, False]),
    "dates": (pa.date32(), days),
    "moments": (pa.timestamp("us"), moments),
    "zoned moments": (pa.timestamp("ns", "Europe/Berlin"), moments),
    "decimals": (pa.decimal128(9, 2), [decimal.Decimal("1.50"), decimal.Decimal("2.00")]),
    "nothing": (pa.null(), [None]),
    "lists": (pa.list_(pa.int64()), [[1], [1, 2], []]),
    "bytes": (pa.binary(), [b"a", b"\xff"]),
}


@st.composite
def typed_tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 12))
    columns = {}
    for name in ("unique_id", "ds", "y"):
        dtype, cells = columns_of[draw(st.sampled_from(sorted(columns_of)))]
        choices = [*cells, None] if draw(st.booleans()) and name != "unique_id" else cells
        drawn = draw(st.lists(st.sampled_from(choices), min_size=count, max_size=count))
        columns[name] = pa.array(drawn, dtype)
    return pa.table(columns)


@given(
    table=typed_tables(),
    most_rows=st.integers(1, 9),
    group_rows=st.integers(1, 9),
    num_files=st.integers(1, 3),
    date_format=st.sampled_from([None, "%Y%m%d", "%d/%m/%Y"]),
)
def test_chunks_of_parquet_are_the_whole_table(
    tmp_path_factory: pytest.TempPathFactory,
    table: pa.Table,
    most_rows: int,
    group_rows: int,
    num_files: int,
    date_format: str | None,
) -> None:
    """Types are the file's; a part without blanks pandas would type otherwise."""
    folder = tmp_path_factory.mktemp("plan")
    path = folder / "table"
    path.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(table.num_rows), num_files)):
        part = table.slice(rows[0] if len(rows) else 0, len(rows))
        pq.write_table(part, path / f"{number}.parquet", row_group_size=group_rows)
    if num_files == 1:
        path /= "0.parquet"
    assert_same(path, CsvFormat(date_format=date_format), Columns(), folder / "work", most_rows)


steps = st.integers(1, 6)
rows_of = st.tuples(ids, steps, st.sampled_from([1.5, 2.0, None]))


@given(
    history=st.lists(rows_of, min_size=1, max_size=12),
    ahead=st.lists(rows_of, min_size=1, max_size=12),
    is_sorted=st.booleans(),
    is_parquet=st.booleans(),
    most_rows=st.sampled_from([1, 4, 8]),
)
@settings(max_examples=25)
@pytest.mark.usefixtures("small_blocks")
def test_the_future_goes_by_the_same_chunks(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[str, int, float | None]],
    ahead: list[tuple[str, int, float | None]],
    is_sorted: bool,
    is_parquet: bool,
    most_rows: int,
) -> None:
    """Also where series have no rows there, and rows no series; and in any order."""
    folder = tmp_path_factory.mktemp("future")
    frames = [
        pd.DataFrame(rows, columns=["unique_id", "ds", "price"]).assign(y=1.0)
        for rows in (history, ahead)
    ]
    if is_sorted:
        frames = [frame.sort_values(["unique_id", "ds"]) for frame in frames]
    paths = [folder / "data", folder / "future"]
    for frame, path in zip(frames, paths, strict=True):
        if is_parquet:
            frame.to_parquet(path, index=False, row_group_size=3)
        else:
            frame.to_csv(path, index=False)
    columns = Columns(future_covariates=("price",))
    oracle["assert_same_future"](*paths, columns, folder / "work", most_rows)
