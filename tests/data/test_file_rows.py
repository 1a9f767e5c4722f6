"""A part of a table: its rows are those of the file, and what the whole has settled holds."""

import numpy as np
import pandas as pd
import pytest

from foretell.data.errors import TableError
from foretell.data.series.file_rows import file_rows, settle
from foretell.data.series.options import Columns
from foretell.data.series.rows import read_future_rows, read_rows


def part(rows: list[tuple[str, str, object]], kind: str) -> pd.DataFrame:
    """Make a part that stands 1,000 rows down in its file."""
    table = pd.DataFrame(rows, columns=["unique_id", "ds", "y"])
    table.index = file_rows(np.arange(1000, 1000 + len(table)))
    settle(table, kind)
    return table


def test_messages_name_rows_of_the_file_and_else_places_in_the_table() -> None:
    """A table that a caller has filtered keeps its old index, which says nothing to a reader."""
    table = part([("a", "2024-01-01", 1.0), ("a", "soon", 2.0)], "naive")
    assert "in row 1002, which is no ISO date" in read_rows(table, Columns()).refusals[0].reason
    table.index = pd.Index([7, 9])
    assert "in row 2, which is no ISO date" in read_rows(table, Columns()).refusals[0].reason


def test_what_the_whole_column_is_no_part_decides_again() -> None:
    """Else one chunk would be refused as a table, for its luck."""
    words = part([("a", "2024-01-01", "n/k")], "naive")
    assert "'n/k' (str) in row 1001" in read_rows(words, Columns()).refusals[0].reason
    no_dates = part([("a", "soon", 1.0)], "zoned")
    assert read_rows(no_dates, Columns(time_zone="Europe/Berlin")).stamp_kind == "zoned"
    steps = part([("a", "20240101", 1.0), ("a", "20240102", 1.0)], "integer")
    assert read_rows(steps, Columns()).stamps.tolist() == [20240101, 20240102]
    for table in (words, no_dates, steps):
        with pytest.raises(TableError):
            read_rows(pd.DataFrame(table.to_dict("list")), Columns())


def test_a_part_of_the_future_may_be_empty() -> None:
    """Its series are refused one by one then, as in the whole table."""
    empty = part([("a", "2024-01-01", 1.0)], "naive").iloc[:0]
    rows = read_future_rows(empty, Columns())
    assert (len(rows.ids), rows.stamp_kind) == (0, "naive")
