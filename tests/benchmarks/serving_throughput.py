"""How much a server answers, and how fast, with requests of many callers in one batch or apart.

`python tests/benchmarks/serving_throughput.py --translator BUNDLE --forecaster BUNDLE` starts
`foretell serve` with and without batching, asks it from 1, 8 and 32 callers at a time, one sentence
or one series a request, and prints a table a model; `--output FILE` also writes them as JSON. Queue
and compute are the server's own means over requests. Run it on an idle machine, callers on other
cores than the server (`--server-cores 0 --client-cores 1`), or their work is counted with its own.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from foretell.data.text.number_words import english_words
from foretell.protos.arrays import pack_doubles, pack_integers
from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import arrays_pb2, forecaster_pb2, translator_pb2
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub

CALLERS = (1, 8, 32)
Ask = Callable[[grpc.aio.Channel, int], Awaitable[Any]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--translator", type=Path, help="a bundle")
    parser.add_argument("--forecaster", type=Path, help="a bundle")
    parser.add_argument("--sentences", type=Path, help="a line each; else number words")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--steps", type=int, default=512, help="rows of a series")
    parser.add_argument("--horizon", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--server-cores", help="such as 0,1; else all")
    parser.add_argument("--client-cores", help="such as 2,3; else all")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.client_cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.client_cores.split(",")})
    asked: dict[str, tuple[Path, Ask]] = {}
    if arguments.translator:
        asked["translator"] = (arguments.translator, translations(arguments))
    if arguments.forecaster:
        asked["forecaster"] = (arguments.forecaster, forecasts(arguments))
    found = {}
    for kind, (bundle, ask) in asked.items():
        found[kind] = [
            {"batching": batching, **row}
            for batching in (False, True)
            for row in measure(bundle, ask, batching=batching, arguments=arguments)
        ]
        print_table(kind, found[kind])
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")


def translations(arguments: argparse.Namespace) -> Ask:
    """Requests for one sentence each."""
    lines = (
        arguments.sentences.read_text(encoding="utf-8").splitlines()
        if arguments.sentences
        else [english_words(number) for number in range(1000)]
    )
    options = [translator_pb2.TranslateOptions(beam_size=arguments.beam_size)]

    async def ask(channel: grpc.aio.Channel, number: int) -> object:
        request = translator_pb2.TranslateRequest(
            sentences=[lines[number % len(lines)]], options=options
        )
        return await TranslatorStub(channel).Translate(request)

    return ask


def forecasts(arguments: argparse.Namespace) -> Ask:
    """Requests for one series each."""
    requests = forecast_requests(arguments.steps, arguments.horizon)

    async def ask(channel: grpc.aio.Channel, number: int) -> object:
        return await ForecasterStub(channel).Forecast(requests[number % len(requests)])

    return ask


def forecast_requests(steps: int, horizon: int) -> list[forecaster_pb2.ForecastRequest]:
    """A hundred random walks, a request each."""
    values = np.random.default_rng(0).normal(size=(100, steps)).cumsum(axis=1)
    return [
        forecaster_pb2.ForecastRequest(
            horizon=horizon,
            raw_answer=True,
            frequency="1",
            allow_other_frequency=True,
            history=forecaster_pb2.History(
                ids=["a"],
                lengths=pack_integers(np.array([steps]), raw=True),
                stamps=pack_integers(np.arange(steps), raw=True),
                stamp_kind=arrays_pb2.StampKind.STAMP_KIND_INTEGER,
                target=pack_doubles(row, raw=True),
            ),
        )
        for row in values
    ]


def measure(
    bundle: Path, ask: Ask, *, batching: bool, arguments: argparse.Namespace
) -> Iterator[dict[str, float]]:
    """Ask a server of its own from ever more callers."""
    with server(bundle, batching=batching, cores=arguments.server_cores) as address:
        for callers in CALLERS:
            yield asyncio.run(load(address, ask, callers, arguments.seconds))


@contextmanager
def server(bundle: Path, *, batching: bool, cores: str | None) -> Iterator[str]:
    """Serve a bundle in a process of its own; yield its address."""
    command = [
        *(["taskset", "--cpu-list", cores] if cores else []),
        *(sys.executable, "-m", "foretell.cli.main", "serve", str(bundle.resolve())),
        *("--listen", "127.0.0.1:0", "--metrics", "none"),
        *([] if batching else ["--no-batching"]),
    ]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            while True:
                log.seek(0)
                if match := re.search(r"listening on (\S+)", log.read()):
                    break
                if process.poll() is not None:
                    raise SystemExit("the server didn't start")
                time.sleep(0.1)
            yield match[1]
        finally:
            process.terminate()
            process.terminate()
            process.wait()


async def load(address: str, ask: Ask, callers: int, seconds: float) -> dict[str, float]:
    """Ask from so many callers at a time, each again and again."""
    latencies: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel:
        await ask(channel, 0)
        before = await statistics(channel)
        end = time.perf_counter() + seconds
        number = iter(range(10**9))

        async def call() -> None:
            while (start := time.perf_counter()) < end:
                await ask(channel, next(number))
                latencies.append(time.perf_counter() - start)

        start = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(callers)))
        took_s = time.perf_counter() - start
        after = await statistics(channel)
    split = after - before
    p50, p95, p99 = np.percentile(latencies, [50, 95, 99]) * 1e3
    return {
        "callers": callers,
        "requests_per_s": round(len(latencies) / took_s, 1),
        "p50_ms": round(p50, 2),
        "p95_ms": round(p95, 2),
        "p99_ms": round(p99, 2),
        "queue_ms": round(split[1] / split[0] / 1e6, 2),
        "compute_ms": round(split[2] / split[0] / 1e6, 2),
        "requests_per_batch": round(split[0] / split[3], 2),
    }


async def statistics(channel: grpc.aio.Channel) -> np.ndarray:
    """Requests, their nanoseconds of queue and of compute, and batches, so far."""
    method = channel.unary_unary(
        "/inference.GRPCInferenceService/ModelStatistics",
        request_serializer=inference_pb2.ModelStatisticsRequest.SerializeToString,
        response_deserializer=inference_pb2.ModelStatisticsResponse.FromString,
    )
    (model,) = (await method(inference_pb2.ModelStatisticsRequest())).model_stats
    of = model.inference_stats
    return np.array([of.queue.count, of.queue.ns, of.compute_infer.ns, model.execution_count])


def print_table(kind: str, rows: list[dict[str, float]]) -> None:
    """Print the measurements of one model."""
    names = list(rows[0])
    print(f"\n{kind}")
    print(" | ".join(names))
    for row in rows:
        print(" | ".join(str(row[name]).rjust(len(name)) for name in names))
    for callers in CALLERS:
        apart, together = (row for row in rows if row["callers"] == callers)
        print(
            f"{callers} callers: {together['requests_per_s'] / apart['requests_per_s']:.2f} times "
            f"the requests a second, {together['p95_ms'] / apart['p95_ms']:.2f} times the p95"
        )


if __name__ == "__main__":
    main()
