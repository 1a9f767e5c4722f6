"""A Ray cluster for one job: found or started, with room for its workers, and silent."""

import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import ray

from foretell.data.errors import ForetellError, OptionError
from foretell.runtime.cpu import allowed_cores

# Read when a process joins a cluster: Ray's C++ part would write lines between those of a job.
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

_REACH_S, _LAST_PORT = 10.0, 65535


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


@contextmanager
def ray_cluster(workers: RayWorkers) -> Iterator[Placed]:
    """Connect to a cluster, or start one; leave it, or end it.

    Raises:
        OptionError: The address is none, or the cluster has too little for the workers.
        ForetellError: It can't be reached.
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
            raise ForetellError(_unreached(workers.address or "this machine", error)) from error
        try:
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():  # Ray ends the process by an exit code
                    signal.signal(number, handler)
            yield _place(workers, "Ray on this machine" if own else f"Ray at {workers.address}")
        finally:
            ray.shutdown()


def _check_reach(address: str) -> None:
    """Find out in seconds what Ray finds out in a minute."""
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdecimal() or int(port) > _LAST_PORT:
        raise OptionError(
            f"{address} is no HOST:PORT; give that of the cluster's head (such as head:6379), on a "
            "machine that belongs to the cluster."
        )
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
    except OSError as error:
        raise ForetellError(_unreached(address, error)) from error


def _unreached(address: str, error: Exception) -> str:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    if address == "auto" and isinstance(error, ConnectionError):
        return (
            "this machine belongs to no Ray cluster that runs; give the HOST:PORT of a cluster's "
            "head, or no address to use this machine alone."
        )
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
