"""One ONNX graph of a bundle, ready to run: the only place that touches onnxruntime."""

import contextlib
import ctypes
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import onnxruntime as ort

from foretell.data.bundle import Bundle, GraphSpec, TensorSpec
from foretell.data.errors import BundleError, DeviceError, OptionError
from foretell.runtime.cpu import allowed_cores
from foretell.runtime.stopping import Stop

Device = Literal["auto", "cpu", "cuda"]
Item = TypeVar("Item")

CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"

# TensorFloat-32 would round float32 products to 10 bits: not what was trained and compared.
_CUDA_OPTIONS = {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}

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
        spec = bundle.manifest.graph(graph)
        self._session = _open(bundle, spec, device)
        self.provider: str = self._session.get_providers()[0]
        self.threads = allowed_cores() if threads is None else threads
        if self.provider != CPU_PROVIDER:
            self.threads = min(self.threads, 2)  # while one computes, the other lays out the next
        self._workers, self._process = self._start_workers(), os.getpid()
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
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None = None,
        *,
        stop: Stop | None = None,
    ) -> dict[str, np.ndarray]:
        """Run the graph once.

        Args:
            inputs: An array for each input, by name, of the type and shape the manifest gives.
            outputs: Names of the outputs to return; None returns all.
            stop: Ends the run in its midst when set.

        Returns:
            An array for each of them, by name.

        Raises:
            StoppedError: `stop` was set before the end.
        """
        names = self._output_names if outputs is None else outputs
        if stop is None:
            return dict(zip(names, self._session.run(names, dict(inputs)), strict=True))
        options = ort.RunOptions()
        with stop.calling(partial(setattr, options, "terminate", True)):
            try:
                arrays = self._session.run(names, dict(inputs), options)
            except Exception:  # what onnxruntime raises when it is stopped has no type of its own
                stop.check()
                raise
        return dict(zip(names, arrays, strict=True))

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
        for _ in self._workers.map(work, items):
            pass

    def _start_workers(self) -> ThreadPoolExecutor:
        self._thread = thread = threading.local()
        return ThreadPoolExecutor(
            self.threads,
            thread_name_prefix="foretell",
            initializer=lambda: setattr(thread, "is_worker", True),
        )


def _check_options(device: str, threads: int | None) -> None:
    problems = []
    if device not in get_args(Device):
        problems.append(f"device is {device!r}; expected one of {', '.join(get_args(Device))}.")
    if threads is not None and threads < 1:
        problems.append(f"threads is {threads}; expected at least 1, or none for all that may be.")
    if problems:
        raise OptionError(problems)


def _open(bundle: Bundle, spec: GraphSpec, device: str) -> Any:
    missing = None if device == "cpu" else _why_no_cuda()
    if device == "cuda" and missing is not None:
        raise _no_cuda(missing)
    if device != "cpu" and missing is None:
        try:
            return _open_cuda(bundle, spec)
        except DeviceError as error:
            if device == "cuda":
                raise
            log.warning("on the CPU, because: %s", error)
    return _create(bundle, spec, [CPU_PROVIDER])


def _open_cuda(bundle: Bundle, spec: GraphSpec) -> Any:
    # The extra [cuda] brings the libraries as Python packages, where the loader doesn't look.
    with contextlib.redirect_stdout(sys.stderr):
        ort.preload_dlls()
    try:
        session = _create(bundle, spec, [(CUDA_PROVIDER, _CUDA_OPTIONS), CPU_PROVIDER])
    except BundleError as error:
        raise _no_cuda(str(error)) from error
    if session.get_providers()[0] != CUDA_PROVIDER:  # onnxruntime goes on without it, silently
        raise _no_cuda("a GPU is there, but the CUDA or cuDNN libraries can't be loaded")
    return session


def _create(bundle: Bundle, spec: GraphSpec, providers: Sequence[Any]) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # the default is the whole machine, allowed or not
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = False  # one pattern is kept per shape, and shapes vary
    options.log_severity_level = 4  # what goes wrong is raised; stderr is the caller's
    try:
        return ort.InferenceSession(
            bundle.path / spec.file, options, providers=providers, enable_fallback=0
        )
    except Exception as error:  # onnxruntime's errors have no ancestor of their own
        raise BundleError(
            f"bundle {bundle.path}: onnxruntime {ort.__version__} can't load {spec.file} "
            f"(opset {spec.opset}): {str(error).splitlines()[0]}"
        ) from error


def _why_no_cuda() -> str | None:
    """Say why CUDA can't be had, or None where it may be."""
    if CUDA_PROVIDER not in ort.get_available_providers():
        return "this onnxruntime has no CUDA in it; install foretell[cuda]"
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver"
    count = ctypes.c_int(0)
    if (
        driver.cuInit(0) != 0
        or driver.cuDeviceGetCount(ctypes.byref(count)) != 0
        or not count.value
    ):
        return "the NVIDIA driver shows no GPU"
    return None


def _no_cuda(reason: str) -> DeviceError:
    return DeviceError(
        f"device is 'cuda', but {CUDA_PROVIDER} can't be had: {reason}. "
        "Set that right, or choose the device 'cpu' or 'auto'."
    )


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
