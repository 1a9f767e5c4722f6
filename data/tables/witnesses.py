"""The few rows of a column on which its judgement turns, kept while it goes by in parts."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from foretell.data.series.file_rows import file_rows


@dataclass(slots=True)
class Witnesses:
    """Rows of one column, each kept for what it shows.

    Attributes:
        name: Of the column.
        dtype: Of its first part.
    """

    name: Any = None
    dtype: Any = None
    _kept: dict[str, tuple[int, Any]] = field(default_factory=dict)

    def __contains__(self, shows: str) -> bool:
        return shows in self._kept

    def begin(self, part: pd.Series) -> None:
        """Note the name and type of a part."""
        self.name = part.name
        self.dtype = part.dtype if self.dtype is None else self.dtype

    def keep(self, shows: str, part: pd.Series, place: int) -> None:
        """Keep a row, unless an earlier one shows the same."""
        if shows not in self._kept:
            self.replace(shows, part, place)

    def replace(self, shows: str, part: pd.Series, place: int) -> None:
        """Keep a row instead of an earlier one that shows the same."""
        self._kept[shows] = int(part.index[place]), part.iloc[place]

    def value(self, shows: str) -> Any:
        """Tell what stands in a row that was kept."""
        return self._kept[shows][1]

    def column(self, dtype: Any = None) -> pd.Series:
        """Make a column of the rows that were kept, with their numbers in the file.

        Args:
            dtype: Of the whole column; None for that of its first part.
        """
        rows = dict(self._kept.values())
        places = sorted(rows)
        dtype = self.dtype if dtype is None else dtype
        values = [rows[place] for place in places]
        column: pd.Series = pd.Series(values, index=file_rows(places), name=self.name, dtype=dtype)
        return column
