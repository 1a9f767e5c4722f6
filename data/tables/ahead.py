"""The next piece of a file is made while one is looked at."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Piece = TypeVar("Piece")


def ahead(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Go through pieces, one ahead in a thread of its own; errors come where they would without it.

    Reading, hashing, parsing and comparing let Python's lock go, so they share the cores.
    """
    source = iter(pieces)
    with ThreadPoolExecutor(1, thread_name_prefix="foretell-ahead") as thread:
        soon = thread.submit(_next_of, source)
        while found := soon.result():
            soon = thread.submit(_next_of, source)
            yield from found


def _next_of(source: Iterator[Piece]) -> list[Piece]:
    return list(islice(source, 1))
