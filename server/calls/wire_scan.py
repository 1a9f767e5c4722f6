"""Counts what a message would unfold to, before it is unfolded.

An empty message within a message is two bytes on the wire and more than a hundred in memory, so 64
MiB may become gigabytes, and a minute, before any check of ours sees one of them. Numbers unfold to
8 bytes each at most; what is counted is everything that may be many times larger than its bytes.
"""

from collections.abc import Mapping
from functools import lru_cache

from google.protobuf.descriptor import (  # type: ignore[import-untyped]  # has no types
    Descriptor,
)

_LONGEST_VARINT = 10  # bytes
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


def count_fields(content: bytes, message: Descriptor, most: int) -> int:
    """Count the fields of a message and of all messages within it; repeated ones count each time.

    What looks like a message and is malformed ends its own count, not that of the others: it may
    lie in a group that the parser doesn't know, and passes over.

    Args:
        content: On the wire; where it is malformed the parser will say so.
        message: What it should be.
        most: Where counting may end, one above it.
    """
    count = 0
    waiting = [(0, len(content), message)]
    while waiting and count <= most:
        at, end, kind = waiting.pop()
        nested = _nested(kind)
        try:
            while at < end and count <= most:
                count += 1
                tag, at = _varint(content, at)
                wire = tag & 7
                if wire == _DELIMITED:
                    size, at = _varint(content, at)
                    if size > end - at:
                        break
                    inner = nested.get(tag >> 3)
                    if inner is not None:
                        waiting.append((at, at + size, inner))
                    at += size
                elif wire == _VARINT:
                    _, at = _varint(content, at)
                else:  # a group's two ends have no content of their own
                    at += {_FIXED64: 8, _FIXED32: 4}.get(wire, 0)
        except (IndexError, ValueError):
            continue
    return count


@lru_cache(maxsize=256)
def _nested(message: Descriptor) -> Mapping[int, Descriptor]:
    """The fields that are messages themselves, by number."""
    return {
        field.number: field.message_type
        for field in message.fields
        if field.message_type is not None
    }


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Read a number; the place behind it too."""
    byte = content[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for place in range(at + 1, at + _LONGEST_VARINT):
        byte = content[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise ValueError("no number is as long")
