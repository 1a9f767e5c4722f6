"""What the processes of one training tell each other; a process alone tells itself, at no cost."""

import atexit
import hashlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed
from torch import Tensor

from foretell.data.errors import OptionError
from foretell.model.ranks import (
    FirstFailedError,
    ProcessLostError,
    is_first,
    local_rank,
    local_world_size,
    world_size,
)

# A process waits while the first one validates or reads; of one that died it hears at once.
_PATIENCE = timedelta(hours=6)

T = TypeVar("T")


def join() -> None:
    """Meet the other processes, once; nothing to do where there are none.

    Raises:
        OptionError: This machine has fewer GPUs than processes.
    """
    if world_size() == 1 or torch.distributed.is_initialized():
        return
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "nccl"
        if torch.cuda.device_count() < local_world_size():
            raise OptionError(
                f"torchrun started {local_world_size()} processes on a machine with "
                f"{torch.cuda.device_count()} GPU; start one a GPU (--nproc-per-node gpu), or hide "
                "the GPUs (CUDA_VISIBLE_DEVICES=) to train on the CPU."
            )
        torch.cuda.set_device(local_rank())
    # Waiting for the others is no Python code, which alone could see a signal and say something.
    with _plain_signals(), told_if_lost():
        torch.distributed.init_process_group(backend, timeout=_PATIENCE)
    if backend == "nccl":  # which complains of whoever just ends
        atexit.register(torch.distributed.destroy_process_group)


def from_first(make: Callable[[], T]) -> T:
    """Let the first process alone do something; all get what came of it, and wait until then.

    Raises:
        FirstFailedError: It has raised an error, which it raises there.
        ProcessLostError: Another process has ended.
    """
    if world_size() == 1:
        return make()
    join()
    told: list[Any] = [None, False]  # what was made, and whether it was
    try:
        if is_first():
            told = [make(), True]
    except BaseException:
        with suppress(ProcessLostError), told_if_lost(_any):
            torch.distributed.broadcast_object_list(told)
        raise
    with told_if_lost(_any):
        torch.distributed.broadcast_object_list(told)
    if not told[1]:
        raise FirstFailedError
    made: T = told[0]
    return made


def add_up(values: Tensor) -> Tensor:
    """Return the sums over all processes.

    Raises:
        ProcessLostError: Another process has ended.
    """
    if world_size() > 1:
        with told_if_lost(_any):
            torch.distributed.all_reduce(values)
    return values


def check_alike(batch: Mapping[str, Tensor], options: str) -> None:
    """Refuse processes that don't train on the same: each machine reads its own files.

    Raises:
        OptionError: Data or options differ, or versions that make other batches of them.
        ProcessLostError: Another process has ended.
    """
    if world_size() == 1:
        return
    digest = hashlib.sha256(options.encode())
    for name, values in sorted(batch.items()):
        digest.update(f"{name} {tuple(values.shape)}".encode() + values.numpy().tobytes())
    found: list[Any] = [None] * world_size()
    with told_if_lost(_any):
        torch.distributed.all_gather_object(found, digest.hexdigest())
    if others := [str(rank) for rank, its in enumerate(found) if its != found[0]]:
        raise OptionError(
            f"the processes {', '.join(others)} of the training have other data or options than "
            "the first; give all machines the same files, command and version of foretell."
        )


def _is_of_connection(error: RuntimeError) -> bool:
    words = ("Connection", "Broken pipe", "Socket", "peer", "gloo", "NCCL", "ProcessGroup")
    told = str(error)
    return isinstance(error, torch.distributed.DistError) or any(word in told for word in words)


def _any(_: RuntimeError) -> bool:
    return True


@contextmanager
def told_if_lost(
    is_of_connection: Callable[[RuntimeError], bool] = _is_of_connection,
) -> Iterator[None]:
    """Turn what a broken connection raises into a plain error."""
    try:
        yield
    except RuntimeError as error:
        if not is_of_connection(error):
            raise
        raise ProcessLostError(
            "another process of the training has ended, and this one can't go on without it; look "
            "for that one's message, then go on from what is saved (resume)."
        ) from error


@contextmanager
def _plain_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the process without a word for a while."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
