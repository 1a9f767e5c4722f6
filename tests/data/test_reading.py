"""Files: the same content is the same table however it is written, and nothing is read by guess."""

import contextlib
import gzip
import io
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import OptionError, TableError
from foretell.data.series.options import Columns
from foretell.data.series.rows import read_rows
from foretell.data.tables.dates import read_dates
from foretell.data.tables.reading import CsvFormat, read_table

PLAIN = "unique_id,ds,y\n007,2024-01-01,1.5\n7,2024-01-02,\nNA,2024-01-03,-2e3\n"


def write(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode(),
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\r").encode(),
        b"\n" + PLAIN.encode().rstrip(),
        PLAIN.replace("\n", "\n\n").encode(),
        PLAIN.replace(",", ";").encode(),
        PLAIN.replace(",", "\t").encode(),
        PLAIN.replace("1.5", "+1.5").encode(),
        PLAIN.replace("007", '"007"').replace("1.5", ' "1.5"'.strip()).encode(),
        PLAIN.replace("2024-01-02,", "2024-01-02,NaN").encode(),
        PLAIN.replace("2024-01-02,", "2024-01-02, null ").encode(),
        gzip.compress(b"\xef\xbb\xbf" + PLAIN.encode()),
    ],
    ids=[
        "plain",
        "mark",
        "crlf",
        "cr",
        "no end",
        "blank lines",
        ";",
        "tab",
        "plus",
        "quoted",
        "NaN",
        "null",
        "gz",
    ],
)
def test_the_same_content_is_the_same_table(tmp_path: Path, content: bytes) -> None:
    table = read_table(write(tmp_path, content))
    assert table.columns.tolist() == ["unique_id", "ds", "y"]
    assert table["unique_id"].tolist() == ["007", "7", "NA"], "ids are text, letter for letter"
    np.testing.assert_array_equal(table["y"], [1.5, np.nan, -2000])


def test_standard_input_is_a_csv_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PLAIN.encode())))
    assert len(read_table("-")) == 3


