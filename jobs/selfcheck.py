"""The sample in a bundle, one request and its answer: does this machine compute the same?"""

import json
from dataclasses import dataclass

import numpy as np

from foretell.data.bundle import Bundle
from foretell.data.errors import BundleError
from foretell.runtime.forecaster import GRAPH_FILE
from foretell.runtime.session import Session

SAMPLE_FILE = "sample.json"
# Other processors and libraries add in another order; far below what a forecast means.
_RELATIVE_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """A self-check that held.

    Attributes:
        provider: The onnxruntime provider that computed it.
        largest_difference: Largest difference, relative to the spread of the sample's context.
    """

    provider: str
    largest_difference: float


def self_check(bundle: Bundle, *, device: str = "auto", threads: int | None = None) -> SelfCheck:
    """Answer a bundle's sample and compare with the answer that lies beside it.

    Raises:
        BundleError: There is no sample, or the answer differs.
        DeviceError: The device can't be had.
    """
    if SAMPLE_FILE not in bundle.manifest.files:
        raise BundleError(f"bundle {bundle.path} has no {SAMPLE_FILE}; export the model again.")
    sample = json.loads((bundle.path / SAMPLE_FILE).read_bytes())
    inputs = {
        name: np.array(values, dtype=np.float64).reshape(sample["shapes"][name])
        for name, values in sample["inputs"].items()
    }
    session = Session(bundle, GRAPH_FILE, device=device, threads=threads)
    quantiles = session.run(inputs)["quantiles"].ravel()
    scale = np.nanstd(inputs["context"])
    difference = float(np.abs(quantiles - sample["quantiles"]).max() / scale)
    if not difference <= _RELATIVE_TOLERANCE:
        raise BundleError(
            f"bundle {bundle.path}: the sample's answer differs by {difference:.3g} of the series' "
            f"spread on {session.provider}; at most {_RELATIVE_TOLERANCE:g} is right. Update "
            "onnxruntime, or export the model again."
        )
    return SelfCheck(session.provider, difference)
