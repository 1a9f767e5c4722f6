"""The same job on Ray: its chunks are the items of a Ray Data pipeline over a pool of actors.

Each actor opens the model once. Ray Data places, feeds and restarts the actors, and hands back the
results in the order of the items, so whoever takes them writes what a job on one machine writes.
"""

import logging
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

# Read when Ray is imported: its C++ part writes lines of its own between those of a job.
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import pyarrow as pa
import ray
import ray.data
from ray import cloudpickle
from ray.exceptions import RayActorError, RayError

from foretell.data.errors import ForetellError, OptionError
from foretell.jobs.pool import OpenWorker
from foretell.runtime.cpu import allowed_cores

T = TypeVar("T")
R = TypeVar("R")

# An item that ends its worker every time, by the memory it takes, ends the job after so many.
MOST_RETRIES = 3
_REACH_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RayWorkers:
    """Where and with what to compute.

    Attributes:
        address: HOST:PORT of a cluster's head, or "auto" for the cluster that this machine belongs
            to; None starts one of this machine's own, for this job.
        num_workers: Actors; None takes as many as the cluster's processors, or GPUs, allow.
        threads: Compute threads of each actor, which takes as many processors; None takes one, or
            shares out this machine's cores where the workers are counted and it is alone.
        device: "auto", "cpu" or "cuda": with cuda each actor takes a GPU; with auto all do, if the
            cluster has enough of them, else none.
    """

    address: str | None = None
    num_workers: int | None = None
    threads: int | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}; it must be at least 1."
            for name, value in (("num_workers", self.num_workers), ("threads", self.threads))
            if value is not None and value < 1
        ]
        if problems:
            raise OptionError(problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """What a cluster gave.

    Attributes:
        num_workers: Actors.
        threads: Compute threads of each.
        device: "cuda" where each has a GPU, "cpu" where none has.
        where: For people to read.
    """

    num_workers: int
    threads: int
    device: str
    where: str


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[R]):
    """What an actor sends back: a result, or what went wrong; Ray would wrap that many times."""

    result: R | None
    error: Exception | None


class _Actor(Generic[T, R]):
    """Computes one item after the other; what it can't open, it tells of the first item."""

    def __init__(self, pickled: bytes, paths: Sequence[str], release: str) -> None:
        self._opened = ExitStack()
        self._error: Exception | None = None
        try:
            _check_node(paths, release)
            open_worker: OpenWorker[T, R] = pickle.loads(pickled)
            self._work = self._opened.enter_context(open_worker())
        except Exception as error:
            self._error = error

    def __call__(self, batch: pa.Table) -> pa.Table:
        outcomes = [pickle.dumps(self._do(item.as_py())) for item in batch["item"]]
        column = pa.array(outcomes, pa.large_binary())
        return pa.table({"number": batch["number"], "outcome": column})

    def _do(self, pickled: bytes) -> _Outcome[R]:
        if self._error is not None:
            return _Outcome(None, self._error)
        try:
            return _Outcome(self._work(pickle.loads(pickled)), None)
        except Exception as error:  # the user's data may be at fault, and Ray must not try again
            if not isinstance(error, ForetellError | OSError):
                error.add_note("".join(traceback.format_exception(error)))  # nothing else tells it
            return _Outcome(None, error)


def _check_node(paths: Sequence[str], release: str) -> None:
    """Refuse a node that lacks what the job needs."""
    node = socket.gethostname()
    problems = [
        f"{path} can't be read on the node {node} ({os.strerror(_errno_of(path))})."
        for path in paths
        if not os.access(path, os.R_OK)
    ]
    if problems:
        cure = "On Ray, input and model must stand at the same path on every node (shared folder)."
        raise ForetellError([*problems, cure])
    if (ours := version("foretell")) != release:
        raise ForetellError(
            f"the node {node} has foretell {ours}, the command {release}; install the same."
        )


def _errno_of(path: str) -> int:
    try:
        Path(path).stat()
    except OSError as error:
        return error.errno or 0
    return 13


