"""Standard input as it comes: text, that can be read once; packed bytes are no text."""

import sys
from io import BufferedReader

GZIP = b"\x1f\x8b"  # how a file starts that is packed by gzip


def packed_problem() -> str | None:
    """Tell that standard input is packed by gzip; None where it isn't.

    Waits for the first bytes, and leaves them to whoever reads.
    """
    stream = sys.stdin.buffer
    if not isinstance(stream, BufferedReader) or not stream.peek(len(GZIP)).startswith(GZIP):
        return None
    return (
        "standard input is packed by gzip, and is read as it comes; unpack it on the way "
        "(zcat FILE | foretell ...), or give the path of the packed file instead of -."
    )