def test_a_closed_stdin_is_told(monkeypatch):
    """`<&-`, or a service manager: there is no stream to read from at all."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TableError, match="standard input is closed; leave it open"):
        read_table("-", csv=CsvFormat(), columns=Columns())


def test_a_decimal_comma_is_read_where_it_is_said_and_a_point_is_then_no_number(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path, "unique_id;ds;y\na;2024-01-01;22,4455\na;2024-01-02;,5\nb;2024-01-01;1.000,5\n"
    )
    table = read_table(path, csv=CsvFormat(decimal=","))
    assert table["y"].tolist() == [22.4455, 0.5, "1.000,5"]
    assert "'1.000,5'" in read_rows(table, Columns()).refusals[0].reason
    with pytest.raises(TableError, match="'y' is '22,4455' in row 1; if the comma is the decimal"):
        read_table(path)


def test_what_is_no_number_stays_for_its_row_to_be_named(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, PLAIN.replace("-2e3", "n/k").replace("1.5", "inf")))
    refusals = read_rows(table, Columns()).refusals
    assert "'y' is inf in row 1" in refusals[0].reason
    assert "'y' is 'n/k' (str) in row 3" in refusals[1].reason


def test_columns_of_words_stay_words(tmp_path: Path) -> None:
    table = read_table(
        write(tmp_path, "unique_id,ds,y,city\na,2024-01-01,1,Bonn\na,2024-01-02,2,\n")
    )
    assert table["city"].tolist() == ["Bonn", ""]


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0")).filter(str.strip),
        min_size=1,
        max_size=5,
    )
)
def test_ids_come_back_letter_for_letter(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str]
) -> None:
    df = pd.DataFrame({"unique_id": ids, "ds": "2024-01-01", "y": 1})
    text = df.to_csv(index=False, quoting=1)
    path = write(tmp_path_factory.mktemp("ids"), text)
    assert read_table(path)["unique_id"].tolist() == ids


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty; give a header and rows"),
        (b"\n \n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"unique_id,ds,y\n", "has a header but no rows"),
        (b"unique_id,ds,y", "has a header but no rows"),
        (b"\x00\x01\x02 junk", "binary data; give a CSV or Parquet file"),
        (b"PK\x03\x04 sheet", "zip or spreadsheet file; save the table as CSV or Parquet"),
        (b"PAR1 not really", "can't be read"),
        (gzip.compress(PLAIN.encode() * 999)[:-40], "can't be read"),
        (PLAIN.encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        (PLAIN.replace("007", "Köln").encode("latin-1"), "not UTF-8 text; save it as UTF-8"),
        (PLAIN.replace("y", "ÿ").encode("latin-1"), "not UTF-8 text"),
        (
            b"id;date;y\n1;2;3\n",
            "columns 'id', 'date', 'y' when split at semicolon, not 'unique_id'",
        ),
        (b"unique_id,ds;y\n", "columns 'unique_id', 'ds;y' when split at comma"),
        (b"unique_id,ds,y,y\n", "several columns named 'y'; keep one of each"),
        (
            b"unique_id,ds,y\na,2024-01-01,1,5\na,2024-01-02,2\na,2024-01-03\n",
            "broken rows: 'a,2024-01-01,1,5' in row 1 has 4 values, not 3; 'a,2024-01-03' in row 3",
        ),
        (b"unique_id,ds,y\na,2024-01-01,1,\xff\n", "not UTF-8 text"),
        (b"unique_id,ds,y\na,03/04/2024,1\n", "may be day first or month first"),
        (b'unique_id,ds,y\na,2024-01-01,"1,234"\n', "if it parts thousands, remove it"),
    ],
)
def test_what_is_no_table_is_refused_in_one_sentence(
    tmp_path: Path, content: bytes, match: str
) -> None:
    with pytest.raises(TableError, match=match) as caught:
        read_table(write(tmp_path, content))
    assert len(caught.value.problems) == 1
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"there is no file .*none\.csv; check the path"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match=r"holds no \.parquet files"):
        read_table(tmp_path)


def test_a_separator_given_is_the_one_used(tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN.replace(",", "|"))
    assert len(read_table(path, csv=CsvFormat(separator="|"))) == 3
    with pytest.raises(
        TableError, match=r"'unique_id\|ds\|y' when split at comma.*give the separator"
    ):
        read_table(path)
    with pytest.raises(TableError, match="when split at semicolon"):
        read_table(write(tmp_path, PLAIN), csv=CsvFormat(separator=";"))


def test_other_column_names_find_the_separator_too(tmp_path: Path) -> None:
    path = write(tmp_path, "Shop Nr.;Day;Sold\n1;2024-01-01;5\n")
    table = read_table(path, columns=Columns(unique_id="Shop Nr.", ds="Day", y="Sold"))
    assert table.iloc[0].tolist() == ["1", "2024-01-01", 5.0]


def test_all_wrong_options_are_told_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        CsvFormat(separator="::", decimal="'", date_format="dd/mm")
    assert len(caught.value.problems) == 3
    with pytest.raises(OptionError, match="separator and decimal are both ','"):
        CsvFormat(separator=",", decimal=",")


@pytest.mark.parametrize("separator", ["€", "\xa0", "\0", "a", "7", '"', "\n", "\r", "", ";;", "ä"])
def test_a_separator_that_no_file_can_have_is_refused(separator: str) -> None:
    """It comes from a command line; the parser below knows single bytes."""
    with pytest.raises(OptionError, match=r"separator is .*; give one ASCII character"):
        CsvFormat(separator=separator)


@pytest.mark.parametrize(
    "date_format", ["%Q", "%Y-%Y-%d", "%Y%", "%G-%V", "%U %Y", "%z %z", "%m %m", "dd/mm", ""]
)
def test_a_date_format_that_is_none_is_refused_before_a_file_is_read(date_format: str) -> None:
    with pytest.raises(OptionError, match=r"date format .*; write one such as '%d/%m/%Y'"):
        CsvFormat(date_format=date_format)


@given(st.text(st.sampled_from("%YmdHMSjGVzZpyb-/ .([*+\\?é"), max_size=8))
def test_any_date_format_is_used_or_refused(date_format: str) -> None:
    with contextlib.suppress(OptionError):
        csv = CsvFormat(date_format=date_format)
        column = pd.Series(["2024-01-05", "5", "12:30"], name="ds")
        with contextlib.suppress(TableError):
            read_dates(column, csv.date_format)


@pytest.fixture
def typed() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "unique_id": [7, 7, 8],
            "ds": pd.date_range("2024-01-01", periods=3, tz="Europe/Berlin"),
            "y": [1.5, None, 3.0],
        }
    )


def test_parquet_keeps_types_and_an_index_comes_back_as_a_column(
    tmp_path: Path, typed: pd.DataFrame
) -> None:
    path = tmp_path / "table.parquet"
    typed.set_index("unique_id").to_parquet(path)
    table = read_table(path)
    assert table["unique_id"].tolist() == [7, 7, 8]
    assert str(table["ds"].dt.tz) == "Europe/Berlin"
    np.testing.assert_array_equal(table["y"], typed["y"])


def test_folders_of_parquet_are_one_table_and_their_names_are_text(
    tmp_path: Path, typed: pd.DataFrame
) -> None:
    for name in ("007", "7"):
        folder = tmp_path / f"unique_id={name}"
        folder.mkdir()
        typed[["ds", "y"]].to_parquet(folder / "part.parquet")
    table = read_table(tmp_path)
    assert table["unique_id"].tolist() == ["007"] * 3 + ["7"] * 3


def test_parquet_dates_as_numbers_need_a_format(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pd.DataFrame({"unique_id": "a", "ds": [20240106, 20240107], "y": 1.0}).to_parquet(path)
    table = read_table(path, csv=CsvFormat(date_format="%Y%m%d"))
    assert table["ds"].tolist() == [pd.Timestamp("2024-01-06"), pd.Timestamp("2024-01-07")]
    with pytest.raises(TableError, match="may be dates or steps"):
        read_rows(read_table(path), Columns())


@pytest.mark.parametrize(
    ("dates", "date_format", "expected"),
    [
        (["30/01/2024", "01/02/2024"], None, ["2024-01-30", "2024-02-01"]),
        (["1/30/2024", "2/1/2024"], None, ["2024-01-30", "2024-02-01"]),
        (["30.01.2024 13:05", "01.02.2024 00:00"], None, ["2024-01-30 13:05", "2024-02-01"]),
        (
            ["12-31-2024T01:02:03", "01-01-2025T00:00:00"],
            None,
            ["2024-12-31 01:02:03", "2025-01-01"],
        ),
        (["05/05/2024", "06/06/2024"], None, ["2024-05-05", "2024-06-06"]),
        (["01/02/2024", "02/02/2024"], "%d/%m/%Y", ["2024-02-01", "2024-02-02"]),
        (["01/02/2024", "02/02/2024"], "%m/%d/%Y", ["2024-01-02", "2024-02-02"]),
        (["20240130", "20240201"], "%Y%m%d", ["2024-01-30", "2024-02-01"]),
        (["Jan 2024", "Feb 2024"], "%b %Y", ["2024-01-01", "2024-02-01"]),
    ],
)
def test_dates_that_are_not_iso_are_read_where_one_reading_fits(
    tmp_path: Path, dates: list[str], date_format: str | None, expected: list[str]
) -> None:
    df = pd.DataFrame({"unique_id": "a", "ds": dates, "y": 1.0})
    path = write(tmp_path, df.to_csv(index=False))
    table = read_table(path, csv=CsvFormat(date_format=date_format))
    assert table["ds"].tolist() == [pd.Timestamp(date) for date in expected]


@pytest.mark.parametrize(
    ("dates", "date_format", "match"),
    [
        (["01/02/2024", "02/02/2024"], None, "'01/02/2024', which may be day first or month first"),
        (["30/01/2024", "01/30/2024"], None, "neither '%d/%m/%Y' nor '%m/%d/%Y' fits them all"),
        (["30/01/2024", "01/02/2024"], "%m/%d/%Y", "'30/01/2024' in row 1, which the date format"),
    ],
)
def test_dates_that_may_be_read_twice_or_never_are_refused(
    tmp_path: Path, dates: list[str], date_format: str | None, match: str
) -> None:
    df = pd.DataFrame({"unique_id": "a", "ds": dates, "y": 1.0})
    path = write(tmp_path, df.to_csv(index=False))
    with pytest.raises(TableError, match=match):
        read_table(path, csv=CsvFormat(date_format=date_format))


def test_offsets_in_a_format_make_instants(tmp_path: Path) -> None:
    path = write(
        tmp_path, "unique_id,ds,y\na,31.03.2024 01:00 +0100,1\na,31.03.2024 03:00 +0200,2\n"
    )
    rows = read_rows(read_table(path, csv=CsvFormat(date_format="%d.%m.%Y %H:%M %z")), Columns())
    assert rows.stamp_kind == "zoned"
    assert np.diff(rows.stamps).tolist() == [3_600_000_000_000]


edits = st.tuples(
    st.integers(0, 80), st.integers(0, 4), st.sampled_from(list(b',;"\n\r\t-/:.0aTZ+ \xff\x00'))
)


@given(st.lists(edits, min_size=1, max_size=8))
def test_a_spoilt_file_is_a_table_or_a_clear_refusal(
    tmp_path_factory: pytest.TempPathFactory, spoil: list[tuple[int, int, int]]
) -> None:
    """No input may end in a traceback, least of all one from a library below."""
    content = bytearray(PLAIN.encode())
    for place, length, byte in spoil:
        content[place : place + length] = bytes([byte])
    path = write(tmp_path_factory.mktemp("spoilt"), bytes(content))
    with contextlib.suppress(TableError):
        rows = read_rows(read_table(path), Columns())
        assert len(rows.ids) + len(rows.refusals) >= 1


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    """`foretell forecast <(zcat sales.csv.gz)`: its bytes can be had only once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"unique_id,ds,y\na,2024-01-01,1\n",))
    writer.start()
    table = read_table(pipe)
    writer.join()
    assert table.to_dict("list") == {"unique_id": ["a"], "ds": ["2024-01-01"], "y": [1.0]}
