"""Arrays and stamp kinds to messages and back, the same on both ends of the wire.

Nothing here raises for what came over the wire: each problem becomes a sentence, so that the caller
can report all of a message's problems at once.
"""

import numpy as np

from foretell.protos.v1.arrays_pb2 import Doubles, Integers, StampKind

STAMP_KINDS: dict[str, StampKind] = {
    "naive": StampKind.STAMP_KIND_NAIVE,
    "zoned": StampKind.STAMP_KIND_ZONED,
    "integer": StampKind.STAMP_KIND_INTEGER,
}
STAMP_KIND_NAMES = {number: name for name, number in STAMP_KINDS.items()}

_ITEM_BYTES = 8


def pack_doubles(values: np.ndarray, *, raw: bool = True) -> Doubles:
    """Pack float64 values of any shape, in C order: raw is fast, values can be read by people."""
    if raw:
        return Doubles(raw=np.ascontiguousarray(values, "<f8").tobytes())
    return Doubles(values=values.ravel().tolist())


def pack_integers(values: np.ndarray, *, raw: bool = True) -> Integers:
    """Pack int64 values of any shape, in C order: raw is fast, values can be read by people."""
    if raw:
        return Integers(raw=np.ascontiguousarray(values, "<i8").tobytes())
    return Integers(values=values.ravel().tolist())


def unpack_doubles(message: Doubles, name: str, problems: list[str]) -> np.ndarray:
    """Unpack to a flat float64 array, read-only where it shares the message's bytes.

    Args:
        message: Values, or raw bytes.
        name: What the message is called in a problem.
        problems: Gets a sentence for each problem; the array is empty then.
    """
    return _unpack(message, name, problems, "<f8").astype(np.float64, copy=False)


def unpack_integers(message: Integers, name: str, problems: list[str]) -> np.ndarray:
    """Unpack to a flat int64 array; see `unpack_doubles`."""
    return _unpack(message, name, problems, "<i8").astype(np.int64, copy=False)


def _unpack(message: Doubles | Integers, name: str, problems: list[str], dtype: str) -> np.ndarray:
    raw = message.raw  # each access copies the bytes: once is enough
    if raw and message.values:
        problems.append(f"{name} has both values and raw; fill one of them.")
    elif len(raw) % _ITEM_BYTES:
        problems.append(
            f"{name}.raw has {len(raw)} bytes, which is no multiple of {_ITEM_BYTES}; "
            "send 8 bytes a number, little-endian."
        )
    elif raw:
        return np.frombuffer(raw, dtype)
    else:
        return np.fromiter(message.values, dtype, len(message.values))
    return np.empty(0, dtype)
