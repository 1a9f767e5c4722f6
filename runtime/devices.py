"""Where graphs run: onnxruntime sessions on the CPU or on CUDA, and why CUDA can't be had.

CUDA that is asked for and can't be had is an error; onnxruntime itself would go on on the CPU.
"""

import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import onnxruntime as ort

from foretell.data.errors import BundleError, DeviceError, OptionError
from foretell.runtime.forks import ForkSafe

Device = Literal["auto", "cpu", "cuda"]

CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"

# Most MiB of GPU memory that the arena of one graph may take; unset, whatever the GPU has.
GPU_MEMORY_VARIABLE = "FORETELL_GPU_MEMORY_MIB"

_CUDA_OPTIONS = {
    # TensorFloat-32 would round float32 products to 10 bits: not what was trained and compared.
    "use_tf32": "0",
    # Shapes vary: trying every algorithm for each of them would take longer than it saves.
    "cudnn_conv_algo_search": "HEURISTIC",
    # A decoder's caches grow by an entry a step. Extended by exactly what is asked for, the arena
    # keeps a region for every length that there was, and none of them holds the next.
    "arena_extend_strategy": "kNextPowerOfTwo",
}

log = logging.getLogger(__name__)


def device_problems(device: str) -> list[str]:
    """Tell what is wrong with a device's name; nothing where nothing is."""
    if device in get_args(Device):
        return []
    return [f"device is {device!r}; expected one of {', '.join(get_args(Device))}."]


def open_graph(graph: Path | bytes, name: str, device: str) -> Any:
    """Load a graph on a device.

    Args:
        graph: A file, or its bytes.
        name: What to call it in errors.
        device: "cpu"; "cuda"; or "auto", which is CUDA where it works and else the CPU.

    Returns:
        An `onnxruntime.InferenceSession`, usable after a fork as well, whose first provider is the
        one in use.

    Raises:
        BundleError: onnxruntime can't load the graph.
        DeviceError: CUDA was asked for and can't be had.
        OptionError: The limit of the GPU's memory is no number.
    """
    missing = None if device == "cpu" else why_no_cuda()
    if device == "cuda" and missing is not None:
        raise _no_cuda(missing)
    if device != "cpu" and missing is None:
        try:
            return _open_cuda(graph, name)
        except DeviceError as error:
            if device == "cuda":
                raise
            log.warning("on the CPU, because: %s", error)
    return _create(graph, name, [CPU_PROVIDER])


def why_no_cuda() -> str | None:
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


def cuda_options() -> dict[str, str]:
    """Return the CUDA provider's options.

    Raises:
        OptionError: The limit of the GPU's memory is no number.
    """
    limit = os.environ.get(GPU_MEMORY_VARIABLE, "")
    if not limit:
        return _CUDA_OPTIONS
    if not limit.isascii() or not limit.isdigit() or int(limit) < 1:
        raise OptionError(
            f"{GPU_MEMORY_VARIABLE} is {limit!r}; expected whole MiB, at least 1, such as 4096."
        )
    return {**_CUDA_OPTIONS, "gpu_mem_limit": str(int(limit) * 1024 * 1024)}


def _open_cuda(graph: Path | bytes, name: str) -> Any:
    # The extra [cuda] brings the libraries as Python packages, where the loader doesn't look.
    with contextlib.redirect_stdout(sys.stderr):
        ort.preload_dlls()
    try:
        session = _create(graph, name, [(CUDA_PROVIDER, cuda_options()), CPU_PROVIDER])
    except BundleError as error:
        raise _no_cuda(str(error)) from error
    if session.get_providers()[0] != CUDA_PROVIDER:  # onnxruntime goes on without it, silently
        raise _no_cuda("a GPU is there, but the CUDA or cuDNN libraries can't be loaded")
    return session


def _create(graph: Path | bytes, name: str, providers: Sequence[Any]) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # the default is the whole machine, allowed or not
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = False  # one pattern is kept per shape, and shapes vary
    options.log_severity_level = 4  # what goes wrong is raised; stderr is the caller's
    try:
        return ForkSafe(
            partial(ort.InferenceSession, graph, options, providers=providers, enable_fallback=0),
            graph,
        )
    except Exception as error:  # onnxruntime's errors have no ancestor of their own
        raise BundleError(
            f"onnxruntime {ort.__version__} can't load {name}: {str(error).splitlines()[0]}"
        ) from error


def _no_cuda(reason: str) -> DeviceError:
    return DeviceError(
        f"device is 'cuda', but {CUDA_PROVIDER} can't be had: {reason}. "
        "Set that right, or choose the device 'cpu' or 'auto'."
    )
