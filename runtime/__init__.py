"""What runs: ONNX sessions, batching, and forecasts in the caller's own process. No torch.

`from foretell.runtime import load; load("models/demand").forecast(df, horizon=24)`
"""

import os

from foretell.runtime.forecaster import Forecaster

__all__ = ["Forecaster", "load"]


def load(
    path: str | os.PathLike[str], *, device: str = "auto", threads: int | None = None
) -> Forecaster:
    """Load a model for use in this process.

    Args:
        path: A bundle's folder, or a model's folder, whose newest version is taken.
        device: "cpu"; "cuda"; or "auto", which is CUDA where it works and else the CPU.
        threads: Compute threads; None takes the cores that this process may use.

    Raises:
        BundleError: The bundle is missing, incomplete, damaged, or holds no forecaster.
        DeviceError: CUDA was asked for and can't be had.
        OptionError: `device` or `threads` is none that there is.
    """
    return Forecaster(path, device=device, threads=threads)
