"""JSON and files that are known by their sums: what has changed on disk is told, and not used."""

import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foretell.data.bundles.manifest import Manifest

FINGERPRINT = "sha256:"
_SUM = "crc32"


def sealed(values: Mapping[str, Any]) -> bytes:
    """Write JSON values as a line, with the CRC-32 of what it is without that."""
    return json.dumps({**values, _SUM: _sum(values)}).encode() + b"\n"


def unsealed(line: bytes) -> dict[str, Any] | None:
    """Read such a line; None where it is not as it was written."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    found = values.pop(_SUM, None)
    return values if found == _sum(values) else None


def fingerprint(values: Mapping[str, Any]) -> str:
    """Name JSON values by a hash, for what is too long to be told when it has changed."""
    text = json.dumps(values, sort_keys=True)
    return FINGERPRINT + hashlib.sha256(text.encode()).hexdigest()


def model_fingerprint(manifest: Manifest) -> str:
    """Name a model by a hash of all that its manifest says."""
    return fingerprint(json.loads(manifest.to_json()))


def file_fingerprint(path: Path) -> str:
    """Name the bytes of a file by a hash."""
    with path.open("rb") as file:
        return FINGERPRINT + hashlib.file_digest(file, "sha256").hexdigest()


def _sum(values: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(values).encode())
