"""A bundle's own sample: one request and its answer, run again where the bundle is to serve."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from foretell.data.bundle import Bundle
from foretell.data.errors import BundleError
from foretell.runtime.session import Session

SAMPLE_FILE = "sample.json"
# Kernels differ between processors; a wrong graph differs by far more.
TOLERANCE = 1e-3


def check_sample(bundle: Bundle, session: Session) -> float:
    """Run the sample, which also warms the session up.

    Args:
        bundle: A verified bundle.
        session: Its graph.

    Returns:
        The largest difference to the stored answer, relative to the largest stored value.

    Raises:
        BundleError: There is no sample, or the answer differs.
    """
    if SAMPLE_FILE not in bundle.manifest.files:
        raise BundleError(f"bundle {bundle.path} has no {SAMPLE_FILE}; export the model again.")
    sample = json.loads((bundle.path / SAMPLE_FILE).read_bytes())
    expected = np.array(sample["quantiles"])
    found = session.run(_inputs(sample))["quantiles"].ravel()
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    if not difference <= TOLERANCE:
        raise BundleError(
            f"bundle {bundle.path}: the answer to its own sample differs by {difference:.2g} of "
            f"the stored one on {session.provider}; at most {TOLERANCE:g} is allowed."
        )
    return difference


def write_sample(folder: Path, inputs: dict[str, np.ndarray], quantiles: np.ndarray) -> None:
    """Store a request and its answer in a bundle's folder."""
    sample: dict[str, Any] = {
        "inputs": {
            name: {
                "shape": list(array.shape),
                "values": [None if np.isnan(x) else x for x in array.ravel().tolist()],
            }
            for name, array in inputs.items()
        },
        "quantiles": quantiles.ravel().tolist(),
    }
    (folder / SAMPLE_FILE).write_text(json.dumps(sample, indent=1, allow_nan=False) + "\n")


def _inputs(sample: dict[str, Any]) -> dict[str, np.ndarray]:
    return {
        name: np.array(array["values"], dtype=np.float64).reshape(array["shape"])
        for name, array in sample["inputs"].items()
    }
