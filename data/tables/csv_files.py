"""CSV files: separator, decimal sign and blanks; ids letter for letter, and no row swallowed."""

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from foretell.data.errors import OptionError, TableError
from foretell.data.series.file_rows import row_name
from foretell.data.series.options import Columns
from foretell.data.series.values import shown
from foretell.data.tables.csv_numbers import read_number_texts
from foretell.data.tables.dates import date_format_problems

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
_COMMA_NUMBER = r"\s*[+-]?[\d.]*,\d+\s*"
HEAD_BYTES = 1 << 20
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
        layout = read_layout(file.read(HEAD_BYTES), name, csv, columns)
    separator, names = layout.separator, list(layout.names)
    table = _parse_csv(open_file, name, separator, names)
    text = {columns.unique_id, columns.ds}
    frame = pd.DataFrame(
        {
            column: table.column(column).to_pandas()
            if column in text
            else read_number_texts(table.column(column), csv.decimal)
            for column in names
        }
    )
    if columns.y in frame and csv.decimal == ".":
        target = frame[columns.y]
        row = decimal_comma(target)
        if row is not None:
            raise TableError(comma_problem(target.name, target.iloc[row], row, name, layout))
    return frame


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """What the first line tells.

    Attributes:
        separator: Between values.
        names: Of the columns.
        start: Where the line behind it begins, in bytes.
    """

    separator: str
    names: tuple[str, ...]
    start: int


def read_layout(head: bytes, name: str, csv: CsvFormat, columns: Columns) -> CsvLayout:
    """Read the header.

    Args:
        head: The first `HEAD_BYTES` of the file.
        name: The file, for messages.
        csv: How it is written.
        columns: Names of the columns.

    Raises:
        TableError: It is no CSV file, or has other columns.
    """
    header = _header_line(head, name)
    separator, names = _split_header(header.decode("utf-8"), name, csv, columns)
    start = head.index(header) + len(header)
    start += len(re.match(rb"\r?\n?", head[start:])[0])  # type: ignore[index]
    return CsvLayout(separator, tuple(names), start)


def _header_line(head: bytes, name: str) -> bytes:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError(f"{name} is UTF-16 text; save it as UTF-8.")
    if b"\x00" in head:
        raise TableError(f"{name} is no text but binary data; give a CSV or Parquet file.")
    is_cut = len(head) == HEAD_BYTES
    lines = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").splitlines()
    if not head.strip() or not lines:
        raise TableError(f"{name} is empty; give a header and rows.")
    if is_cut and len(lines) == 1:
        raise TableError(f"{name} has a first line of over 1 MiB, which is no header.")
    try:
        lines[0].decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{name} is not UTF-8 text; save it as UTF-8.") from error
    return lines[0]


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
            names: list[str] = parse_rows(line, separator, [header]).column_names
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
            table = parse_rows(pa.PythonFile(_LineEnded(file), mode="r"), separator, names)
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):  # a header without so much as a line end
            return pa.table(dict.fromkeys(names, pa.array([], pa.string())))
        if "columns, got" not in str(error) and "straddling" not in str(error):
            raise
        with open_file() as file:
            table = _parse_slowly(file.read() + b"\n", name, separator, names)
    _refuse_line_ends(table, name)
    return table


def explain_rows(content: bytes, name: str, layout: CsvLayout, first_row: int) -> None:
    """Refuse rows of a CSV file that are broken, or hold values over several lines.

    Args:
        content: Whole rows.
        name: The file, for messages.
        layout: Of the file.
        first_row: Number of the first of these rows, from 0.

    Raises:
        TableError: There are any.
    """
    names = list(layout.names)
    table = _parse_slowly(content, name, layout.separator, names, first_row=first_row)
    _refuse_line_ends(table, name, first_row)


def _parse_slowly(
    content: bytes, name: str, separator: str, names: list[str], first_row: int | None = None
) -> pa.Table:
    """Parse all at once, to tell which rows are broken; without a header where a row is given."""
    before = -2 if first_row is None else first_row - 1  # the header is row 1 to the parser
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{name} is not UTF-8 text; save it as UTF-8.") from error
    broken: list[str] = []
    open_quotes: list[str] = []

    def note(row: pacsv.InvalidRow) -> str:
        text, place = row.text.strip(), row.number + before
        if "\n" in text or "\r" in text:
            open_quotes.append(_open_quote(name, place, text))
        found = f"{row.actual_columns} values, not {row.expected_columns}"
        broken.append(f"{shown(text)} in {row_name(place)} has {found}")
        return "skip"

    table = parse_rows(
        pa.BufferReader(content),
        separator,
        names,
        has_header=first_row is None,
        note=note,
        block_size=len(content) + 1,
    )
    if open_quotes:  # the rows it swallowed are no fault of theirs
        raise TableError(open_quotes[0])
    if not broken:
        return table
    more = f" and {len(broken) - 5} more rows likewise" if len(broken) > 5 else ""
    raise TableError(
        f"{name} has broken rows: {'; '.join(broken[:5])}{more}. Write one value a column, and "
        "put values that hold the separator in quotes."
    )


def parse_rows(
    file: pa.NativeFile,
    separator: str,
    names: Sequence[str],
    *,
    has_header: bool = True,
    only: Sequence[str] | None = None,
    note: Callable[[pacsv.InvalidRow], str] | None = None,
    block_size: int | None = None,
) -> pa.Table:
    """Parse columns as text; by one thread where rows are noted, or where it is but one block."""
    return pacsv.read_csv(
        file,
        read_options=pacsv.ReadOptions(
            use_threads=note is None and block_size is None,
            block_size=block_size,
            column_names=None if has_header else names,
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=note
        ),
        convert_options=pacsv.ConvertOptions(
            include_columns=only,
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=False,
        ),
    )


def _refuse_line_ends(table: pa.Table, name: str, first_row: int = 0) -> None:
    """Refuse values with a line end: one stray quote swallows rows up to the next, unseen."""
    found = [pc.match_substring_regex(column, r"[\r\n]") for column in table.columns]
    if not any(pc.any(mask).as_py() for mask in found):
        return
    rows = [pc.index(mask, True).as_py() for mask in found]
    row, place = min((row, place) for place, row in enumerate(rows) if row >= 0)
    raise TableError(_open_quote(name, first_row + row, table.column(place)[row].as_py()))


def _open_quote(name: str, row: int, text: str) -> str:
    return (
        f"{name} has a value over several lines in {row_name(row)}, {shown(text)}; a quote may be "
        "left open there. Close or remove it, and write each row in one line."
    )


def decimal_comma(target: pd.Series) -> int | None:
    """Find the first row of a target that looks like a number with a decimal comma."""
    if target.dtype.kind == "f":
        return None
    rows = np.flatnonzero(target.astype(str).str.fullmatch(_COMMA_NUMBER).to_numpy(bool))
    return int(rows[0]) if rows.size else None


def comma_problem(column: object, value: object, row: int, name: str, layout: CsvLayout) -> str:
    """Say what a comma in a number may be."""
    found = _columns_found(layout.separator, list(layout.names))
    return (
        f"{name} has {found}, and {column!r} is {value!r} in {row_name(row)}; if the comma is the "
        "decimal sign, give decimal ',', if it parts thousands, remove it."
    )
