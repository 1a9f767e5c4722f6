"""The same job on Ray: its chunks are the items of a Ray Data pipeline over a pool of actors.

Each actor opens the model once. Ray Data places, feeds and restarts the actors, and hands back the
results in the order of the items, so whoever takes them writes what a job on one machine writes.
"""

import os
import pickle
import socket
import traceback
import warnings
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa
import ray.data
from ray import cloudpickle
from ray.exceptions import RayActorError, RayError

from foretell.data.errors import ForetellError
from foretell.jobs.pool import OpenWorker
from foretell.jobs.ray.cluster import Placed

T = TypeVar("T")
R = TypeVar("R")

# An item that ends its worker every time, by the memory it takes, ends the job after so many.
MOST_RETRIES = 3


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
        placed: Where, as `foretell.jobs.ray.cluster` has found it.
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
