"""Files to DataFrames: CSV and Parquet, with ids letter for letter and nothing read by guess.

Only what text leaves open is settled here: separator, decimal sign, blanks, dates that are not ISO.
Types are judged where all tables pass, in `foretell.data.rows`.
"""

import contextlib
import csv as csv_module
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from foretell.data.dates import read_dates
from foretell.data.errors import OptionError, TableError
from foretell.data.options import Columns
from foretell.data.values import row_name

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
# Written for "unknown" by common tools; in the id column they are names like any other.
BLANKS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_NUMBER = {
    sign: rf"^[+-]?(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
    for sign, point in ((".", r"\."), (",", ","))
}
_COMMA_NUMBER = r"\s*[+-]?[\d.]*,\d+\s*"
_HEAD_BYTES = 1 << 20
_NAMED = 12  # columns named one by one before "and 20 more"


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvFormat:
    """How a CSV file is written.

    Attributes:
        separator: One character between values; None finds comma, semicolon or tab from the header.
        decimal: "." or ",".
        date_format: A strptime format of the time column; None reads ISO dates, and others where
            only one reading fits the whole column.
    """

    separator: str | None = None
    decimal: str = "."
    date_format: str | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.separator is not None and (
            len(self.separator) != 1 or self.separator in '"\n\r' or self.separator.isalnum()
        ):
            problems.append(
                f"separator is {self.separator!r}; give one character such as ',', ';' or a tab."
            )
        if self.decimal not in {".", ","}:
            problems.append(f"decimal is {self.decimal!r}; give '.' or ','.")
        if self.separator is not None and self.separator == self.decimal:
            problems.append(
                f"separator and decimal are both {self.decimal!r}; give the file's separator."
            )
        if self.date_format is not None and "%" not in self.date_format:
            problems.append(f"date format is {self.date_format!r}; write one such as '%d/%m/%Y'.")
        if problems:
            raise OptionError(problems)


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
    except (pa.ArrowException, OSError, EOFError) as error:
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
        return _read_csv(lambda: pa.BufferReader(content), name, csv, columns)
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {name}; check the path.")
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():  # a pipe gives its bytes once
        content = path.read_bytes()
        return _read_csv(lambda: pa.BufferReader(content), name, csv, columns)
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"PAR1"):
        return _to_pandas(pq.read_table(path, partitioning=None))
    if start.startswith(b"PK\x03\x04"):
        raise TableError(f"{name} is a zip or spreadsheet file; save the table as CSV or Parquet.")
    compression = "gzip" if start.startswith(b"\x1f\x8b") else None
    return _read_csv(
        lambda: pa.input_stream(str(path), compression=compression), name, csv, columns
    )


def _read_folder(path: Path) -> pd.DataFrame:
    """Read all Parquet files of a folder; folders named key=value become text columns."""
    files = sorted(path.rglob("*.parquet"))
    if not files:
        raise TableError(f"folder {path} holds no .parquet files; give a file or another folder.")
    folders = {part for file in files for part in file.relative_to(path).parts[:-1]}
    keys = sorted({part.split("=", 1)[0] for part in folders if "=" in part})
    # Typed as text, or 007 would be read as 7.
    partitioning = pads.partitioning(pa.schema([(key, pa.string()) for key in keys]), flavor="hive")
    dataset = pads.dataset(
        [str(file) for file in files],
        format="parquet",
        partitioning=partitioning if keys else None,
        partition_base_dir=str(path),
    )
    return _to_pandas(dataset.to_table())


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    # An index that pandas stored comes back as the column it was.
    frame: pd.DataFrame = table.to_pandas(date_as_object=False, ignore_metadata=True)
    return frame


def _read_csv(
    open_file: Callable[[], pa.NativeFile], name: str, csv: CsvFormat, columns: Columns
) -> pd.DataFrame:
    with open_file() as file:
        header = _header_line(file.read(_HEAD_BYTES), name)
    separator, names = _split_header(header, name, csv, columns)
    table = _parse_csv(open_file, name, separator, names)
    text = {columns.unique_id, columns.ds}
    frame = pd.DataFrame(
        {
            column: table.column(column).to_pandas()
            if column in text
            else _read_numbers(table.column(column), csv.decimal)
            for column in names
        }
    )
    if columns.y in frame and csv.decimal == ".":
        _refuse_decimal_comma(frame[columns.y], name, separator, names)
    return frame


def _header_line(head: bytes, name: str) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError(f"{name} is UTF-16 text; save it as UTF-8.")
    if b"\x00" in head:
        raise TableError(f"{name} is no text but binary data; give a CSV or Parquet file.")
    lines = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").splitlines()
    if not head.strip() or not lines:
        raise TableError(f"{name} is empty; give a header and rows.")
    try:
        return lines[0].decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{name} is not UTF-8 text; save it as UTF-8.") from error