@contextmanager
def ray_cluster(workers: RayWorkers) -> Iterator[Placed]:
    """Connect to a cluster, or start one; leave it, or end it.

    Raises:
        OptionError: It can't be reached, or has too little for the workers.
    """
    if ray.is_initialized():  # by whoever calls: it is theirs
        with _quiet():
            yield _place(workers, "Ray")
        return
    if workers.address is not None and ":" in workers.address:
        _check_reach(workers.address)
    own = workers.address is None
    asked: dict[str, Any] = {"address": "local" if own else workers.address}
    if own:
        # A processor is a promise not to plan for more: what is asked for runs on any machine.
        count = workers.num_workers or max(1, allowed_cores() // (workers.threads or 1))
        threads = workers.threads or max(1, allowed_cores() // count)
        workers = replace(workers, num_workers=count, threads=threads)
        asked |= {"num_cpus": count * threads, "include_dashboard": False}
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with _quiet(), _heard():
        try:
            with _mute():
                ray.init(**asked, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise OptionError(_unreached(workers.address or "this machine", error)) from error
        try:
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():  # Ray ends the process by an exit code
                    signal.signal(number, handler)
            yield _place(workers, "Ray on this machine" if own else f"Ray at {workers.address}")
        finally:
            ray.shutdown()


def _check_reach(address: str) -> None:
    """Find out in seconds what Ray finds out in a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
    except (OSError, ValueError) as error:
        raise OptionError(_unreached(address, error)) from error


def _unreached(address: str, error: Exception) -> str:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return (
        f"there is no Ray cluster at {address} ({reason[0]}); give the HOST:PORT of its head, or "
        "auto on a machine that belongs to it, or no address to use this machine alone."
    )


def _place(workers: RayWorkers, where: str) -> Placed:
    """Fit the workers into the cluster; what doesn't fit would wait for ever."""
    has = ray.cluster_resources()
    num_cpus, num_gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
    count, threads = workers.num_workers, workers.threads or 1
    with_gpus = workers.device == "cuda" or (workers.device == "auto" and num_gpus >= (count or 1))
    most = num_cpus // threads
    if with_gpus:
        most = min(most, num_gpus)
    if (count or 1) > most:
        needs = f"{count or 1} workers with {threads} threads each"
        raise OptionError(
            f"{needs}{', and a GPU,' if with_gpus else ''} don't fit into the cluster: it has "
            f"{num_cpus} processors and {num_gpus} GPUs; give fewer (num_workers, threads), or "
            "add nodes first."
        )
    count = count or most
    device = "cuda" if with_gpus else "cpu"
    told = f"{count} worker{'' if count == 1 else 's'} on {device}, {where}"
    return Placed(num_workers=count, threads=threads, device=device, where=told)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray from telling about itself."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray.data")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"ray\b")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _heard() -> Iterator[None]:
    """Tell in a sentence that a worker has died; Ray prints pages, between the lines of a job."""
    module = ray._private.worker
    name = "print_to_stdstream"  # of what the cluster reports; there is no setting for it
    before = getattr(module, name, None)

    def hear(data: dict[str, Any], *_: object, **__: object) -> None:
        if any("worker died" in line for line in data.get("lines", ())):
            warnings.warn(
                "a worker on Ray has died, and what it had is computed again; Ray's logs tell why.",
                RuntimeWarning,
                stacklevel=1,
            )

    if before is not None:
        setattr(module, name, hear)
    try:
        yield
    finally:
        if before is not None:
            setattr(module, name, before)


@contextmanager
def _mute() -> Iterator[None]:
    """Drop what is written to standard error meanwhile, by C++ too; what fails is raised."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def run_on_ray(
    items: Sequence[T],
    open_worker: OpenWorker[T, R],
    placed: Placed,
    *,
    paths: Sequence[str | Path] = (),
) -> Generator[R, None, None]:
    """Compute items in the actors of a pool; yield the results in the items' order.

    An actor whose process dies is started anew, and the items it had are computed again.

    Args:
        items: What to compute, small: a chunk's number, not its rows.
        open_worker: Opens what computes them, in each actor.
        placed: What `ray_cluster` gave.
        paths: What each node must be able to read.

    Returns:
        A generator; close it (`contextlib.closing`) in case the block that takes from it fails.

    Raises:
        ForetellError: A node lacks the input, the model or this version of foretell; or an item
            has ended its worker again and again.
        Exception: What computing an item raised, after the results of the items before it.
    """
    if not items:
        return
    rows = [{"number": n, "item": pickle.dumps(item)} for n, item in enumerate(items)]
    needed = [os.fspath(Path(path).absolute()) for path in paths]
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows))
    release = version("foretell")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of arguments that Ray will name otherwise from 2.64 on
        dataset = dataset.map_batches(
            _Actor,
            batch_size=1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=min(placed.num_workers, len(rows))),
            fn_constructor_args=(cloudpickle.dumps(open_worker), needed, release),
            num_cpus=placed.threads,
            num_gpus=1 if placed.device == "cuda" else None,
            max_restarts=-1,
            max_task_retries=MOST_RETRIES,
        )
    try:
        for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
            for outcome in batch["outcome"]:
                yield _result(pickle.loads(outcome.as_py()))
    except RayActorError as error:
        raise ForetellError(
            f"a part of the job has ended its worker {MOST_RETRIES + 1} times, the memory of a "
            "node is the likeliest reason; give fewer workers a node (num_workers, threads)."
        ) from error
    except RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ForetellError(f"the Ray cluster has failed: {reason}") from error


def _result(outcome: _Outcome[R]) -> R:
    if outcome.error is not None:
        raise outcome.error
    result: R = outcome.result  # type: ignore[assignment]  # None may be what was computed
    return result
