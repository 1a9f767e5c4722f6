"""Text that somebody else chose, in messages of ours."""

_MOST = 128  # characters, which every name that may be given fits into


def quoted(text: str) -> str:
    """Write it in quotes, on one line, and of a long one the beginning: `'sales...'`."""
    return repr(text if len(text) <= _MOST else f"{text[:_MOST]}...")
