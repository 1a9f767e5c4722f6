"""What runs: ONNX sessions, batches, search; forecasts and translations in the caller's process.

`from foretell.runtime import load; load("models/demand").forecast(df, horizon=24)`. No torch.
"""

import os

# Else onnxruntime tells its maker of each process and model, and keeps an id of this machine in the
# user's folder. What nobody asked for is not sent; whoever wants it sets this to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

from foretell.data.bundle import read_bundle, resolve_bundle
from foretell.runtime.forecaster import Forecaster
from foretell.runtime.translator import Translator

__all__ = ["Forecaster", "Translator", "load", "load_forecaster", "load_translator"]


def load(
    path: str | os.PathLike[str], *, device: str = "auto", threads: int | None = None
) -> Forecaster | Translator:
    """Load a model of any kind for use in this process.

    Args:
        path: A bundle's folder, or a model's folder, whose newest version is taken.
        device: "cpu"; "cuda"; or "auto", which is CUDA where it works and else the CPU.
        threads: Compute threads; None takes the cores that this process may use.

    Raises:
        BundleError: The bundle is missing, incomplete or damaged.
        DeviceError: CUDA was asked for and can't be had.
        OptionError: `device` or `threads` is none that there is.
    """
    bundle = read_bundle(resolve_bundle(path))
    if bundle.manifest.kind == "forecaster":
        return Forecaster(bundle, device=device, threads=threads)
    return Translator(bundle, device=device, threads=threads)


def load_forecaster(
    path: str | os.PathLike[str], *, device: str = "auto", threads: int | None = None
) -> Forecaster:
    """Load a forecaster; as `load`, but a `BundleError` where it is a translator."""
    return Forecaster(path, device=device, threads=threads)


def load_translator(
    path: str | os.PathLike[str], *, device: str = "auto", threads: int | None = None
) -> Translator:
    """Load a translator; as `load`, but a `BundleError` where it is a forecaster."""
    return Translator(path, device=device, threads=threads)
