"""Files to DataFrames: CSV and Parquet, with ids letter for letter and nothing read by guess.

Only what text leaves open is settled here: separator, decimal sign, blanks, dates that are not ISO.
Types are judged where all tables pass, in `foretell.data.rows`.
"""

import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa

from foretell.data.csv_files import CsvFormat, read_csv
from foretell.data.dates import read_dates
from foretell.data.errors import TableError
from foretell.data.options import Columns
from foretell.data.parquet_files import read_parquet

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
    name = "standard input" if str(path) == "-" else str(path)
    try:
        table = _read(path, name, csv, columns)
    except TableError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:  # text that is none, too
        raise TableError(f"{name} can't be read: {_reason(error)}.") from error
    if table.empty:
        raise TableError(f"{name} has a header but no rows; give each series at least one.")
    if columns.ds in table.columns:
        table[columns.ds] = read_dates(table[columns.ds], csv.date_format)
    return table


def _read(path: str | Path, name: str, csv: CsvFormat, columns: Columns) -> pd.DataFrame:
    if str(path) == "-":
        if sys.stdin is None:
            raise TableError("standard input is closed; leave it open, or give a file.")
        content = sys.stdin.buffer.read()
        return read_csv(lambda: pa.BufferReader(content), name, csv, columns)
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {name}; check the path.")
    if path.is_dir():
        return read_parquet(path)
    if not path.is_file():  # a pipe gives its bytes once
        content = path.read_bytes()
        return read_csv(lambda: pa.BufferReader(content), name, csv, columns)
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"PAR1"):
        return read_parquet(path)
    if start.startswith(b"PK\x03\x04"):
        raise TableError(f"{name} is a zip or spreadsheet file; save the table as CSV or Parquet.")
    compression = "gzip" if start.startswith(b"\x1f\x8b") else None
    return read_csv(lambda: pa.input_stream(str(path), compression=compression), name, csv, columns)


def _reason(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0].rstrip(".")
    if "invalid UTF8" in text or isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text; save it as UTF-8"
    return text or type(error).__name__
