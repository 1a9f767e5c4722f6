"""A table cut into chunks of whole series, so that it may be larger than memory.

`plan_table` looks at the whole input once; `TablePlan.read` then reads any chunk alone, in any
order, by any thread, process or machine that sees the files.
"""

import hashlib
import itertools
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from foretell.data.csv_files import CsvFormat
from foretell.data.ids import read_ids
from foretell.data.options import Columns
from foretell.data.reading import read_table

MOST_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """Where a chunk stands.

    Attributes:
        number: Of the chunk, from 0.
        first_series: Place of its first series among all, by first appearance, from 0.
        num_series: Series in it.
        num_rows: Rows of history in it.
    """

    number: int
    first_series: int
    num_series: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class TableChunk:
    """Some whole series of a table.

    Attributes:
        table: Their history, the rows of each series together.
        future: Their rows of the future table, maybe none of them; None where there is no such
            table.
        first_series: Place of the first series among all, by first appearance, from 0.
    """

    table: pd.DataFrame
    future: pd.DataFrame | None
    first_series: int


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How a table is read in chunks; a small value that can be pickled.

    Attributes:
        num_rows: Rows of history.
        num_series: Series.
        is_partitioned: Whether the rows of a series stood apart and were sorted into files.
        partition_bytes: Size of these files.
        fingerprint: SHA-256 over the bytes of all input.
        chunks: In order of first appearance of their series.
        warnings: What of the input is not used, a sentence each.
    """

    num_rows: int
    num_series: int
    is_partitioned: bool
    partition_bytes: int
    fingerprint: str
    chunks: tuple[ChunkRef, ...]
    warnings: tuple[str, ...]
    _work: Path

    def read(self, number: int) -> TableChunk:
        """Read one chunk.

        Raises:
            TableError: The input has changed, has vanished, or can't be read.
        """
        table, future = pickle.loads((self._work / f"chunk{number}").read_bytes())
        return TableChunk(table, future, self.chunks[number].first_series)


def plan_table(
    data: str | Path,
    *,
    future: str | Path | None = None,
    csv: CsvFormat,
    columns: Columns,
    work: Path,
    most_rows: int = MOST_ROWS,
    tell: Callable[[str], None] | None = None,
) -> TablePlan:
    """Look at a table as a whole, and cut it into chunks of whole series.

    Args:
        data: Path of the table; "-" is CSV on standard input.
        future: Path of the table of known-future covariates, if there is one.
        csv: How CSV files are written.
        columns: Names of the columns; no others are read.
        work: Folder for what must be kept on disk.
        most_rows: Rows of a chunk, unless one series has more.
        tell: Is told what takes long.

    Raises:
        TableError: As `read_table`.
    """
    table = read_table(data, csv=csv, columns=columns)
    ahead = None if future is None else read_table(future, csv=csv, columns=columns)
    codes, ids = read_ids(table[columns.unique_id])
    counts = np.bincount(codes)
    starts, total = [0], 0
    for place, count in enumerate(counts.tolist()):
        if total and total + count > most_rows:
            starts.append(place)
            total = 0
        total += count
    work.mkdir(parents=True, exist_ok=True)
    refs = []
    for number, (first, end) in enumerate(itertools.pairwise([*starts, len(counts)])):
        rows = np.flatnonzero((codes >= first) & (codes < end))
        rows = rows[np.argsort(codes[rows], kind="stable")]
        own = None
        if ahead is not None:
            own = ahead[ahead[columns.unique_id].isin(ids[first:end])]
        (work / f"chunk{number}").write_bytes(pickle.dumps((table.iloc[rows], own)))
        refs.append(ChunkRef(number, first, end - first, len(rows)))
    digest = hashlib.sha256()
    for path in (data, future):
        if path is not None and Path(path).is_file():
            digest.update(Path(path).read_bytes())
    return TablePlan(len(table), len(counts), False, 0, digest.hexdigest(), tuple(refs), (), work)
