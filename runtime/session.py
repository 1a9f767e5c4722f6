"""One ONNX graph of a bundle, ready to run; beside `devices` nothing else knows onnxruntime."""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import onnxruntime as ort

from foretell.data.bundles.bundle import Bundle, TensorSpec
from foretell.data.errors import BundleError, DeviceError, OptionError
from foretell.runtime.cpu import allowed_cores
from foretell.runtime.devices import CPU_PROVIDER, CUDA_PROVIDER, device_problems, open_graph
from foretell.runtime.queues.turns import in_my_place, out_of_turn
from foretell.runtime.row_graph import ROWS, row_graph, taken
from foretell.runtime.search.stopping import Stop

Item = TypeVar("Item")
# An array in onnxruntime's own memory, on the device where the graph runs.
HeldArray: TypeAlias = ort.OrtValue
Array: TypeAlias = Any  # np.ndarray or HeldArray

_DEVICES = {CPU_PROVIDER: "cpu", CUDA_PROVIDER: "cuda"}
_NUMPY_TYPES = {
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(bool)": "bool",
}

log = logging.getLogger(__name__)


class Session:
    """A graph on a device. Many threads may use it at once.

    A run computes in the thread that calls it; work for several cores is several runs. Threads
    inside a run would share out an array at other places for another number of cores, and the
    last bits of an answer would depend on it.

    Attributes:
        provider: The onnxruntime provider in use, such as "CPUExecutionProvider".
        threads: Runs that `for_each` does at once.
    """

    def __init__(
        self, bundle: Bundle, graph: str, *, device: str = "auto", threads: int | None = None
    ) -> None:
        """Load a graph.

        Args:
            bundle: A bundle that `read_bundle` has verified.
            graph: File name of the graph.
            device: "cpu"; "cuda"; or "auto", which is CUDA where it works and else the CPU.
            threads: Runs that `for_each` does at once; None takes the allowed cores.

        Raises:
            OptionError: `device` or `threads` is none that there is.
            DeviceError: CUDA was asked for and can't be had.
            BundleError: onnxruntime can't load the graph, or it isn't as the manifest says.
        """
        _check_options(device, threads)
        device = _device_for(bundle, device)
        spec = bundle.manifest.graph(graph)
        name = f"{spec.file} (opset {spec.opset})"
        try:
            self._session = open_graph(bundle.path / spec.file, name, device)
        except BundleError as error:
            raise BundleError(f"bundle {bundle.path}: {error}") from error
        self.provider: str = self._session.get_providers()[0]
        self.threads = allowed_cores() if threads is None else threads
        if self.provider != CPU_PROVIDER:
            self.threads = min(self.threads, 2)  # while one computes, the other lays out the next
        self._workers, self._process = self._start_workers(), os.getpid()
        # Of a thread on the CPU its own time: what another program takes away isn't the graph's.
        self._clock = time.thread_time if self.provider == CPU_PROVIDER else time.perf_counter
        self._ran_s: dict[int, float] = {}  # by thread, so that no lock is needed
        self._output_names = [output.name for output in spec.outputs]
        problems = [
            *_differences("input", spec.inputs, self._session.get_inputs()),
            *_differences("output", spec.outputs, self._session.get_outputs()),
        ]
        if problems:
            raise BundleError([f"bundle {bundle.path}: {graph}: {text}" for text in problems])
        log.info(
            "%s: %s runs on %s with %d threads", bundle.path, graph, self.provider, self.threads
        )

    def run(
        self,
        inputs: Mapping[str, Array],
        outputs: Sequence[str] | None = None,
        *,
        held: Collection[str] = (),
        stop: Stop | None = None,
    ) -> dict[str, Any]:
        """Run the graph once.

        Args:
            inputs: An array for each input, by name, of the type and shape the manifest gives.
                Where any output is held, these may be held arrays, too.
            outputs: Names of the outputs to return; None returns all.
            held: Those of them that stay in onnxruntime's memory, on the device.
            stop: Ends the run in its midst when set.

        Returns:
            An array for each of them, by name.

        Raises:
            StoppedError: `stop` was set before the end.
        """
        names = self._output_names if outputs is None else outputs
        with self._counted():
            if held:
                return _run_bound(self._session, inputs, names, held, stop)
            arrays = _run(partial(self._session.run, names, dict(inputs)), stop)
            return dict(zip(names, arrays, strict=True))

    @property
    def busy_s(self) -> float:
        """Seconds in which the graph has been running so far, summed over all threads."""
        return sum(list(self._ran_s.values()), 0.0)

    def for_each(self, work: Callable[[Item], None], items: Iterable[Item]) -> None:
        """Do work that runs the graph, on at most `threads` items at once, whoever else calls.

        Work that itself comes here again has a thread already, and goes on in it: were it to wait
        for another, all could be waiting.

        Raises:
            Exception: What `work` raised first; items not yet begun are left.
        """
        if self._process != os.getpid():  # threads don't survive a fork
            self._workers, self._process = self._start_workers(), os.getpid()
        if getattr(self._thread, "is_worker", False):
            for item in items:
                work(item)
            return
        work = in_my_place(work)
        with out_of_turn():
            for _ in self._workers.map(work, items):
                pass

    @contextmanager
    def _counted(self) -> Iterator[None]:
        start = self._clock()
        try:
            yield
        finally:
            thread = threading.get_ident()
            self._ran_s[thread] = self._ran_s.get(thread, 0.0) + self._clock() - start

    def _start_workers(self) -> ThreadPoolExecutor:
        self._thread = thread = threading.local()
        return ThreadPoolExecutor(
            self.threads,
            thread_name_prefix="foretell",
            initializer=lambda: setattr(thread, "is_worker", True),
        )


