"""Lines in chunks that fit the memory; from a pipe as they come."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from foretell.data.text.lines import Line, arriving_lines

T = TypeVar("T")


def line_chunks(source: str, *, most_lines: int, eager: bool = False) -> Iterator[list[Line]]:
    """Read lines in chunks, none of them empty.

    Args:
        source: A text file, or "-" for standard input.
        most_lines: Most lines of a chunk.
        eager: Hand out the lines that are there instead of waiting until a chunk is full.

    Raises:
        TextError: It can't be read.
    """
    arriving = arriving_lines(source)
    for lines in arriving if eager else (chain.from_iterable(arriving),):
        yield from in_chunks(lines, most_lines, lambda line: len(line.text))


def in_chunks(
    items: Iterable[T], most: int, size: Callable[[T], int], most_size: int = 1 << 22
) -> Iterator[list[T]]:
    """Gather items in chunks, none of them empty.

    Args:
        items: What comes one by one.
        most: Most items of a chunk.
        size: Measures an item.
        most_size: A chunk of this size is full, however few its items are.
    """
    chunk: list[T] = []
    sum_of_sizes = 0
    for item in items:
        chunk.append(item)
        sum_of_sizes += size(item)
        if len(chunk) == most or sum_of_sizes >= most_size:
            yield chunk
            chunk, sum_of_sizes = [], 0
    if chunk:
        yield chunk
