"""What runs: ONNX sessions, batches, search; forecasts and translations in the caller's process.

`from foretell.runtime import load; load("models/demand").forecast(df, horizon=24)`. No torch.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# Else onnxruntime tells its maker of each process and model, and keeps an id of this machine in the
# user's folder. What nobody asked for is not sent; whoever wants it sets this to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from foretell.runtime.forecaster import Forecaster
    from foretell.runtime.translator import Translator

__all__ = ["Forecaster", "Translator", "load", "load_forecaster", "load_translator"]

# A door opens at once; what is behind it comes with the first model: onnxruntime, numpy, pandas.
_BEHIND = {"Forecaster": "foretell.runtime.forecaster", "Translator": "foretell.runtime.translator"}


def __getattr__(name: str) -> Any:
    if name not in _BEHIND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_BEHIND[name]), name)


def load(
    path: str | os.PathLike[str], *, device: str = "auto", threads: int | None = None
) -> "Forecaster | Translator":
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
    from foretell.data.bundles.bundle import read_bundle, resolve_bundle

    bundle = read_bundle(resolve_bundle(path))
    if bundle.manifest.kind == "forecaster":
        from foretell.runtime.forecaster import Forecaster

        return Forecaster(bundle, device=device, threads=threads)
    from foretell.runtime.translator import Translator

    return Translator(bundle, device=device, threads=threads)


def load_forecaster(
    path: str | os.PathLike[str], *, device: str = "auto", threads: int | None = None
) -> "Forecaster":
    """Load a forecaster; as `load`, but a `BundleError` where it is a translator."""
    from foretell.runtime.forecaster import Forecaster

    return Forecaster(path, device=device, threads=threads)


def load_translator(
    path: str | os.PathLike[str], *, device: str = "auto", threads: int | None = None
) -> "Translator":
    """Load a translator; as `load`, but a `BundleError` where it is a forecaster."""
    from foretell.runtime.translator import Translator

    return Translator(path, device=device, threads=threads)
