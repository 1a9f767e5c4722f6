"""What int8 saves: size and speed of float32 and int8 graphs of one model, side by side.

    python tests/benchmarks/int8.py FP32_BUNDLE...

Each bundle's graphs are rewritten in a temporary folder as `export --precision int8` does (without
its gate), and both are timed in turns, on one thread: a forecaster through the runtime's batches, a
translator's searches to a fixed length. What int8 costs in accuracy the export itself measures.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from foretell.data.bundles.bundle import Bundle, Manifest, read_bundle, resolve_bundle, write_bundle
from foretell.data.text.tokenizer import EOS
from foretell.data.text.translation import TranslateOptions
from foretell.export.forecaster_proof import through_runtime
from foretell.export.int8 import quantise_graph
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import search
from foretell.runtime.session import Session

TURNS = 7
SOURCE = TOKENS = 16


def in_int8(bundle: Bundle, target: Path) -> Bundle:
    """Write the same bundle with int8 graphs."""

    def fill(folder: Path) -> Manifest:
        for name in bundle.manifest.files:
            shutil.copyfile(bundle.path / name, folder / name)
        for graph in bundle.manifest.graphs:
            quantise_graph(folder / graph.file)
        return replace(bundle.manifest, precision="int8", files={})

    return write_bundle(target, fill)


def forecasts(sides: list[Bundle], count: int) -> list[Callable[[], object]]:
    """Ways to forecast so many series."""
    spec = sides[0].manifest.forecaster
    assert spec is not None
    context = np.random.default_rng(0).normal(size=(count, spec.context_length)).cumsum(axis=1)
    inputs = {"context": context, "horizon_placeholder": np.full((count, spec.horizon), np.nan)}
    sessions = [Session(one, "forecaster.onnx", device="cpu", threads=1) for one in sides]
    return [lambda s=one: through_runtime(s, spec, inputs) for one in sessions]


def searches(sides: list[Bundle], rows: int, beam_size: int) -> list[Callable[[], object]]:
    """Ways to translate so many sentences to a fixed length."""
    decoders = [OnnxDecoder(one, device="cpu", threads=1) for one in sides]
    src = np.random.default_rng(0).integers(4, decoders[0].vocab_size, (rows, SOURCE))
    src[:, -1] = EOS
    options = TranslateOptions(beam_size=beam_size, min_length=TOKENS)
    asked = [SearchRequest(options=options, max_length=TOKENS)] * rows
    mask = np.ones_like(src, dtype=bool)
    return [lambda d=one: search(d, src, mask, asked) for one in decoders]


def best_ms(ways: list[Callable[[], object]]) -> list[float]:
    """Time ways in turns."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(TURNS):
        for way, found in zip(ways, times, strict=True):
            began = time.perf_counter()
            way()
            found.append(time.perf_counter() - began)
    return [min(found[1:]) * 1e3 for found in times]


def main(paths: list[str]) -> None:
    """Print a row for each bundle and batch."""
    print("| model | graphs, MiB: float32 | int8 | batch | float32, ms | int8, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for path in paths:
        bundle = read_bundle(resolve_bundle(path))
        with tempfile.TemporaryDirectory() as folder:
            sides = [bundle, in_int8(bundle, Path(folder) / "int8")]
            sizes = [
                sum((one.path / graph.file).stat().st_size for graph in one.manifest.graphs) / 2**20
                for one in sides
            ]
            work = (
                {f"{n} series": forecasts(sides, n) for n in (1, 32, 256)}
                if bundle.manifest.forecaster is not None
                else {
                    f"{rows} sentences, beam {beam}": searches(sides, rows, beam)
                    for rows, beam in ((1, 1), (8, 5), (32, 5))
                }
            )
            for name, ways in work.items():
                before, after = best_ms(ways)
                print(
                    f"| {bundle.path.name} | {sizes[0]:.1f} | {sizes[1]:.1f} | {name} | "
                    f"{before:.1f} | {after:.1f} | {before / after:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
