"""An external sort: rows that stand anywhere in a file, put into files on disk by chunk.

Some 100 MiB of rows at a time are sorted by chunk and written to a file of their own, a record
batch a chunk. A chunk is then read as its batches from all these files: in order of the input, with
one seek a file, and nothing is merged.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from foretell.data.errors import TableError
from foretell.data.tables.blocks import Source
from foretell.data.tables.series_order import find_ids, plain_ids
from foretell.data.tables.spools import writing_told
from foretell.data.tables.table_read import Heard, nobody

RUN_BYTES = 96 << 20
_ROW = "foretell_file_row"


@dataclass(frozen=True, slots=True)
class ChunkFiles:
    """Files of rows sorted by chunk.

    Attributes:
        files: In order of the input.
        sizes: Of the files, in bytes.
    """

    files: tuple[Path, ...]
    sizes: tuple[int, ...]

    def read(self, number: int) -> tuple[pa.Table, Int64[np.ndarray, " N"]]:
        """Read the rows of a chunk, and their numbers in the input.

        Raises:
            TableError: A file is gone or has changed.
        """
        tables = []
        for file, size in zip(self.files, self.sizes, strict=True):
            try:
                if file.stat().st_size != size:
                    raise TableError(
                        f"{file} has changed since it was written; start the job anew."
                    )
                with pa.OSFile(str(file)) as source:
                    batch = pa.ipc.open_file(source).get_batch(number)
            except (OSError, pa.ArrowException) as error:
                raise TableError(
                    f"{file}, which holds sorted rows, can't be read ({error}); start the job anew."
                ) from error
            tables.append(pa.Table.from_batches([batch]))
        table = pa.concat_tables(tables)
        rows = table.column(_ROW).to_numpy()
        return table.drop_columns([_ROW]), rows


def sort_rows(
    source: Source,
    id_column: str,
    known: pa.Array,
    chunk_of: Int64[np.ndarray, " n"],
    num_chunks: int,
    *,
    folder: Path,
    name: str,
    tell: Callable[[str], None],
    heard: Heard = nobody,
) -> ChunkFiles:
    """Write the rows of a table to files, sorted by chunk.

    Args:
        source: The table, which has been gone through once.
        id_column: Name of its id column.
        known: All ids, as `plain_ids` makes them.
        chunk_of: The chunk of each of them; -1 leaves its rows out.
        num_chunks: How many chunks there are.
        folder: Where the files go.
        name: How their names begin.
        tell: Is told what it costs.
        heard: See `Source.blocks`.

    Raises:
        TableError: The table has changed, or the folder can't hold the files.
    """
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    gathered: list[pa.Table] = []

    def write() -> None:
        table = pa.concat_tables(gathered)
        gathered.clear()
        numbers = find_ids(plain_ids(table.column(id_column)), known)
        if (numbers < 0).any():
            raise TableError(f"{source.name} has changed since the job began; start the job anew.")
        files.append(folder / f"{name}-{len(files)}.arrow")
        _write(table, chunk_of[numbers], num_chunks, files[-1])

    for block in source.blocks(heard):
        rows = np.arange(block.first_row, block.first_row + block.table.num_rows)
        gathered.append(block.table.append_column(_ROW, pa.array(rows)))
        if sum(table.nbytes for table in gathered) >= RUN_BYTES:
            write()
    if gathered:
        write()
    sizes = tuple(file.stat().st_size for file in files)
    tell(
        f"sorted the rows of {source.name} into {folder} ({sum(sizes) / 1e6:,.1f} MB, "
        f"{time.monotonic() - began:.1f} s)"
    )
    return ChunkFiles(tuple(files), sizes)


def _write(table: pa.Table, chunks: Int64[np.ndarray, " N"], num_chunks: int, file: Path) -> None:
    # Numbers of 16 bits are sorted several times faster, and keep their order here: -1 comes first.
    keys = chunks.astype(np.int16) if num_chunks < 1 << 15 else chunks
    order = np.argsort(keys, kind="stable")
    bounds = np.searchsorted(chunks[order], np.arange(num_chunks + 1))
    order = order[bounds[0] :]  # what belongs to no chunk comes first
    bounds -= bounds[0]
    batch = table.unify_dictionaries().combine_chunks().take(pa.array(order))
    batch = batch.unify_dictionaries().combine_chunks()
    schema = batch.schema.remove_metadata()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    empty = pa.RecordBatch.from_pylist([], schema)
    with (
        writing_told(file.parent),
        pa.OSFile(str(file), "wb") as sink,
        pa.ipc.new_file(sink, schema, options=options) as writer,
    ):
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            piece = batch.slice(start, end - start).to_batches()
            writer.write_batch(piece[0] if piece else empty)
