"""Files with something wrong inside: no row is lost in silence, and no library has its say."""

import contextlib
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import TableError
from foretell.data.series.options import Columns
from foretell.data.series.rows import read_rows
from foretell.data.tables.reading import CsvFormat, read_table

HEADER = ["unique_id", "ds", "y", "note"]


def rows(count: int, ids: str = "ab") -> list[list[str]]:
    days = pd.date_range("2024-01-01", periods=count).strftime("%Y-%m-%d")
    return [[name, day, "1.5", "red"] for name in ids for day in days]


def csv_file(
    folder: Path, table: list[list[str]], quote: str = '"', end: str = "\n", last: bool = True
) -> Path:
    """Write notes in quotes, and all other cells as they are."""
    lines = [",".join([*cells[:3], f"{quote}{cells[3]}{quote}"]) for cells in [HEADER, *table]]
    path = folder / "table.csv"
    path.write_bytes((end.join(lines) + end * last).encode())
    return path


@given(st.integers(0, 39), st.integers(0, 3), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_quote_left_open_never_swallows_rows(
    tmp_path_factory: pytest.TempPathFactory, row: int, place: int, end: str, last: bool
) -> None:
    """A note of 24 inches must not cost half a series and all of the next one, unseen."""
    table = rows(20)
    table[row][place] = '"24 inch'
    path = csv_file(tmp_path_factory.mktemp("quote"), table, quote="", end=end, last=last)
    with pytest.raises(TableError, match=rf"in row {row + 1}\b") as caught:
        read_table(path)
    assert len(str(caught.value)) < 400 + len(str(path)), "the swallowed rest is not repeated"


@pytest.mark.parametrize("last", [True, False])
def test_a_quote_left_open_at_the_very_end_is_noticed(tmp_path: Path, last: bool) -> None:
    table = rows(3)
    table[-1][3] = '"24 inch'
    with pytest.raises(TableError, match=r"row 6, '24 inch.*; a quote may be left open there"):
        read_table(csv_file(tmp_path, table, quote="", last=last).resolve())


def test_a_quote_left_open_and_closed_by_a_later_one_is_noticed(tmp_path: Path) -> None:
    """Every row between is inside one value, and the file parses without an error."""
    text = csv_file(tmp_path, rows(9), quote="").read_text()
    lines = text.splitlines()
    lines[4], lines[12] = lines[4].replace("red", '"red'), lines[12].replace("red", 'red"')
    path = tmp_path / "closed.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(TableError, match=r"several lines in row 4, 'red\\na,2024-01-05"):
        read_table(path)


def test_quotes_that_are_closed_and_quotes_inside_a_value_are_no_harm(tmp_path: Path) -> None:
    table = rows(3)
    table[0][3] = '24"" wide, 3"" high'
    found = read_table(csv_file(tmp_path, table))
    assert found["note"].tolist()[:2] == ['24" wide, 3" high', "red"]
    assert len(read_table(csv_file(tmp_path, [[*cells[:3], '24" x'] for cells in table], ""))) == 6


def test_a_value_longer_than_a_block_is_no_riddle(tmp_path: Path) -> None:
    table = rows(40_000)
    table[7][3] = '"24 inch'
    with pytest.raises(TableError, match=r"several lines in row 8, .*24 inch"):
        read_table(csv_file(tmp_path, table, ""))


@pytest.mark.parametrize(
    ("header", "match"),
    [
        (f"unique_id,ds,y,{'x' * 140_000}", None),
        (f"unique_id;ds;y;{';'.join(f'column{n}' for n in range(20_000))}", "columns|values"),
        (f"{'x' * 140_000}", r"columns 'x{79}\.\.\. when split at"),
        ("x" * (1 << 20), "a first line of over 1 MiB, which is no header"),
        ('unique_id,ds,y,"no\nte"', "header whose quotes are not closed"),
        ('unique_id,ds,y,"no', "header whose quotes are not closed"),
    ],
    ids=["long name", "many names", "one name", "1 MiB", "line end", "quote"],
)
def test_a_header_is_read_or_refused(tmp_path: Path, header: str, match: str | None) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"{header}\na,2024-01-01,1,2\n")
    if match is None:
        assert len(read_table(path)) == 1
    else:
        with pytest.raises(TableError, match=match) as caught:
            read_table(path)
        assert len(str(caught.value)) < 600 + len(str(path))


@pytest.fixture
def typed() -> pa.Table:
    days = pd.date_range("2024-01-01", periods=6)
    return pa.Table.from_pandas(pd.DataFrame({"unique_id": list("aaabbb"), "ds": days, "y": 1.0}))


def parquet(folder: Path, table: pa.Table) -> Path:
    pq.write_table(table, folder / "table.parquet")
    return folder / "table.parquet"


@pytest.mark.parametrize("metadata", [b"{broken", b"\xff\xfe", b""])
def test_what_pandas_stored_beside_the_columns_is_not_needed(
    tmp_path: Path, typed: pa.Table, metadata: bytes
) -> None:
    table = typed.replace_schema_metadata({b"pandas": metadata})
    assert len(read_table(parquet(tmp_path, table))) == 6
    assert len(read_table(tmp_path)) == 6, "as a folder"


def test_a_zone_that_is_none_is_named(tmp_path: Path, typed: pa.Table) -> None:
    zoned = typed.set_column(1, "ds", typed["ds"].cast(pa.timestamp("us", "Mars/Olympus")))
    with pytest.raises(TableError, match=r"column 'ds' of .*: 'Mars/Olympus' is no time zone"):
        read_table(parquet(tmp_path, zoned))


@pytest.mark.parametrize("date_format", [None, "%Y%m%d"])
def test_a_time_column_of_lists_is_refused(
    tmp_path: Path, typed: pa.Table, date_format: str | None
) -> None:
    lists = typed.set_column(1, "ds", pa.array([[1, 2]] * 6))
    table = read_table(parquet(tmp_path, lists), csv=CsvFormat(date_format=date_format))
    with pytest.raises(TableError, match="time column 'ds' holds ndarray; it must hold dates"):
        read_rows(table, Columns())


def test_columns_of_one_name_are_refused_as_in_csv(tmp_path: Path, typed: pa.Table) -> None:
    path = parquet(tmp_path, typed.append_column("y", typed["y"]))
    for place in (path, tmp_path):
        with pytest.raises(TableError, match="several columns named 'y'; keep one of each"):
            read_table(place)


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_is_a_table_or_a_clear_refusal(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    """A disk may flip any; most of a small Parquet file is metadata."""
    days = pd.date_range("2024-01-01", periods=9)
    df = pd.DataFrame({"unique_id": list("aaabbbccc"), "ds": days, "y": 1.0, "words": "blue"})
    path = tmp_path_factory.mktemp("flipped") / "table.parquet"
    df.to_parquet(path)
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)
    with contextlib.suppress(TableError):
        read_rows(read_table(path, csv=CsvFormat()), Columns())
