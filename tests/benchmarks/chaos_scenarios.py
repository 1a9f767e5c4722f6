"""What is done to servers under load, and what came of it: a row of counts a scenario."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from known_answers import LOST, RIGHT, TRANSLATOR, WRONG, Question, put
from live_server import OWN_CONNECTION, LiveServer, connect
from steady_load import SteadyLoad

from foretell.protos.v1.models_pb2 import ListModelsRequest, ListModelsResponse, ModelStatus

# What a load balancer does: it asks whoever says SERVING, in turn.
_BALANCED = [
    (
        "grpc.service_config",
        json.dumps(
            {
                "loadBalancingConfig": [{"round_robin": {}}],
                "healthCheckConfig": {"serviceName": TRANSLATOR},
            }
        ),
    ),
    *OWN_CONNECTION,
]


@dataclass(slots=True)
class Outcome:
    """What came of a scenario.

    Attributes:
        scenario: Its name.
        done: What was done, in a few words.
        right: Calls that ended as they should.
        codes: Calls that failed, by their status code's name.
        wrong: Answers that were wrong.
        lost: Calls without an end.
        problems: What else is not as it should be.
        details: Other numbers.
    """

    scenario: str
    done: str
    right: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    wrong: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def take(self, load: SteadyLoad, *, allowed: tuple[str, ...] = ()) -> None:
        """Take over what callers got; failures that aren't allowed are problems."""
        self.right += load.ends[RIGHT]
        self.wrong += load.ends[WRONG]
        self.lost += load.ends[LOST]
        for code, count in load.ends.items():
            if code not in (RIGHT, WRONG, LOST):
                self.codes[code] = self.codes.get(code, 0) + count
                if code not in allowed:
                    self.problems.append(f"{count} calls ended {code}")
        self.details["slowest_call_s"] = round(load.slowest_s, 2)

    def expect(self, what: str, found: object, expected: object) -> None:
        """Note a problem where something isn't as expected."""
        if found != expected:
            self.problems.append(f"{what}: {found}, expected {expected}")

    @property
    def is_good(self) -> bool:
        """Nothing was wrong, nothing lost, nothing else."""
        return not (self.wrong or self.lost or self.problems)


@dataclass(frozen=True, slots=True)
class Chaos:
    """What all scenarios need.

    Attributes:
        models: Folder of the models, version 1 each; who changes it takes a copy.
        asked: Questions whose answers are known, by both versions of the translator.
        bundle: The translator's bundle that becomes `GOOD_VERSION`.
        scratch: A folder for scenarios.
        times: How often what can be repeated is.
        clients: How many vanish in mid-stream.
    """

    models: Path
    asked: list[Question]
    bundle: Path
    scratch: Path
    times: int
    clients: int


GOOD_VERSION = 3


async def kill_workers(chaos: Chaos) -> Outcome:
    """Kill one of two workers, again and again."""
    outcome = Outcome("kill -9 of a worker of 2", f"{chaos.times} kills")
    with LiveServer(chaos.models, "--workers", "2") as server:
        workers = _workers(server)
        async with SteadyLoad(chaos.asked, partial(connect, server.address)) as load:
            for turn in range(chaos.times):
                victim = workers[turn % 2]
                os.kill(victim, signal.SIGKILL)
                born = await _hear(server, r"worker=\d pid=(\d+) answers")
                workers[turn % 2] = int(born[1])
                await load.wait_for_more(100)
        outcome.take(load, allowed=("UNAVAILABLE",))
        await asyncio.sleep(1.5)  # so old may be what one worker knows of the others
        restarts = server.metrics()["foretell_worker_restarts_total"]
        outcome.expect("workers replaced", restarts, chaos.times)
        outcome.expect("exit code", server.end(), 0)
    most = chaos.times * 32  # a call of every caller, and one more where it met the dead port
    if outcome.codes.get("UNAVAILABLE", 0) > most:
        outcome.problems.append(f"more than {most} calls ended UNAVAILABLE")
    return outcome


async def restart_in_turn(chaos: Chaos) -> Outcome:
    """Stop one of two servers by SIGTERM and start it again, in turn, clients asking both."""
    outcome = Outcome("rolling restart of 2 servers", f"{chaos.times} SIGTERMs")
    codes = []
    servers = [LiveServer(chaos.models).__enter__() for _ in range(2)]
    try:
        addresses = ",".join(server.address for server in servers)
        both = partial(grpc.aio.insecure_channel, f"ipv4:{addresses}", options=_BALANCED)
        async with SteadyLoad(chaos.asked, both) as load:
            for turn in range(chaos.times):
                at = turn % 2
                codes.append(await asyncio.to_thread(servers[at].end))
                servers[at] = await asyncio.to_thread(
                    LiveServer(chaos.models, listen=servers[at].address).__enter__
                )
                while servers[at].metrics().get("watches", 0.0) < load.callers:
                    await load.wait_for_more(20)  # until each caller has found it
                await load.wait_for_more(100)
        outcome.take(load)
        codes += [await asyncio.to_thread(server.end) for server in servers]
    finally:
        for server in servers:
            server.__exit__()
    outcome.expect("exit codes", set(codes), {0})
    return outcome