class RowTaker:
    """Takes rows of held arrays where they lie."""

    def __init__(self, tensors: Sequence[TensorSpec], provider: str) -> None:
        """Make a graph for arrays of these names, types and numbers of axes."""
        graph, device = row_graph(tensors), _DEVICES[provider]
        self._session = open_graph(graph, "the graph that takes rows", device)

    def take(
        self, arrays: Mapping[str, HeldArray], rows: np.ndarray, *, stop: Stop | None = None
    ) -> dict[str, HeldArray]:
        """Take rows of all arrays, in this order.

        Raises:
            StoppedError: `stop` was set before the end.
        """
        names = [taken(name) for name in arrays]
        found = _run_bound(self._session, {**arrays, ROWS: rows}, names, names, stop)
        return dict(zip(arrays, found.values(), strict=True))


def hold(array: np.ndarray, provider: str) -> HeldArray:
    """Copy an array to where a provider computes; on the CPU it stays where it is."""
    return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), _DEVICES[provider], 0)


def on_host(array: Array) -> np.ndarray:
    """Return an array as NumPy's, wherever it is."""
    return array if isinstance(array, np.ndarray) else np.asarray(array.numpy())


def _run_bound(
    session: Any,
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    held: Collection[str],
    stop: Stop | None,
) -> dict[str, Any]:
    """Run with inputs and outputs bound to where they are and shall be."""
    device = _DEVICES[session.get_providers()[0]]
    binding = ort.IOBinding(session)  # of this run alone: threads can't share one
    for name, array in inputs.items():
        if isinstance(array, np.ndarray):
            binding.bind_cpu_input(name, np.ascontiguousarray(array))
        else:
            binding.bind_ortvalue_input(name, array)
    for name in outputs:
        binding.bind_output(name, device if name in held else "cpu", 0)
    binding.synchronize_inputs()
    _run(partial(session.run_with_iobinding, binding), stop)
    binding.synchronize_outputs()
    arrays = zip(outputs, binding.get_outputs(), strict=True)
    return {name: array if name in held else array.numpy() for name, array in arrays}


def _run(run: Callable[[Any], Any], stop: Stop | None) -> Any:
    """Have something run, and end it in its midst when it is to stop."""
    if stop is None:
        with out_of_turn():
            return run(None)
    options = ort.RunOptions()
    with stop.calling(partial(setattr, options, "terminate", True)), out_of_turn():
        try:
            return run(options)
        except Exception:  # what onnxruntime raises when it is stopped has no type of its own
            stop.check()
            raise


def _check_options(device: str, threads: int | None) -> None:
    problems = device_problems(device)
    if threads is not None and threads < 1:
        problems.append(f"threads is {threads}; expected at least 1, or none for all that may be.")
    if problems:
        raise OptionError(problems)


def _device_for(bundle: Bundle, device: str) -> str:
    """Keep int8 on the CPU: CUDA has no such products, and would have the CPU do them, unsaid."""
    if bundle.manifest.precision != "int8" or device == "cpu":
        return device
    if device == "cuda":
        raise DeviceError(
            f"bundle {bundle.path} is int8, which is for the CPU; on 'cuda' serve it in fp32."
        )
    return "cpu"


def _differences(kind: str, expected: Sequence[TensorSpec], found: Sequence[Any]) -> list[str]:
    names, found_names = [tensor.name for tensor in expected], [tensor.name for tensor in found]
    if names != found_names:
        return [f"its {kind}s are {found_names}; the manifest says {names}."]
    problems = []
    for tensor, actual in zip(expected, found, strict=True):
        dtype = _NUMPY_TYPES.get(actual.type, actual.type)
        if dtype != tensor.dtype:
            problems.append(f"{kind} {tensor.name} is {dtype}; the manifest says {tensor.dtype}.")
        if [_size(axis) for axis in actual.shape] != [_size(axis) for axis in tensor.shape]:
            problems.append(
                f"{kind} {tensor.name} has the shape {actual.shape}; "
                f"the manifest says {list(tensor.shape)}."
            )
    return problems


def _size(axis: object) -> int | None:
    """Size of a fixed axis; None for a dynamic one, whatever its name."""
    return axis if isinstance(axis, int) else None
