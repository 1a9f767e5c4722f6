"""One look at a whole table: what its columns hold, its series, and how any part of it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Int64

from foretell.data.calendars.zones import StampKind
from foretell.data.errors import TableError
from foretell.data.series.file_rows import file_rows, settle
from foretell.data.series.options import Columns
from foretell.data.series.rows import noted
from foretell.data.tables.ahead import ahead
from foretell.data.tables.blocks import Block, Source
from foretell.data.tables.csv_files import CsvFormat, CsvLayout, comma_problem, decimal_comma
from foretell.data.tables.csv_numbers import NumberFacts, read_number_texts
from foretell.data.tables.csv_source import CsvSource
from foretell.data.tables.dates import DateReading
from foretell.data.tables.kept_rows import KeptRows
from foretell.data.tables.number_judge import NumberJudge
from foretell.data.tables.parquet_files import plain_frame
from foretell.data.tables.reading import no_rows
from foretell.data.tables.series_order import Series, SeriesOrder
from foretell.data.tables.stamp_judge import StampJudge
from foretell.data.tables.table_read import Heard, nobody


@dataclass(frozen=True, slots=True)
class TableForm:
    """How any part of a table is read, as the whole of it says.

    Attributes:
        columns: Those that are read, in order of the table.
        unique_id: Column of ids.
        ds: Column of stamps.
        kind: What the stamps are.
        dates: How dates are read that are not ISO.
        decimal: The sign of decimals in CSV.
        numbers: What the columns of numbers hold in CSV; None in Parquet.
        dtypes: Types of columns that have another where a part has no blanks.
    """

    columns: tuple[str, ...]
    unique_id: str
    ds: str
    kind: StampKind
    dates: DateReading | None
    decimal: str
    numbers: dict[str, NumberFacts] | None
    dtypes: dict[str, str]

    def frame(self, table: pa.Table, rows: Int64[np.ndarray, " N"] | range) -> pd.DataFrame:
        """Make a part of the table, marked as one.

        Args:
            table: The rows as they stand in the file, or as `TableLook` keeps them.
            rows: Their numbers in the file.
        """
        if self.numbers is None:
            frame = plain_frame(table).astype(self.dtypes)
        else:
            frame = pd.DataFrame(
                {
                    name: read_number_texts(table.column(name), self.decimal, self.numbers[name])
                    if name in self.numbers and pa.types.is_string(table.field(name).type)
                    else table.column(name).to_pandas()
                    for name in self.columns
                }
            )
        frame.index = file_rows(rows)
        if self.dates is not None:
            frame[self.ds] = self.dates.read(frame[self.ds])
        settle(frame, self.kind)
        return frame


@dataclass(slots=True)
class TableLook:
    """Looks at all rows of a table.

    Attributes:
        source: The table.
        csv: How CSV is written.
        columns: Names of the columns.
        numeric: Those that must hold numbers, in the order in which problems are told.
        num_rows: Rows seen.
        kept: Those of them that need not be read again.
    """

    source: Source
    csv: CsvFormat
    columns: Columns
    numeric: Sequence[str]
    num_rows: int = 0
    kept: KeptRows = field(default_factory=KeptRows)
    _order: SeriesOrder = field(init=False)
    _stamps: StampJudge = field(init=False)
    _numbers: dict[str, NumberJudge] = field(init=False)
    _comma: str | None = None
    _with_nulls: set[str] = field(default_factory=set)
    _retyped: set[str] = field(default_factory=set)
    _types: dict[str, pa.DataType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._order = SeriesOrder(self.columns.unique_id)
        self._stamps = StampJudge(self.csv.date_format, self.columns.time_zone)
        self._numbers = {name: NumberJudge() for name in self.numeric}

    def run(self, heard: Heard = nobody) -> None:
        """Go through the file.

        Args:
            heard: See `Source.blocks`.

        Raises:
            TableError: As `read_table`.
        """
        for block in ahead(self.source.blocks(heard)):
            self.num_rows += block.table.num_rows
            self._order.look(block)
            if isinstance(self.source, CsvSource):
                typed = self._look_at_texts(block, self.source.layout)
            else:
                typed = self._look_at_types(block)
            self._keep(block.table, typed)
        if self._comma is not None:
            raise TableError(self._comma)
        if not self.num_rows:
            raise TableError(no_rows(self.source.name))
        self._stamps.settle_dates(self._dtype(self.columns.ds))

    def settle(self) -> tuple[Series, TableForm]:
        """Tell the series and how parts are read.

        Raises:
            TableError: As `read_rows` for the whole table.
        """
        dtypes = {name: self._dtype(name) for name in self._types}
        errors: list[str] = []
        with noted(errors):
            series = self._order.settle()
        dates = self._stamps.settle_dates(dtypes.get(self.columns.ds))
        with noted(errors):
            kind = self._stamps.settle(dates, dtypes.get(self.columns.ds))
        for name, judge in self._numbers.items():
            with noted(errors):
                judge.settle(dtypes.get(name))
        if errors:
            raise TableError(errors)
        form = TableForm(
            columns=tuple(self.source.only),
            unique_id=self.columns.unique_id,
            ds=self.columns.ds,
            kind=kind,
            dates=dates,
            decimal=self.csv.decimal,
            numbers={name: judge.facts for name, judge in self._numbers.items()}
            if isinstance(self.source, CsvSource)
            else None,
            dtypes={name: str(dtypes[name]) for name in self._retyped},
        )
        return series, form

    def _look_at_texts(
        self, block: Block, layout: CsvLayout
    ) -> dict[str, pa.ChunkedArray | pa.Array | None]:
        """Look at columns of text; return them typed, None where they can't be yet."""
        typed: dict[str, pa.ChunkedArray | pa.Array | None] = {}
        for name, judge in self._numbers.items():
            texts = block.table.column(name)
            typed[name] = judge.look_at_texts(texts, block.first_row, name, self.csv.decimal)
            is_target = name == self.columns.y and self.csv.decimal == "."
            if is_target and self._comma is None and not judge.facts.is_plain:
                words = texts.to_pandas()
                place = decimal_comma(words)
                if place is not None:
                    row, word = block.first_row + place, words.iloc[place]
                    self._comma = comma_problem(name, word, row, self.source.name, layout)
        stamps = block.table.column(self.columns.ds).to_pandas().rename(self.columns.ds)
        stamps.index = _rows(block)
        typed[self.columns.ds] = self._stamps.look(stamps)
        return typed

    def _look_at_types(self, block: Block) -> dict[str, pa.Array]:
        """Look at columns that have a type; return those that are shorter otherwise."""
        table = block.table.select([self.columns.ds, *self.numeric])
        for place, column in enumerate(table.columns):
            name = table.column_names[place]
            values = column
            if pa.types.is_dictionary(column.type):
                values = column.cast(column.type.value_type)
                table = table.set_column(place, name, values)
            self._types.setdefault(name, values.type)
            can_change = pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)
            if can_change and values.null_count:
                self._with_nulls.add(name)
                self._retyped |= {name} if values is column else set()
        frame = plain_frame(table)
        frame.index = _rows(block)
        coded = self._stamps.look(frame[self.columns.ds])
        for name, judge in self._numbers.items():
            judge.look(frame[name])
        return {} if coded is None else {self.columns.ds: coded}

    def _keep(
        self, table: pa.Table, typed: Mapping[str, pa.ChunkedArray | pa.Array | None]
    ) -> None:
        """Keep a block's rows, with these columns instead of their own."""
        columns = {name: typed.get(name, table.column(name)) for name in table.column_names}
        if any(column is None for column in columns.values()):
            self.kept.end()
        if not self.kept.is_full:
            is_coded = isinstance(typed.get(self.columns.ds), pa.DictionaryArray)
            self.kept.add(pa.table(columns), coded=[self.columns.ds] if is_coded else [])

    def _dtype(self, name: str) -> object:
        """Tell a column's type in pandas, which hangs on whether there are blanks in it.

        None in CSV, where all columns are text.
        """
        if name not in self._types:
            return None
        blanks = [None] if name in self._with_nulls else []
        table = pa.table({name: pa.array(blanks, self._types[name])})
        return plain_frame(table)[name].dtype


def _rows(block: Block) -> pd.Index:
    return file_rows(range(block.first_row, block.first_row + block.table.num_rows))