def _split_header(
    header: str, name: str, csv: CsvFormat, columns: Columns
) -> tuple[str, list[str]]:
    """Split the header by the separator given, or the only one that yields id and time columns."""
    tried = [csv.separator] if csv.separator else list(SEPARATORS)
    found = {one: next(csv_module.reader([header], delimiter=one)) for one in tried}
    needed = {columns.unique_id, columns.ds}
    fitting = [separator for separator, names in found.items() if needed <= set(names)]
    if len(fitting) != 1:
        best = max(tried, key=lambda separator: len(found[separator]))
        raise TableError(
            f"{name} has {_columns_found(best, found[best])}, not {columns.unique_id!r} and "
            f"{columns.ds!r}; name the columns (id_col, time_col), or give the separator."
        )
    names = found[fitting[0]]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise TableError(
            f"{name} has several columns named {', '.join(map(repr, twice))}; keep one of each."
        )
    return fitting[0], names


def _columns_found(separator: str, names: list[str]) -> str:
    spelled = SEPARATORS.get(separator, repr(separator))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the columns {', '.join(map(repr, names[:_NAMED]))}{more} when split at {spelled}"


def _parse_csv(
    open_file: Callable[[], pa.NativeFile], name: str, separator: str, names: list[str]
) -> pa.Table:
    try:
        with open_file() as file:
            return _parse_rows(file, separator, names, None)
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):  # a header without so much as a line end
            return pa.table(dict.fromkeys(names, pa.array([], pa.string())))
        if "columns, got" not in str(error):
            raise
    # Once more, slowly, to tell what all broken rows are.
    with open_file() as file:
        content = file.read()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{name} is not UTF-8 text; save it as UTF-8.") from error
    broken: list[str] = []

    def note(row: pacsv.InvalidRow) -> str:
        text, found, expected = row.text.strip()[:80], row.actual_columns, row.expected_columns
        broken.append(f"{text!r} has {found} values, not {expected}")
        return "skip"

    _parse_rows(pa.BufferReader(content), separator, names, note)
    more = f" and {len(broken) - 5} more rows likewise" if len(broken) > 5 else ""
    raise TableError(
        f"{name} has broken rows: {'; '.join(broken[:5])}{more}. Write one value a column, and "
        "put values that hold the separator in quotes."
    )


def _parse_rows(
    file: pa.NativeFile,
    separator: str,
    names: list[str],
    note: Callable[[pacsv.InvalidRow], str] | None,
) -> pa.Table:
    return pacsv.read_csv(
        file,
        parse_options=pacsv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=note
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _read_numbers(texts: pa.ChunkedArray, decimal: str) -> pd.Series:
    """Read text as numbers where it is; what is no number stays, for `rows` to name its row."""
    unknown = pa.scalar(None, pa.string())
    plain = pc.utf8_trim_whitespace(texts)
    plain = pc.if_else(pc.is_in(plain, pa.array(BLANKS)), unknown, plain)
    if decimal == ".":
        with contextlib.suppress(pa.ArrowInvalid):  # the fast way, where all are numbers
            return _as_floats(plain)
    # With a decimal comma, a point may be a thousands sign: such a value is no number.
    is_number = pc.fill_null(pc.match_substring_regex(plain, _NUMBER[decimal]), True)
    plain = pc.replace_substring(pc.if_else(is_number, plain, unknown), decimal, ".")
    numbers = _as_floats(pc.utf8_ltrim(plain, "+"))
    wrong = ~is_number.to_numpy()
    if not wrong.any():
        return numbers
    words: pd.Series = texts.to_pandas()
    if numbers.isna().all():
        return words
    mixed = numbers.astype(object)
    mixed[wrong] = words.astype(object)[wrong]
    return mixed


def _as_floats(texts: pa.ChunkedArray) -> pd.Series:
    numbers: pd.Series = pc.cast(texts, pa.float64()).to_pandas()
    return numbers


def _refuse_decimal_comma(target: pd.Series, name: str, separator: str, names: list[str]) -> None:
    if target.dtype.kind == "f":
        return
    rows = np.flatnonzero(target.astype(str).str.fullmatch(_COMMA_NUMBER).to_numpy(bool))
    if rows.size:
        row = int(rows[0])
        raise TableError(
            f"{name} has {_columns_found(separator, names)}, and {target.name!r} is "
            f"{target.iloc[row]!r} in {row_name(row)}; if the comma is the decimal sign, give "
            "decimal ',', if it parts thousands, remove it."
        )


def _reason(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0].rstrip(".")
    if "invalid UTF8" in text:
        return "it is not UTF-8 text; save it as UTF-8"
    return text or type(error).__name__
