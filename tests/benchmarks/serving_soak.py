"""Does a server stay right, quick to say how it is, and flat in memory, whatever comes for long?

`python tests/benchmarks/serving_soak.py` starts `foretell serve` over a forecaster and a translator
(the tests' tiny ones, or `--forecaster BUNDLE --translator BUNDLE`; neither with covariates), and
for `--seconds` lets `--callers` send a random mixture: forecasts, translations, token streams,
calls of the Open Inference Protocol, calls that are left, late, wrong or too large. Every answer is
compared with the known one, bit by bit, and every refusal with the status that is due. A process of
its own asks for health ten times a second, and a bare gRPC server after each time: what that takes
is the machine's doing, and no model's. Memory is read every second. Prints tables, writes JSON with
`--output`; exit code 1 if an answer was wrong or lost, or the log tells of a fault.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from health_caller import HealthCaller
from known_answers import LOST, WRONG, Question, put, questions
from live_server import LiveServer, connect, fill_models, tests_bundle
from unwelcome_calls import LIMITS, large_calls, late_calls, left_calls, wrong_calls

HEALTH_AIM_MS = 50.0
GROWTH_AIM = 0.05
_SETTLED_S = 120.0  # by then all paths have been taken and all buffers are there
_SHARES = {"known": 80, "left": 9, "late": 3, "wrong": 5, "large": 3}  # of calls, in percent


def main() -> None:
    """Soak, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forecaster", type=Path, help="a bundle; else a tiny one of the tests")
    parser.add_argument("--translator", type=Path, help="a bundle; else a tiny one of the tests")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--pause-ms", type=float, default=0.0, help="of a caller, on the average")
    parser.add_argument("--server-cores", help="such as 0,1; else all")
    parser.add_argument("--client-cores", help="such as 2,3; else all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.client_cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.client_cores.split(",")})
    forecaster = arguments.forecaster or tests_bundle("any")
    translator = arguments.translator or tests_bundle("transformer")
    print("computing the answers beforehand ...", flush=True)
    asked = mixture(forecaster, translator, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        models = fill_models(Path(folder), demand=forecaster, ende=translator)
        with LiveServer(models, *LIMITS, cores=arguments.server_cores) as server:
            soak = Soak(server, asked, arguments)
            found = asyncio.run(soak.run())
            found["exit_code"] = server.end()
            # Of what went wrong inside, though its caller was told nothing wrong.
            found["faults_in_log"] = sum("Traceback" in line for line in server.log)
    report(found)
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    is_bad = found["wrong"] or found["lost"] or found["exit_code"] or found["faults_in_log"]
    sys.exit(1 if is_bad else 0)


def mixture(forecaster: Path, translator: Path, seed: int) -> dict[str, list[Question]]:
    """What is asked, by its share of the calls."""
    return {
        "known": questions(forecasters={1: forecaster}, translators={1: translator}, seed=seed),
        "left": left_calls(random.Random(seed)),
        "late": late_calls(),
        "wrong": wrong_calls(),
        "large": large_calls(),
    }


class Soak:
    """Many callers at one server, and what comes of it."""

    def __init__(
        self,
        server: LiveServer,
        asked: dict[str, list[Question]],
        arguments: argparse.Namespace,
    ) -> None:
        self._server = server
        self._asked = asked
        self._seconds: float = arguments.seconds
        self._callers: int = arguments.callers
        self._pause_s: float = arguments.pause_ms / 1000
        self._seed: int = arguments.seed
        self._ends: dict[str, Counter[str]] = {}
        self._wrong: Counter[str] = Counter()
        self._latencies: list[float] = []
        self._memory: list[tuple[float, float]] = []
        self._calls = 0

    async def run(self) -> dict[str, Any]:
        """Soak for as long as was asked; return what was found."""
        health = HealthCaller(self._server.address)
        await asyncio.to_thread(health.start)
        start = time.monotonic()
        watching = asyncio.create_task(self._watch(start))
        await asyncio.gather(
            *(self._call(number, start + self._seconds) for number in range(self._callers))
        )
        took_s = time.monotonic() - start
        latencies, bare = await asyncio.to_thread(health.stop)
        await watching
        metrics = await self._settled_metrics()
        return {
            "seconds": round(took_s, 1),
            "callers": self._callers,
            "calls": self._calls,
            "calls_per_s": round(self._calls / took_s, 1),
            "ends": {kind: dict(ends) for kind, ends in sorted(self._ends.items())},
            "wrong": sum(count for what, count in self._wrong.items() if LOST not in what),
            "lost": sum(count for what, count in self._wrong.items() if LOST in what),
            "what_was_wrong": dict(self._wrong),
            "call_ms": percentiles(self._latencies),
            "health_ms": percentiles(latencies),
            "bare_ms": percentiles(bare),
            "health_calls": len(latencies),
            "health_above_aim": sum(one > HEALTH_AIM_MS / 1000 for one in latencies),
            "memory": growth(self._memory, self._seconds),
            "left_in_work": metrics["foretell_requests_in_work"] + metrics["open_calls"],
        }

    async def _call(self, number: int, end: float) -> None:
        rng = random.Random(f"{self._seed} {number}")
        names, shares = [*_SHARES], [*_SHARES.values()]
        async with connect(self._server.address) as channel:
            while (start := time.monotonic()) < end:
                question = rng.choice(self._asked[rng.choices(names, shares)[0]])
                how, _ = await put(question, channel)
                self._latencies.append(time.monotonic() - start)
                self._calls += 1
                self._ends.setdefault(question.kind, Counter())[how] += 1
                if how not in question.ends:
                    self._wrong[f"{question.kind}: {how}"] += 1
                if self._pause_s:
                    await asyncio.sleep(rng.expovariate(1 / self._pause_s))

    async def _watch(self, start: float) -> None:
        """Read the memory every second, and say how far it is."""
        while (at_s := time.monotonic() - start) < self._seconds:
            self._memory.append((at_s, self._server.memory_mib()))
            if len(self._memory) % 10 == 1:
                print(
                    f"{at_s:6.0f} s: {self._calls:,} calls, {sum(self._wrong.values())} wrong or "
                    f"lost, {self._memory[-1][1]:.1f} MiB",
                    flush=True,
                )
            await asyncio.sleep(1.0)

    async def _settled_metrics(self) -> dict[str, float]:
        """The metrics once nothing is in work, or after a while."""
        end = time.monotonic() + 10.0
        while True:
            metrics = await asyncio.to_thread(self._server.metrics)
            in_work = metrics["foretell_requests_in_work"] + metrics["open_calls"]
            if not in_work or time.monotonic() > end:
                return metrics
            await asyncio.sleep(0.2)


def percentiles(seconds: list[float]) -> dict[str, float]:
    """In milliseconds."""
    values = np.percentile(seconds, [50, 95, 99, 100]) * 1e3
    return dict(
        zip(("p50", "p95", "p99", "max"), (round(float(one), 2) for one in values), strict=True)
    )


def growth(memory: list[tuple[float, float]], seconds: float) -> dict[str, float]:
    """How much memory grew from minute two to the end; of a shorter soak, from its first fifth.

    Each is the median of ten seconds, or of a tenth of a shorter soak.
    """
    span_s = min(10.0, seconds / 10)
    settled_s = min(_SETTLED_S, seconds / 5)
    begin = np.median([mib for at, mib in memory if settled_s <= at <= settled_s + span_s])
    end = np.median([mib for at, mib in memory if at >= memory[-1][0] - span_s])
    return {
        "first_mib": round(memory[0][1], 1),
        "settled_after_s": settled_s,
        "settled_mib": round(float(begin), 1),
        "last_mib": round(float(end), 1),
        "most_mib": round(max(mib for _, mib in memory), 1),
        "growth": round(float(end / begin - 1), 4),
    }


def report(found: dict[str, Any]) -> None:
    """Print what was found."""
    print(f"\n{'call':28} {'count':>9}  how it ended")
    for kind, ends in found["ends"].items():
        told = ", ".join(f"{how} {count:,}" for how, count in sorted(ends.items()))
        print(f"{kind:28} {sum(ends.values()):9,}  {told}")
    print(
        f"\n{found['calls']:,} calls of {found['callers']} callers in {found['seconds']:g} s, "
        f"{found['calls_per_s']:,} a second: {found['wrong']} {WRONG}, {found['lost']} {LOST}"
    )
    if found["what_was_wrong"]:
        print(f"not as due: {found['what_was_wrong']}")
    for name in ("call", "health", "bare"):
        told = ", ".join(f"{which} {ms:g} ms" for which, ms in found[f"{name}_ms"].items())
        print(f"{name:6} {told}")
    memory = found["memory"]
    print(
        f"health above {HEALTH_AIM_MS:g} ms: {found['health_above_aim']} of "
        f"{found['health_calls']:,}\n"
        f"memory {memory['settled_mib']} MiB after {memory['settled_after_s']:g} s, "
        f"{memory['last_mib']} at the end: {memory['growth']:+.2%} (aim: below {GROWTH_AIM:.0%}); "
        f"at most {memory['most_mib']}\n"
        f"left in work {found['left_in_work']:g}, exit code {found['exit_code']}, faults in the "
        f"log {found['faults_in_log']}"
    )


if __name__ == "__main__":
    main()
