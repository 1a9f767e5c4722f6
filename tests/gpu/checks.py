"""What must hold on a GPU. Each check returns what it found, in lines; it raises what fails."""

import os
import threading
from collections.abc import Callable

import numpy as np
import torch
from machine import Machine, Skip, random_sources, translator_model

from foretell.data.bundles.bundle import Bundle
from foretell.data.errors import DeviceError
from foretell.data.text.translation import TranslateOptions
from foretell.export.build import prove_bundle
from foretell.export.environment import torch_threads
from foretell.export.paired_decoder import PairedDecoder
from foretell.export.torch_decoder import TorchDecoder
from foretell.export.translator_parity import (
    change_beams,
    compare_hypotheses,
    lead_along,
    search_requests,
    source_batches,
)
from foretell.runtime.devices import (
    CPU_PROVIDER,
    CUDA_PROVIDER,
    GPU_MEMORY_VARIABLE,
    why_no_cuda,
)
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import search
from foretell.runtime.search.stopping import Stop, StoppedError
from foretell.runtime.session import Session

_MIB = 1024 * 1024
_WAIT_S = 60.0
_NEAR_SCORE = 1e-3  # of two translations that rounding may choose between


def serves_where_it_was_asked_to(machine: Machine) -> list[str]:
    """HC04: the provider is the one that was asked for; "auto" takes the GPU where there is one."""
    expected = CUDA_PROVIDER if machine.device == "cuda" else CPU_PROVIDER
    lines = []
    for kind in ("forecaster", "translator"):
        for bundle in machine.bundles(kind):
            found = [
                Session(bundle, graph.file, device=device).provider
                for graph in bundle.manifest.graphs
                for device in (machine.device, "auto")
            ]
            assert found[::2] == [expected] * (len(found) // 2), found
            assert machine.device == "cpu" or set(found) == {CUDA_PROVIDER}, found
        lines.append(f"every {kind} is served by {expected}")
    missing = why_no_cuda()
    if missing is not None:
        try:
            Session(bundle, bundle.manifest.graphs[0].file, device="cuda")
        except DeviceError:
            return [*lines, f"cuda is refused here: {missing}"]
        raise AssertionError("cuda was asked for, isn't there, and was not refused")
    return lines


def forecasts_equal_torch(machine: Machine) -> list[str]:
    """Torch on the CPU and the graph on the device, over the grid of an export's proof."""
    lines = []
    for bundle in machine.bundles("forecaster"):
        report = prove_bundle(bundle.path, device=machine.device)
        report.check()
        lines.append(f"{bundle.path.name}: {report}")
    return lines


def steps_equal_torch(machine: Machine) -> list[str]:
    """Every array of every step: log probabilities, attention, memory, states of all kinds."""
    lines = []
    for bundle in machine.bundles("translator"):
        model, graphs = translator_model(bundle), _decoder(bundle, machine)
        decoder = PairedDecoder(TorchDecoder(model), graphs)
        with torch_threads(os.cpu_count() or 1):
            for batch in source_batches(graphs.spec, (1, 2, 8), (1, 3, 7, 8)):
                decoder.found.append(lead_along(decoder, model, batch, 6))
                change_beams(decoder, batch)
        failed = [str(one) for one in decoder.found if one.failed]
        assert not failed, "\n".join(failed)
        used = max(one.used for one in decoder.found)
        lines.append(
            f"{bundle.path.name}: {len(decoder.found):,} arrays use at most {used:.1%} of what is "
            "allowed (rtol 1e-4, atol 1e-4)"
        )
    return lines


def searches_equal_torch(machine: Machine) -> list[str]:
    """Whole searches end with the same tokens; the others must be near-ties on the way."""
    lines = []
    for bundle in machine.bundles("translator"):
        alone, graphs = TorchDecoder(translator_model(bundle)), _decoder(bundle, machine)
        decoder = PairedDecoder(alone, graphs)
        equal, others = 0, []
        with torch_threads(os.cpu_count() or 1):
            for batch in source_batches(graphs.spec, (1, 8), (12,)):
                for beam_size in (1, 5):
                    decoder.where, ties = f"{batch.name}, beam {beam_size}", len(decoder.near_ties)
                    asked = search_requests(graphs.spec, beam_size, len(batch.src))
                    expected, found = (
                        search(side, batch.src, batch.src_mask, asked) for side in (alone, decoder)
                    )
                    tied = len(decoder.near_ties) > ties
                    for sides in zip(expected, found, strict=True):
                        other = compare_hypotheses(decoder.where, *sides, had_near_tie=tied)
                        equal += other is None
                        others += [other] if other is not None else []
        failed = [str(one) for one in others if one.failed]
        assert not failed, "\n".join(failed)
        lines.append(
            f"{bundle.path.name}: {equal} of {equal + len(others)} searches find the same tokens, "
            f"{len(others)} differ after a near-tie"
        )
    return lines


def held_states_equal_plain_ones(machine: Machine) -> list[str]:
    """States that stay on the device are those that would have gone up and down at each step."""
    lines = []
    for bundle in machine.bundles("translator"):
        plain, held = (_decoder(bundle, machine, holds=holds) for holds in (False, True))
        length = min(24, plain.spec.max_source_length)
        src, src_mask = random_sources(plain.vocab_size, 12, length)
        differences = []
        for beam_size in (1, 4):
            asked = [_request(beam_size, 4 + row, plain) for row in range(len(src))]
            sides = [search(side, src, src_mask, asked) for side in (plain, held)]
            for one, other in zip(*sides, strict=True):
                assert [x.token_ids for x in one] == [x.token_ids for x in other]
                for x, y in zip(one, other, strict=True):
                    pairs = zip(x.token_log_probs, y.token_log_probs, strict=True)
                    differences += [abs(a - b) for a, b in pairs]
        most = max(differences)
        assert most <= (1e-5 if machine.device == "cuda" else 0.0), most
        lines.append(f"{bundle.path.name}: the same tokens, log probabilities within {most:.1e}")
    return lines


def neighbours_change_no_translation(machine: Machine) -> list[str]:
    """HB04 on a GPU: lines that differ are counted; more than near-ties may not."""
    bundle = machine.largest("translator")
    decoder = _decoder(bundle, machine)
    length = min(32, decoder.spec.max_source_length)
    src, src_mask = random_sources(decoder.vocab_size, 64, length)
    lines = []
    for beam_size in (1, 4):
        asked = [_request(beam_size, 16, decoder) for _ in src]
        together = search(decoder, src, src_mask, asked)
        moved = 0
        for row, best in enumerate(together):
            one = slice(row, row + 1)
            (alone,) = search(decoder, src[one], src_mask[one], asked[one])
            if alone[0].token_ids != best[0].token_ids:
                moved += 1
                assert abs(alone[0].score - best[0].score) <= _NEAR_SCORE
        if machine.device == "cpu":
            assert moved == 0
        lines.append(f"beam {beam_size}: {moved} of {len(src)} differ alone, each a near-tie")
    return lines


def memory_is_bounded(machine: Machine) -> list[str]:
    """Batches of all shapes, round after round: what the first rounds took is enough for all."""
    decoder = _decoder(machine.largest("translator"), machine)
    bundle = machine.largest("forecaster")
    forecaster, spec = Session(bundle, "forecaster.onnx", device=machine.device), bundle.manifest
    assert spec.forecaster is not None
    used = []
    for _ in range(6):
        rng = np.random.default_rng(5)
        for _ in range(6):
            rows, length = int(rng.integers(1, 33)), int(rng.integers(4, 33))
            beam_size = int(rng.integers(1, 6))
            length = min(length, decoder.spec.max_source_length)
            src, src_mask = random_sources(decoder.vocab_size, rows, length, rows)
            search(decoder, src, src_mask, [_request(beam_size, length, decoder)] * rows)
            steps = int(rng.integers(1, spec.forecaster.context_length + 1))
            forecaster.run(
                {
                    "context": rng.normal(size=(rows, steps)),
                    "horizon_placeholder": np.full((rows, length), np.nan),
                }
            )
        used.append(_used_mib(machine))
    grown = used[-1] - used[1]
    told = ", ".join(f"{mib:.0f}" for mib in used)
    assert grown <= 0.05 * used[1] + 32, told
    return [f"MiB in use after each of {len(used)} rounds: {told}"]


def memory_has_a_limit(machine: Machine) -> list[str]:
    """A batch beyond the arena's limit fails by itself, and the graph goes on for others."""
    if machine.device == "cpu":
        raise Skip("the limit is that of a GPU's arena")
    limit = 128
    bundle = machine.largest("forecaster")
    os.environ[GPU_MEMORY_VARIABLE] = str(limit)
    try:
        session = Session(bundle, "forecaster.onnx", device=machine.device)
    finally:
        del os.environ[GPU_MEMORY_VARIABLE]
    assert bundle.manifest.forecaster is not None
    steps = bundle.manifest.forecaster.context_length

    def ask(rows: int) -> None:
        session.run(
            {"context": np.ones((rows, steps)), "horizon_placeholder": np.full((rows, 8), np.nan)}
        )

    ask(1)
    try:
        ask(1_000_000 // steps * 64)
    except Exception as error:  # onnxruntime's errors have no ancestor of their own
        reason = str(error).splitlines()[0][:120]
    else:
        raise AssertionError(f"a batch far beyond {limit} MiB was computed")
    ask(1)
    return [f"refused beyond {limit} MiB ({reason}); the next request is answered"]


def a_stop_ends_a_run(machine: Machine) -> list[str]:
    """`RunOptions.terminate` ends work in its midst, bound to a device or not."""
    decoder = _decoder(machine.largest("translator"), machine, holds=True)
    length = decoder.spec.max_source_length
    src, src_mask = random_sources(decoder.vocab_size, 64, length)
    stop, outcome = Stop(), []

    def run() -> None:
        view = decoder.until(stop)
        try:
            for _ in range(10_000):
                search(view, src, src_mask, [_request(4, 16, decoder)] * len(src))
        except StoppedError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not stop._calls:  # it has not yet begun
        assert thread.is_alive()
    stop.set()
    thread.join(_WAIT_S)
    assert outcome, "the search went on"
    search(decoder, src[:2], src_mask[:2], [_request(1, 4, decoder)] * 2)
    return ["stopped in a run; the graphs go on for others"]


def _decoder(bundle: Bundle, machine: Machine, holds: bool | None = True) -> OnnxDecoder:
    """Open a translator as it is on a GPU, on a CPU as well."""
    return OnnxDecoder(bundle, device=machine.device, holds=holds)


def _request(beam_size: int, max_length: int, decoder: OnnxDecoder) -> SearchRequest:
    options = TranslateOptions(beam_size=beam_size, n_best=beam_size)
    return SearchRequest(
        options=options, max_length=min(max_length, decoder.spec.max_target_length)
    )


def _used_mib(machine: Machine) -> float:
    if machine.device == "cpu":
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB
    if not torch.cuda.is_available():
        raise Skip("torch, which tells the GPU's free memory, has no CUDA")
    free, total = torch.cuda.mem_get_info()
    return float(total - free) / _MIB


CHECKS: tuple[Callable[[Machine], list[str]], ...] = (
    serves_where_it_was_asked_to,
    forecasts_equal_torch,
    steps_equal_torch,
    searches_equal_torch,
    held_states_equal_plain_ones,
    neighbours_change_no_translation,
    a_stop_ends_a_run,
    memory_has_a_limit,
    memory_is_bounded,
)
