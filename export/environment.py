"""What a proof ran on: the versions of the libraries, and their threads."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

import torch


def tool_versions() -> dict[str, str]:
    """Return the versions of everything that takes part in an export."""
    import onnxruntime  # noqa: PLC0415  - installed under one of two distribution names

    names = ("foretell", "torch", "onnx", "onnxscript", "numpy")
    return {
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
        **{name: _version(name) for name in names},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # a checkout, or a folder that a wheel was unpacked in
        return "not installed"


@contextmanager
def torch_threads(most: int) -> Iterator[None]:
    """Let torch use no more threads than the session beside it; it counts the whole machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, most))
    try:
        yield
    finally:
        torch.set_num_threads(before)
