"""Ids at the door: anything that can be told apart, in the caller's own type."""

import numpy as np
import pandas as pd
from jaxtyping import Int64

from foretell.data.errors import TableError
from foretell.data.series.file_rows import row_of

MOST_NAMED = 5


def read_ids(column: pd.Series) -> tuple[Int64[np.ndarray, " N"], pd.Index]:
    """Number the series of a column of ids.

    Returns:
        The number of each row's series, and the ids in order of first appearance, of the column's
        type; categories that no row has are gone.

    Raises:
        TableError: Values can't be ids, or rows have none: they may belong to any series, so none
            can be trusted to be whole.
    """
    try:
        codes, ids = pd.factorize(column)
    except TypeError as error:
        raise TableError(
            f"id column {column.name!r} holds values that can't be ids ({error}); "
            "use text or integers."
        ) from error
    ids = pd.Index(ids)
    if isinstance(ids, pd.CategoricalIndex):
        ids = ids.remove_unused_categories()
    names = ids.tolist()
    blank = np.array([isinstance(name, str) and not name.strip() for name in names] + [True])
    missing = np.flatnonzero(blank[codes])  # a missing value has the code -1
    if missing.size:
        rows = [row_of(column, row) for row in missing[:MOST_NAMED].tolist()]
        raise TableError(blank_ids(column.name, rows, missing.size))
    return codes.astype(np.int64), ids


def blank_ids(column: object, rows: list[str], count: int) -> str:
    """Say that rows have no id, naming the first `MOST_NAMED` of them."""
    more = f" and {count - MOST_NAMED} more rows" if count > MOST_NAMED else ""
    return (
        f"id column {column!r} is blank in {', '.join(rows)}{more}; these rows may belong to any "
        "series. Give each row its id."
    )


def id_at(ids: pd.Index, place: int) -> object:
    """Take one id, as Python writes it: 17, not np.int64(17)."""
    name: object = ids[place]
    return name.item() if isinstance(name, np.generic) else name
