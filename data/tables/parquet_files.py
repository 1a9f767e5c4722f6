"""Parquet files and folders: they keep their types, and nothing but their columns is used."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from foretell.data.calendars.zones import check_zone
from foretell.data.errors import TableError

_MOST_NAMED = 10  # columns of files


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
    dataset = open_dataset(find_parquet(path), path)
    return _to_pandas(dataset.to_table(), path)


def find_parquet(path: Path) -> list[Path]:
    """List a Parquet file, or those of a folder and all folders in it, in order of their names.

    As other tools do, what is named `.x` or `_x` is left aside: their own notes, half-written files
    and copies. `_x=1` is a column.

    Raises:
        TableError: The folder holds none.
    """
    if not path.is_dir():
        return [path]
    found = sorted(path.rglob("*.parquet"))
    files = [file for file in found if not any(map(_is_hidden, file.relative_to(path).parts))]
    if not files:
        raise TableError(f"folder {path} holds no .parquet files; give a file or another folder.")
    return files


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def open_dataset(
    files: list[Path],
    path: Path,
    schema: pa.Schema | None = None,
    *,
    wanted: Sequence[str] | None = None,
) -> pads.Dataset:
    """Open Parquet files as one table; folders named key=value become text columns.

    Args:
        files: The files.
        path: The one file, or the folder that holds them all.
        schema: Of the whole table; None takes that of the first file.
        wanted: Columns that will be read; None is all of them.

    Raises:
        TableError: Columns have the same name, or other types in other files.
    """
    if schema is None:
        _refuse_other_types(files, wanted)
    base = path if path.is_dir() else path.parent
    folders = set()
    if path.is_dir():
        folders = {part for file in files for part in file.relative_to(path).parts[:-1]}
    keys = sorted({part.split("=", 1)[0] for part in folders if "=" in part})
    # Typed as text, or 007 would be read as 7.
    partitioning = pads.partitioning(pa.schema([(key, pa.string()) for key in keys]), flavor="hive")
    try:
        return pads.dataset(
            [str(file) for file in files],
            schema=schema,
            # Whole row groups may be larger than memory. Sums of pages, where the writer made them
            # (Spark does), find wrong numbers that nothing else could.
            format=pads.ParquetFileFormat(
                pre_buffer=False, use_buffered_stream=True, page_checksum_verification=True
            ),
            partitioning=partitioning if keys else None,
            partition_base_dir=str(base),
        )
    except pa.ArrowInvalid:
        for file in files:
            _refuse_twice(pq.read_schema(file).names, file)
        raise


def _refuse_other_types(files: list[Path], wanted: Sequence[str] | None) -> None:
    """Refuse columns that would be read as what they are not: the id "007" as 7, 3 as a date."""
    first: dict[str, tuple[pa.DataType, Path]] = {}
    problems = []
    for file in files if len(files) > 1 else []:
        try:
            columns = pq.read_schema(file)
        except (pa.ArrowException, OSError):  # whoever reads the rows tells it
            continue
        for column in columns:
            is_wanted = wanted is None or column.name in wanted
            if not is_wanted or pa.types.is_null(column.type):
                continue
            was, before = first.setdefault(column.name, (column.type, file))
            if _kind(was) != _kind(column.type):
                problems.append(
                    f"{file} has {column.name!r} as {column.type}, {before} as {was}; write all "
                    "files with one type."
                )
    if problems:
        raise TableError(problems[:_MOST_NAMED])


def _kind(of: pa.DataType) -> object:
    """What types have in common whose values are the same in both."""
    types = pa.types
    if types.is_dictionary(of):
        return _kind(of.value_type)
    if types.is_integer(of) or types.is_floating(of) or types.is_decimal(of):
        return "number"
    if types.is_string(of) or types.is_large_string(of) or types.is_string_view(of):
        return "text"
    if types.is_timestamp(of):
        return "time" if of.tz is None else "time of a zone"
    return "time" if types.is_date(of) else of


def _refuse_twice(names: list[str], path: Path) -> None:
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        raise TableError(
            f"{path} has several columns named {', '.join(map(repr, twice))}; keep one of each."
        )


def _to_pandas(table: pa.Table, path: Path) -> pd.DataFrame:
    check_zones(table.schema, str(path))
    # Damage that the format has no sum for would be found much later, as text that is none.
    table.validate(full=True)
    return plain_frame(table)


def check_zones(schema: pa.Schema, name: str) -> None:
    """Refuse columns with a time zone that is none.

    Raises:
        TableError: There is one.
    """
    for column in schema:
        if pa.types.is_timestamp(column.type) and column.type.tz:
            try:
                check_zone(column.type.tz)
            except TableError as error:
                raise TableError(f"column {column.name!r} of {name}: {error}") from error


def plain_frame(table: pa.Table) -> pd.DataFrame:
    """Turn a table into a DataFrame of the same columns, whatever pandas stored beside them.

    That is not needed: an index comes back as the column it was.
    """
    plain = table.replace_schema_metadata(None)
    frame: pd.DataFrame = plain.to_pandas(date_as_object=False, ignore_metadata=True)
    return frame
