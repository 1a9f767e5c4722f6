"""Bytes packed by gzip: the same bytes packed are the same file, however they come."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

_BLOCK_BYTES = 1 << 18


@contextmanager
def packed_writer(file: IO[bytes]) -> Iterator[Callable[[bytes], None]]:
    """Hand out what writes into a packed file.

    The packer gets blocks of one size, and neither name nor time is written.
    """
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        waiting = bytearray()

        def write(content: bytes) -> None:
            waiting.extend(content)
            while len(waiting) >= _BLOCK_BYTES:
                packed.write(waiting[:_BLOCK_BYTES])
                del waiting[:_BLOCK_BYTES]

        yield write
        packed.write(waiting)
