"""Opens any input as a file that can be gone through and read in spans; copies what can't be."""

from collections.abc import Callable, Sequence
from pathlib import Path

from foretell.data.series.options import Columns
from foretell.data.tables.blocks import Source
from foretell.data.tables.csv_files import HEAD_BYTES, CsvFormat, read_layout
from foretell.data.tables.csv_source import CsvSource
from foretell.data.tables.parquet_source import ParquetSource
from foretell.data.tables.reading import kind_of, name_of, opened
from foretell.data.tables.spools import spool
from foretell.data.tables.table_read import nobody


def open_source(
    path: str | Path,
    wanted: Sequence[str],
    *,
    csv: CsvFormat,
    columns: Columns,
    copy: Path,
    tell: Callable[[str], None],
    seen: Callable[[int], object] = nobody,
) -> Source:
    """Open a table.

    Args:
        path: A CSV file (also gzipped), a pipe, "-" for standard input, a Parquet file or folder.
        wanted: Columns to read, where they are there.
        csv: How CSV is written.
        columns: Names of the columns.
        copy: Where a copy goes, of bytes that can be read only once, or only from the beginning.
        tell: Is told of the copy.
        seen: Is told how many bytes of it are there.

    Raises:
        TableError: It is no table, or the copy can't be written.
        OSError, pyarrow.ArrowException: It can't be read.
    """
    kind, name = kind_of(path), name_of(path)
    if kind == "parquet":
        return ParquetSource.open(Path(path), wanted)
    plain = Path(path).absolute()  # other processes may stand elsewhere
    if kind != "csv":
        with opened(path, kind) as file:
            spool(file.read, copy, seen)
        plain = copy.absolute()
        tell(f"copied {name} to {copy} ({copy.stat().st_size / 1e6:,.1f} MB)")
    with plain.open("rb") as file:
        layout = read_layout(file.read(HEAD_BYTES), name, csv, columns)
    return CsvSource(name, plain, layout, tuple(one for one in layout.names if one in wanted))
