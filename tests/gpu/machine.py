"""What checks run on: a device, bundles, and the models that they were exported from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from models import MID

from foretell.data.bundles.bundle import Bundle, read_bundle
from foretell.data.text.tokenizer import EOS, PAD
from foretell.model.run import WEIGHTS_FILE, load_weights, make_translator, translator_config
from foretell.model.seq2seq import Seq2Seq


class Skip(Exception):
    """A check that can't be made here; says why."""


@dataclass(frozen=True)
class Machine:
    """A device and a folder of bundles.

    Attributes:
        device: "cuda", or "cpu" to prove the checks themselves.
        folder: Bundles by name.
    """

    device: str
    folder: Path

    def bundles(self, kind: str) -> Iterator[Bundle]:
        """Read all bundles of a kind, the large ones last."""
        paths = [path.parent for path in self.folder.glob("*/manifest.json")]
        found = sorted(paths, key=lambda path: (path.name.startswith(MID), path.name))
        some = [bundle for bundle in map(read_bundle, found) if bundle.manifest.kind == kind]
        if not some:
            raise Skip(f"{self.folder} holds no {kind}")
        yield from some

    def largest(self, kind: str) -> Bundle:
        """Read the largest bundle of a kind."""
        return max(self.bundles(kind), key=lambda bundle: _size(bundle.path))


def translator_model(bundle: Bundle) -> Seq2Seq:
    """Rebuild the model of a translator's bundle from its weights."""
    spec = bundle.manifest.translator
    assert spec is not None
    model = make_translator(translator_config(spec.arch, bundle.manifest.config))
    load_weights(bundle.path / WEIGHTS_FILE, model)
    return model.eval()


def random_sources(
    vocab_size: int, rows: int, length: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw sources of many lengths, ended and padded on the right."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(max(1, length // 2), length + 1, rows)
    src = rng.integers(4, vocab_size, (rows, length))
    src[np.arange(rows), counts - 1] = EOS
    src_mask = np.arange(length) < counts[:, None]
    return np.where(src_mask, src, PAD), src_mask


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
