"""Where a loaded model comes from: what its pickle holds, and how it is loaded from that again."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from foretell.data.bundles.bundle import Bundle, read_bundle
from foretell.data.bundles.manifest import Manifest
from foretell.data.errors import BundleError


@dataclass(frozen=True, slots=True)
class Origin:
    """A bundle by its path, pinned to what stood there; some hundred bytes when pickled.

    Attributes:
        path: The bundle's folder, absolute.
        device: As it was asked for: "auto" may be another device elsewhere.
        threads: As they were asked for: None takes the cores allowed where it is loaded.
        manifest_sha256: Of the manifest, which holds the hash of every other file.
    """

    path: Path
    device: str
    threads: int | None
    manifest_sha256: str

    @classmethod
    def of(cls, bundle: Bundle, device: str, threads: int | None) -> "Origin":
        """Note where a bundle that has been read stands, and what it is."""
        return cls(bundle.path, device, threads, _sha256(bundle.manifest))

    def read(self) -> Bundle:
        """Read the same bundle again, maybe on another machine.

        Raises:
            BundleError: It isn't there or is damaged, or another one stands there by now: answers
                of two models must not be mixed without a word.
        """
        try:
            bundle = read_bundle(self.path)
        except BundleError as error:
            raise BundleError(
                [
                    f"the bundle of a pickled model can't be read from {self.path}, where it was "
                    "loaded:",
                    *error.problems,
                    "A pickle holds the path, not the model: put the bundle at this path on every "
                    "machine that unpickles it.",
                ]
            ) from error
        found = _sha256(bundle.manifest)
        if found != self.manifest_sha256:
            raise BundleError(
                f"bundle {self.path} is not the one that was pickled: the SHA-256 of its manifest "
                f"is {found[:12]}..., that of the pickled one {self.manifest_sha256[:12]}... . "
                "Put that one back, or load the new one and pickle it anew."
            )
        return bundle


def _sha256(manifest: Manifest) -> str:
    return hashlib.sha256(manifest.to_json().encode()).hexdigest()
