"""Files to DataFrames: CSV and Parquet, with ids letter for letter and nothing read by guess.

Only what text leaves open is settled here: separator, decimal sign, blanks, dates that are not ISO.
Types are judged where all tables pass, in `foretell.data.series.rows`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Literal, cast

import pandas as pd
import pyarrow as pa

from foretell.data.errors import TableError
from foretell.data.series.options import Columns
from foretell.data.standard_input import GZIP, packed_problem
from foretell.data.tables.csv_files import CsvFormat, read_csv
from foretell.data.tables.dates import read_dates
from foretell.data.tables.parquet_files import read_parquet

__all__ = ["CsvFormat", "read_table"]


def read_table(
    path: str | Path, *, csv: CsvFormat | None = None, columns: Columns | None = None
) -> pd.DataFrame:
    """Read a CSV file (also gzipped), a Parquet file or folder, or CSV from standard input ("-").

    Parquet keeps its types. From CSV, ids are text letter for letter, the time column is dates or
    text, and every column that holds numbers is numbers, where blanks and NA, NaN, null and the
    like are unknown.

    Args:
        path: The file; "-" is standard input.
        csv: How CSV is written.
        columns: Names of the columns.

    Raises:
        TableError: The file can't be read, is empty, is no table, or its separator, decimal sign
            or dates are ambiguous.
    """
    csv, columns = csv or CsvFormat(), columns or Columns()
    with errors_told(name_of(path)):
        table = _read(path, csv, columns)
    if table.empty:
        raise TableError(no_rows(name_of(path)))
    if columns.ds in table.columns:
        table[columns.ds] = read_dates(table[columns.ds], csv.date_format)
    return table


def name_of(path: str | Path) -> str:
    """Name an input for messages."""
    return "standard input" if str(path) == "-" else str(path)


def no_rows(name: str) -> str:
    """Say that a table has no rows."""
    return f"{name} has a header but no rows; give each series at least one."


@contextmanager
def errors_told(name: str) -> Iterator[None]:
    """Turn what libraries and the system raise about a file into a `TableError`."""
    try:
        yield
    except TableError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:  # text that is none, too
        raise TableError(f"{name} can't be read: {_reason(error)}.") from error


Kind = Literal["stream", "csv", "gzip", "parquet"]


def kind_of(path: str | Path) -> Kind:
    """Tell what an input is: CSV that can be read but once, CSV, gzipped CSV, or Parquet.

    Raises:
        TableError: There is none, or it is something else.
    """
    if str(path) == "-":
        if sys.stdin is None:
            raise TableError("standard input is closed; leave it open, or give a file.")
        return "stream"
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {path}; check the path.")
    if path.is_dir():
        return "parquet"
    if not path.is_file():  # a pipe gives its bytes once
        return "stream"
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"PK\x03\x04"):
        raise TableError(f"{path} is a zip or spreadsheet file; save the table as CSV or Parquet.")
    return "gzip" if start.startswith(GZIP) else "csv"


@contextmanager
def opened(path: str | Path, kind: Kind) -> Iterator[BufferedIOBase | pa.NativeFile]:
    """Open CSV to read its bytes, unzipped; standard input stays open.

    Raises:
        TableError: Standard input is packed.
    """
    if str(path) == "-":
        if (problem := packed_problem()) is not None:  # before gigabytes of it are copied
            raise TableError(problem)
        yield cast("BufferedIOBase", sys.stdin.buffer)
    elif kind == "gzip":
        with pa.input_stream(str(path), compression="gzip") as stream:
            yield stream
    else:
        with Path(path).open("rb") as file:
            yield file


def _read(path: str | Path, csv: CsvFormat, columns: Columns) -> pd.DataFrame:
    name, kind = name_of(path), kind_of(path)
    if kind == "parquet":
        return read_parquet(Path(path))
    if kind == "stream":
        with opened(path, kind) as file:
            content = file.read()
        return read_csv(lambda: pa.BufferReader(content), name, csv, columns)
    compression = "gzip" if kind == "gzip" else None
    return read_csv(lambda: pa.input_stream(str(path), compression=compression), name, csv, columns)


def _reason(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0].rstrip(".")
    if "invalid UTF8" in text or isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text; save it as UTF-8"
    return text or type(error).__name__
