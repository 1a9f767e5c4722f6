"""Parquet files and folders: they keep their types, and nothing but their columns is used."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from foretell.data.errors import TableError
from foretell.data.zones import check_zone


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file, or all those of a folder; folders named key=value become text columns.

    Raises:
        TableError: The folder holds no Parquet files, columns have the same name, or a column has a
            time zone that is none.
    """
    if not path.is_dir():
        with pq.ParquetFile(path) as file:
            _refuse_twice(file.schema_arrow.names, path)
            return _to_pandas(file.read(), path)
    files = sorted(path.rglob("*.parquet"))
    if not files:
        raise TableError(f"folder {path} holds no .parquet files; give a file or another folder.")
    folders = {part for file in files for part in file.relative_to(path).parts[:-1]}
    keys = sorted({part.split("=", 1)[0] for part in folders if "=" in part})
    # Typed as text, or 007 would be read as 7.
    partitioning = pads.partitioning(pa.schema([(key, pa.string()) for key in keys]), flavor="hive")
    try:
        dataset = pads.dataset(
            [str(file) for file in files],
            format="parquet",
            partitioning=partitioning if keys else None,
            partition_base_dir=str(path),
        )
    except pa.ArrowInvalid:
        for file in files:
            _refuse_twice(pq.read_schema(file).names, file)
        raise
    return _to_pandas(dataset.to_table(), path)


def _refuse_twice(names: list[str], path: Path) -> None:
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise TableError(
            f"{path} has several columns named {', '.join(map(repr, twice))}; keep one of each."
        )


def _to_pandas(table: pa.Table, path: Path) -> pd.DataFrame:
    for column in table.schema:
        if pa.types.is_timestamp(column.type) and column.type.tz:
            try:
                check_zone(column.type.tz)
            except TableError as error:
                raise TableError(f"column {column.name!r} of {path}: {error}") from error
    # Damage that the format has no sum for would be found much later, as text that is none.
    table.validate(full=True)
    # What pandas stored beside the columns is not needed: an index comes back as the column it was.
    plain = table.replace_schema_metadata(None)
    frame: pd.DataFrame = plain.to_pandas(date_as_object=False, ignore_metadata=True)
    return frame