async def stop_under_load(chaos: Chaos) -> Outcome:
    """SIGTERM to a lone server under load: what it has begun is finished, then it refuses."""
    outcome = Outcome("SIGTERM to a lone server", f"{chaos.times} SIGTERMs")
    for _ in range(chaos.times):
        with LiveServer(chaos.models, "--drain-delay-s", "1") as server:
            async with SteadyLoad(chaos.asked, partial(connect, server.address)) as load:
                code = await asyncio.to_thread(server.end)
            outcome.take(load, allowed=("UNAVAILABLE",))
            outcome.expect("exit code", code, 0)
    return outcome


def flip_a_byte(bundle: Path) -> None:
    """One byte of a graph is another one."""
    graph = bundle / "decoder.onnx"
    content = bytearray(graph.read_bytes())
    content[len(content) // 2] ^= 1
    graph.write_bytes(content)


def cut_a_graph(bundle: Path) -> None:
    """The copy of a graph ended too early."""
    graph = bundle / "encoder.onnx"
    graph.write_bytes(graph.read_bytes()[:-100])


def spoil_the_manifest(bundle: Path) -> None:
    """The manifest is no JSON."""
    (bundle / "manifest.json").write_bytes(b"{\xff")


def lose_the_tokenizer(bundle: Path) -> None:
    """A file is missing."""
    (bundle / "tokenizer.model").unlink()


DAMAGES: tuple[Callable[[Path], None], ...] = (
    flip_a_byte,
    cut_a_graph,
    spoil_the_manifest,
    lose_the_tokenizer,
)


async def corrupt_versions(chaos: Chaos, workers: int) -> Outcome:
    """Copy damaged versions in, file by file, then a good one; the old one answers meanwhile."""
    outcome = Outcome(
        f"corrupt new version, {workers} process{'es' * (workers > 1)}",
        f"{len(DAMAGES)} damages, then a good one",
    )
    models = chaos.scratch / f"polled-{workers}"
    shutil.copytree(chaos.models, models)
    flags = ["--model-control", "poll", "--poll-s", "0.5"]
    flags += ["--workers", str(workers)] if workers > 1 else []
    target = models / TRANSLATOR / "2"
    with LiveServer(models, *flags) as server:
        async with SteadyLoad(chaos.asked, partial(connect, server.address)) as load:
            for damage in DAMAGES:
                draft = chaos.scratch / f"draft-{workers}-{damage.__name__}"
                shutil.copytree(chaos.bundle, draft)
                damage(draft)
                await asyncio.to_thread(_copy_slowly, draft, target)
                await _hear(server, f"model={TRANSLATOR} version=2 is not served", workers)
                state = await _state(server, 2)
                outcome.details[damage.__name__] = state.reason
                outcome.expect("its state", state.state, ModelStatus.STATE_FAILED)
                outcome.expect("it has a reason", bool(state.reason), True)
                await load.wait_for_more(50)
                shutil.rmtree(target)
            others = set(load.answers) - {1}
            outcome.expect("versions that answered meanwhile", others, set())
            await asyncio.to_thread(
                _copy_slowly, chaos.bundle, models / TRANSLATOR / str(GOOD_VERSION)
            )
            await load.wait_for_version(GOOD_VERSION)
        outcome.take(load)
        outcome.expect("exit code", server.end(), 0)
    return outcome


async def jump_the_clock(chaos: Chaos, late: list[Question]) -> Outcome:
    """Let the server's wall clock jump hours both ways while calls with deadlines run."""
    jumps_h = [6, -6, 0, 24 * 365, -24 * 365, 1, 0][: max(2, chaos.times)]
    outcome = Outcome("wall clock jumps", " ".join(f"{hours:+d} h" for hours in jumps_h))
    library = await asyncio.to_thread(build_jumping_clock, chaos.scratch)
    if isinstance(library, str):
        outcome.done = f"not done: {library}"
        return outcome
    clock = chaos.scratch / "clock"
    clock.write_bytes(bytes(8))
    environment = {"LD_PRELOAD": str(library), "JUMPING_CLOCK": str(clock)}
    flags = ["--model-control", "poll", "--poll-s", "0.5"]
    models = chaos.scratch / "models-clock"
    shutil.copytree(chaos.models, models)
    with LiveServer(models, *flags, environment=environment) as server:
        asked = [*chaos.asked, *late * 20]
        async with SteadyLoad(asked, partial(connect, server.address)) as load:
            for hours in jumps_h:
                with clock.open("r+b") as file:
                    file.write((hours * 3600 * 10**9).to_bytes(8, "little", signed=True))
                await load.wait_for_more(200)
            # The folder is looked at as ever, and the version that is replaced is let go.
            shutil.copytree(chaos.bundle, models / TRANSLATOR / str(GOOD_VERSION))
            await load.wait_for_version(GOOD_VERSION)
            await _hear(server, f"model={TRANSLATOR} version=1 is unloaded")
        outcome.take(load)
        outcome.expect("exit code", server.end(), 0)
    return outcome


async def vanish(chaos: Chaos) -> Outcome:
    """Kill clients' processes in the middle of their streams; then all slots must be free."""
    outcome = Outcome("clients vanish in mid-stream", f"{chaos.clients:,} clients")
    script = Path(__file__).with_name("vanishing_clients.py")
    at_a_time = min(100, chaos.clients)
    with LiveServer(chaos.models, "--max-queue", "2000") as server:
        files, slowest_s = server.open_files(), 0.0
        for _ in range(0, chaos.clients, at_a_time):
            command = [sys.executable, str(script), server.address, str(at_a_time)]
            clients = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert clients.stdout is not None
            told = await asyncio.to_thread(clients.stdout.readline)
            outcome.expect("clients say", told, "ready\n")
            clients.kill()
            clients.wait()
            clients.stdout.close()
            start = time.monotonic()
            outcome.expect("left in work", await _left_in_work(server), 0)
            slowest_s = max(slowest_s, time.monotonic() - start)
        metrics = server.metrics()
        outcome.details |= {
            "streams_begun": int(metrics["grpc_server_started_total"]),
            "ended_cancelled": int(metrics.get("handled_CANCELLED", 0)),
            "until_all_free_s": round(slowest_s, 2),
            "files_before": files,
            "files_after": server.open_files(),
        }
        if server.open_files() > files + 20:
            outcome.problems.append("sockets stay open")
        async with connect(server.address) as channel:
            ends = [(await put(question, channel))[0] for question in chaos.asked]
        outcome.right = ends.count(RIGHT)
        outcome.expect("answers after", set(ends), {RIGHT})
        outcome.expect("exit code", server.end(), 0)
    return outcome


async def _left_in_work(server: LiveServer) -> float:
    """Requests and calls that are still there when all should be gone."""
    names = ("foretell_requests_in_work", "nv_inference_pending_request_count", "open_calls")
    end = time.monotonic() + 60.0
    while True:
        metrics = await asyncio.to_thread(server.metrics)
        left = sum(metrics.get(name, 0.0) for name in names)
        if not left or time.monotonic() > end:
            return left
        await asyncio.sleep(0.1)


async def _hear(server: LiveServer, pattern: str, count: int = 1) -> Any:
    return await asyncio.to_thread(server.wait_for, pattern, count)


async def _state(server: LiveServer, version: int) -> ModelStatus:
    async with connect(server.address) as channel:
        listed = ListModelsResponse.FromString(
            await channel.unary_unary("/foretell.v1.Models/List")(
                ListModelsRequest().SerializeToString()
            )
        )
    return next(one for one in listed.models if (one.name, one.version) == (TRANSLATOR, version))


def _workers(server: LiveServer) -> list[int]:
    """Their process ids, by number."""
    found = re.findall(r"worker=(\d+) pid=(\d+) answers", "".join(server.log))
    return [int(process) for _, process in sorted(found)]


def _copy_slowly(bundle: Path, target: Path) -> None:
    """Copy as a slow upload does: file by file, in pieces, under the final name."""
    target.mkdir()
    for file in sorted(bundle.iterdir()):
        content = file.read_bytes()
        half = len(content) // 2
        with (target / file.name).open("wb") as copy:
            copy.write(content[:half])
            copy.flush()
            time.sleep(0.2)
            copy.write(content[half:])


def build_jumping_clock(folder: Path) -> Path | str:
    """Compile the library that lets a process's clock jump; or say why that can't be."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return "it takes Linux and a C compiler"
    source = Path(__file__).with_name("jumping_clock.c")
    library = folder / "jumping_clock.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return library if made.returncode == 0 else f"{compiler} can't compile it: {made.stderr}"
