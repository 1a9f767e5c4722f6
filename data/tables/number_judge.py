"""What a whole column of numbers holds, told from its parts by a few of its rows.

As in `foretell.data.tables.stamp_judge`, the rows that decide are read at the end as if they were
the whole column, so that a column of text or of another type is refused in the words of
`foretell.data.series.values`.
"""

from typing import Any

import pandas as pd
import pyarrow as pa

from foretell.data.series.file_rows import file_rows
from foretell.data.series.values import is_text, read_numbers
from foretell.data.tables.csv_numbers import NumberFacts, look_at_numbers
from foretell.data.tables.witnesses import Witnesses


class NumberJudge:
    """Judges a column that must hold numbers, part by part.

    Attributes:
        facts: What a CSV file's column holds.
    """

    def __init__(self) -> None:
        self.facts = NumberFacts()
        self._witnesses = Witnesses()
        self._is_text_file = False

    def look_at_texts(
        self, texts: pa.ChunkedArray, first_row: int, name: str, decimal: str
    ) -> pa.ChunkedArray | None:
        """Look at one more part of a CSV file; return its numbers where there is nothing else."""
        self._is_text_file = True
        facts, numbers = look_at_numbers(texts, decimal)
        self.facts |= facts
        if not self.facts.has_number:
            column: pd.Series = texts.to_pandas()
            column.index = file_rows(range(first_row, first_row + len(column)))
            self.look(column.rename(name))
        return numbers

    def look(self, column: pd.Series) -> None:
        """Look at one more part, whose index tells its rows in the file."""
        self._witnesses.begin(column)
        self._keep("first", column)
        if not is_text(column):  # its type decides
            return
        present = column.dropna()
        self._keep("present", present)
        if "wrong" not in self._witnesses:
            parsed = pd.to_numeric(present, errors="coerce")
            self._keep("wrong", present[parsed.isna() & (present.str.strip() != "")])

    def settle(self, dtype: Any = None) -> None:
        """Refuse the column if it can't be numbers.

        Args:
            dtype: Type of the whole column, where it isn't that of its first part.

        Raises:
            TableError: As `read_numbers` for the whole column.
        """
        if not self._is_text_file or self.facts.is_words:
            read_numbers(self._witnesses.column(dtype))

    def _keep(self, shows: str, found: pd.Series) -> None:
        if len(found):
            self._witnesses.keep(shows, found, 0)
