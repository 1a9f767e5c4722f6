"""What states in onnxruntime's own memory cost on a CPU, and how its arena grows with caches.

    python tests/benchmarks/held_states.py BUNDLE     # a translator's

Two tables: a step with plain and with bound arrays, turn by turn in one process; and the memory
that the arena takes for caches that grow, by the way in which it is extended (a process each). The
arena is the same code on CUDA.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import onnx
import onnxruntime as ort

from foretell.data.bundles.bundle import read_bundle, resolve_bundle
from foretell.data.text.tokenizer import BOS
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.decoding import StepRequest

STEPS, TURNS, SOURCE = 20, 15, 16
CACHES, WIDTH = 12, 256


def steps(decoder: OnnxDecoder, rows: int, beams: int) -> float:
    """Lead beams along random tokens; return seconds a step."""
    rng = np.random.default_rng(0)
    src = rng.integers(4, decoder.vocab_size, (rows, SOURCE))
    state = decoder.start(src, np.ones_like(src, dtype=bool))
    began = time.perf_counter()
    for t in range(STEPS):
        width = beams if t else 1
        shape = (rows, width)
        request = StepRequest(
            tokens=rng.integers(4, decoder.vocab_size, shape) if t else np.full(shape, BOS),
            scores=np.zeros(shape, np.float32),
            parents=rng.integers(0, beams if t > 1 else 1, shape),
            positions=np.full(rows, t),
            num_candidates=2 * width,
        )
        state = decoder.step(state, request).state
    return (time.perf_counter() - began) / STEPS


def compare(path: Path) -> None:
    """Print the table of steps."""
    bundle = read_bundle(resolve_bundle(path))
    plain, held = (OnnxDecoder(bundle, device="cpu", threads=1, holds=x) for x in (False, True))
    print("| sentences | beams | plain, us a step | held | ratio |\n|---|---|---|---|---|")
    for rows, beams in ((1, 1), (8, 4), (32, 4)):
        turns = [(steps(plain, rows, beams), steps(held, rows, beams)) for _ in range(TURNS)]
        best, other = (min(turn) * 1e6 for turn in zip(*turns, strict=True))
        print(f"| {rows} | {beams} | {best:.0f} | {other:.0f} | {other / best:.2f} |")


def grow(strategy: int) -> None:
    """Print what the arena takes while caches of many lengths come and go."""
    info = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    sizes = {"max_mem": 0, "initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1}
    arena = ort.OrtArenaCfg({**sizes, "arena_extend_strategy": strategy})
    ort.create_and_register_allocator(info, arena)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.enable_mem_pattern = False
    session = ort.InferenceSession(_caches(), options, providers=["CPUExecutionProvider"])
    rng, before, most = np.random.default_rng(0), _mapped_mib(), 0.0
    for _ in range(6):
        rows, length, beams = int(rng.integers(4, 33)), int(rng.integers(20, 60)), 4
        past = [ort.OrtValue.ortvalue_from_numpy(np.zeros((rows, 1, WIDTH), np.float32))] * CACHES
        new = np.ones((rows, beams, WIDTH), np.float32)
        for _ in range(length):
            binding = ort.IOBinding(session)
            binding.bind_cpu_input("x", new)
            for place, cache in enumerate(past):
                binding.bind_ortvalue_input(f"past_{place}", cache)
                binding.bind_output(f"present_{place}", "cpu")
            session.run_with_iobinding(binding)
            past = binding.get_outputs()
        most = max(most, 2 * CACHES * rows * beams * length * WIDTH * 4 / 2**20)
    name = ("kNextPowerOfTwo", "kSameAsRequested")[strategy]
    print(f"| {name} | {most:.0f} | {_mapped_mib() - before:.0f} |")


def _caches() -> bytes:
    places = range(CACHES)
    pasts = ", ".join(f"float[b, t, {WIDTH}] past_{place}" for place in places)
    presents = ", ".join(f"float[b, u, {WIDTH}] present_{place}" for place in places)
    nodes = " ".join(f"present_{i} = Concat <axis = 1> (past_{i}, x)" for i in places)
    text = (
        '<ir_version: 8, opset_import: ["": 17]> '
        f"g ({pasts}, float[b, k, {WIDTH}] x) => ({presents}) {{ {nodes} }}"
    )
    return bytes(onnx.parser.parse_model(text).SerializeToString())


def _mapped_mib() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmSize"].split()[0]) / 1024


if __name__ == "__main__":
    if sys.argv[1] == "grow":
        grow(int(sys.argv[2]))
    else:
        compare(Path(sys.argv[1]))
        print("\n| arena | caches at most, MiB | taken, MiB |\n|---|---|---|", flush=True)
        for strategy in ("0", "1"):
            subprocess.run([sys.executable, __file__, "grow", strategy], check=True)
