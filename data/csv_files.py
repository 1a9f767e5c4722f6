"""CSV files: separator, decimal sign and blanks; ids letter for letter, and no row swallowed."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from foretell.data.dates import date_format_problems
from foretell.data.errors import OptionError, TableError
from foretell.data.options import Columns
from foretell.data.values import row_name, shown

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
            len(self.separator) != 1
            or not self.separator.isascii()
            or self.separator.isalnum()
            or self.separator in '"\n\r\0'
        ):
            problems.append(
                f"separator is {self.separator!r}; give one ASCII character such as ',', ';' or a "
                "tab."
            )
        if self.decimal not in {".", ","}:
            problems.append(f"decimal is {self.decimal!r}; give '.' or ','.")
        if self.separator is not None and self.separator == self.decimal:
            problems.append(
                f"separator and decimal are both {self.decimal!r}; give the file's separator."
            )
        if self.date_format is not None:
            problems += date_format_problems(self.date_format)
        if problems:
            raise OptionError(problems)


def read_csv(
    open_file: Callable[[], pa.NativeFile], name: str, csv: CsvFormat, columns: Columns
) -> pd.DataFrame:
    """Read a CSV file: ids and stamps as text, all other columns as numbers where they are.

    Args:
        open_file: Opens the file from its beginning; called two or three times.
        name: The file, for messages.
        csv: How it is written.
        columns: Names of the columns.

    Raises:
        TableError: It is no CSV file, or may be read in two ways.
    """
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
    is_cut = len(head) == _HEAD_BYTES
    lines = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").splitlines()
    if not head.strip() or not lines:
        raise TableError(f"{name} is empty; give a header and rows.")
    if is_cut and len(lines) == 1:
        raise TableError(f"{name} has a first line of over 1 MiB, which is no header.")
    try:
        return lines[0].decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{name} is not UTF-8 text; save it as UTF-8.") from error


def _split_header(
    header: str, name: str, csv: CsvFormat, columns: Columns
) -> tuple[str, list[str]]:
    """Split the header by the separator given, or the only one that yields id and time columns."""
    tried = [csv.separator] if csv.separator else list(SEPARATORS)
    found = {one: _split(header, one) for one in tried}
    needed = {columns.unique_id, columns.ds}
    fitting = [separator for separator, names in found.items() if needed <= set(names)]
    if len(fitting) != 1:
        best = max(tried, key=lambda separator: len(found[separator]))
        raise TableError(
            f"{name} has {_columns_found(best, found[best])}, not {columns.unique_id!r} and "
            f"{columns.ds!r}; name the columns (id_col, time_col), or give the separator."
        )
    names = found[fitting[0]]
    if any("\n" in column for column in names):
        raise TableError(
            f"{name} has a header whose quotes are not closed; write each name in one line."
        )
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise TableError(
            f"{name} has several columns named {', '.join(map(repr, twice))}; keep one of each."
        )
    return fitting[0], names


def _split(header: str, separator: str) -> list[str]:
    """Split a line as the parser will; a quote left open takes the line end into its name."""
    for end in ("\n", '\n"\n'):  # the second closes a quote
        line = pa.BufferReader(f"{header}{end}".encode())
        with contextlib.suppress(pa.ArrowInvalid):
            names: list[str] = _parse_rows(line, separator, [header]).column_names
            return names
    return [header]


def _columns_found(separator: str, names: list[str]) -> str:
    spelled = SEPARATORS.get(separator, repr(separator))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the columns {', '.join(map(shown, names[:_NAMED]))}{more} when split at {spelled}"


class _LineEnded:
    """A file with one more line end: a quote left open at the end swallows that, and is noticed."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._ended = False
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._file.read(size)
        if content or self._ended:
            return content
        self._ended = True
        return b"\n"

    def close(self) -> None:
        self.closed = True


def _parse_csv(
    open_file: Callable[[], pa.NativeFile], name: str, separator: str, names: list[str]
) -> pa.Table:
    try:
        with open_file() as file:
            table = _parse_rows(pa.PythonFile(_LineEnded(file), mode="r"), separator, names)
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):  # a header without so much as a line end
            return pa.table(dict.fromkeys(names, pa.array([], pa.string())))
        if "columns, got" not in str(error) and "straddling" not in str(error):
            raise
        with open_file() as file:
            table = _parse_slowly(file.read() + b"\n", name, separator, names)
    _refuse_line_ends(table, name)
    return table


def _parse_slowly(content: bytes, name: str, separator: str, names: list[str]) -> pa.Table:
    """Parse all at once, to tell which rows are broken."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{name} is not UTF-8 text; save it as UTF-8.") from error
    broken: list[str] = []
    open_quotes: list[str] = []

    def note(row: pacsv.InvalidRow) -> str:
        text, place = row.text.strip(), row.number - 2  # the header is row 1 there
        if "\n" in text or "\r" in text:
            open_quotes.append(_open_quote(name, place, text))
        found = f"{row.actual_columns} values, not {row.expected_columns}"
        broken.append(f"{shown(text)} in {row_name(place)} has {found}")
        return "skip"

    table = _parse_rows(pa.BufferReader(content), separator, names, note, len(content) + 1)
    if open_quotes:  # the rows it swallowed are no fault of theirs
        raise TableError(open_quotes[0])
    if not broken:
        return table
    more = f" and {len(broken) - 5} more rows likewise" if len(broken) > 5 else ""
    raise TableError(
        f"{name} has broken rows: {'; '.join(broken[:5])}{more}. Write one value a column, and "
        "put values that hold the separator in quotes."
    )


def _parse_rows(
    file: pa.NativeFile,
    separator: str,
    names: list[str],
    note: Callable[[pacsv.InvalidRow], str] | None = None,
    block_size: int | None = None,
) -> pa.Table:
    """Parse all columns as text; by one thread, which numbers rows, where they are noted."""
    return pacsv.read_csv(
        file,
        read_options=pacsv.ReadOptions(use_threads=note is None, block_size=block_size),
        parse_options=pacsv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=note
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _refuse_line_ends(table: pa.Table, name: str) -> None:
    """Refuse values with a line end: one stray quote swallows rows up to the next, unseen."""
    found = [pc.match_substring_regex(column, r"[\r\n]") for column in table.columns]
    if not any(pc.any(mask).as_py() for mask in found):
        return
    rows = [pc.index(mask, True).as_py() for mask in found]
    row, place = min((row, place) for place, row in enumerate(rows) if row >= 0)
    raise TableError(_open_quote(name, row, table.column(place)[row].as_py()))


def _open_quote(name: str, row: int, text: str) -> str:
    return (
        f"{name} has a value over several lines in {row_name(row)}, {shown(text)}; a quote may be "
        "left open there. Close or remove it, and write each row in one line."
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
