"""How fast the device is beside the CPU, as tables; and which nodes run where. No judgement."""

import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from machine import Machine, random_sources

from foretell.data.bundles.bundle import Bundle
from foretell.data.text.translation import TranslateOptions
from foretell.export.forecaster_proof import through_runtime
from foretell.runtime.devices import CPU_PROVIDER, CUDA_PROVIDER, cuda_options
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import search
from foretell.runtime.session import Session

_TURNS = 3


def forecasts(machine: Machine) -> list[str]:
    """Series per second through the runtime: padded, cut, batched, on all its threads."""
    bundle = machine.largest("forecaster")
    spec = bundle.manifest.forecaster
    assert spec is not None
    lines = [
        f"{bundle.path.name}: context {spec.context_length}, horizon {spec.horizon}",
        "",
        "| series | CPU, series/s | threads | " + machine.device + ", series/s | ratio |",
        "|---|---|---|---|---|",
    ]
    sides = [Session(bundle, "forecaster.onnx", device=one) for one in ("cpu", machine.device)]
    rng = np.random.default_rng(0)
    for count in (1, 32, 512):
        inputs = {
            "context": rng.normal(size=(count, spec.context_length)).cumsum(axis=1),
            "horizon_placeholder": np.full((count, spec.horizon), np.nan),
        }
        rates = [
            count / _best_s(lambda s=side, i=inputs: through_runtime(s, spec, i)) for side in sides
        ]
        ratio = rates[1] / rates[0]
        lines.append(
            f"| {count} | {rates[0]:,.0f} | {sides[0].threads} | {rates[1]:,.0f} | {ratio:.1f} |"
        )
    return lines


def translations(machine: Machine) -> list[str]:
    """Tokens per second of searches to a fixed length; on the CPU one thread."""
    lines = []
    for bundle in machine.bundles("translator"):
        if bundle.path == machine.largest("translator").path or bundle.path.name.startswith("mid-"):
            lines += ["", *_translations(machine, bundle)]
    return lines[1:]


def _translations(machine: Machine, bundle: Bundle) -> list[str]:
    sides = {
        "CPU, one thread": OnnxDecoder(bundle, device="cpu", threads=1),
        f"{machine.device}, states up and down": OnnxDecoder(
            bundle, device=machine.device, holds=False
        ),
        f"{machine.device}, states held": OnnxDecoder(bundle, device=machine.device, holds=True),
    }
    spec = next(iter(sides.values())).spec
    length = min(32, spec.max_source_length, spec.max_target_length)
    lines = [
        f"{bundle.path.name}: source {length}, {length} tokens each, tokens/s",
        "",
        "| sentences | beams | " + " | ".join(sides) + " | last to first |",
        "|---|---|---|---|---|---|",
    ]
    for rows, beam_size in ((1, 1), (32, 1), (32, 4), (128, 4)):
        src, src_mask = random_sources(spec.vocab_size, rows, length)
        options = TranslateOptions(beam_size=beam_size, min_length=length)
        asked = [SearchRequest(options=options, max_length=length)] * rows
        rates = [
            rows * length / _best_s(lambda s=side: search(s, src, src_mask, asked), turns=1)  # noqa: B023
            for side in sides.values()
        ]
        told = " | ".join(f"{rate:,.0f}" for rate in rates)
        lines.append(f"| {rows} | {beam_size} | {told} | {rates[-1] / rates[0]:.1f} |")
    return lines


def placement(machine: Machine) -> list[str]:
    """Count the nodes of each graph by the provider that runs them; tell those on the CPU."""
    lines = ["| model | graph | nodes on the device | on the CPU |", "|---|---|---|---|"]
    for bundle in (machine.largest("forecaster"), *machine.bundles("translator")):
        for graph, nodes in _profiled(machine, bundle).items():
            here, cpu = nodes
            told = ", ".join(f"{count} {op}" for op, count in cpu.most_common(6)) or "none"
            lines.append(f"| {bundle.path.name} | {graph} | {here} | {told} |")
    return lines


def _profiled(machine: Machine, bundle: Bundle) -> dict[str, tuple[int, Counter[str]]]:
    """Run each graph of a bundle once, with onnxruntime's profiler."""
    with tempfile.TemporaryDirectory() as folder:
        if bundle.manifest.forecaster is not None:
            session = Session(bundle, "forecaster.onnx", device=machine.device)
            profiled = {"forecaster": session}
            _watch(session, bundle, "forecaster.onnx", machine, folder)
            steps = bundle.manifest.forecaster.context_length
            session.run(
                {"context": np.ones((2, steps)), "horizon_placeholder": np.full((2, 8), np.nan)}
            )
        else:
            decoder = OnnxDecoder(bundle, device=machine.device)
            profiled = decoder.sessions
            for name, session in profiled.items():
                _watch(session, bundle, f"{name}.onnx", machine, folder)
            src, src_mask = random_sources(decoder.vocab_size, 3, 8)
            options = TranslateOptions(beam_size=2)
            search(decoder, src, src_mask, [SearchRequest(options=options, max_length=6)] * 3)
        return {
            name: _count(Path(session._session.end_profiling()))
            for name, session in profiled.items()
        }


def _watch(session: Session, bundle: Bundle, graph: str, machine: Machine, folder: str) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = f"{folder}/{graph}"
    options.log_severity_level = 4
    cuda: list[Any] = [(CUDA_PROVIDER, cuda_options())] if machine.device == "cuda" else []
    session._session = ort.InferenceSession(
        bundle.path / graph, options, providers=[*cuda, CPU_PROVIDER]
    )


def _count(profile: Path) -> tuple[int, Counter[str]]:
    events = json.loads(profile.read_text())
    nodes = {
        event["name"]: (event["args"]["provider"], event["args"]["op_name"])
        for event in events
        if event.get("cat") == "Node" and event.get("args", {}).get("provider")
    }
    cpu = Counter(op for provider, op in nodes.values() if provider == CPU_PROVIDER)
    return len(nodes) - sum(cpu.values()), cpu


def _best_s(work: Any, turns: int = _TURNS) -> float:
    work()  # warm
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


TABLES = (placement, forecasts, translations)
