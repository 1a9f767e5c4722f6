"""Loads a bundle for serving: ready means checked and warm."""

from pathlib import Path

from foretell.data.bundle import read_bundle
from foretell.runtime import Forecaster, Translator
from foretell.runtime.selfcheck import check_sample, check_translator_sample


def load_warm(path: Path, *, device: str, threads: int | None) -> Forecaster | Translator:
    """Load a bundle, and let it answer its own sample before anybody else asks.

    So a graph that computes something else here than where it was exported never serves, and the
    first caller doesn't wait for what onnxruntime does once.

    Args:
        path: The bundle's folder.
        device: "auto", "cpu" or "cuda".
        threads: Compute threads; None takes the cores that this process may use.

    Raises:
        BundleError: The bundle is missing, incomplete or damaged, or answers its sample wrongly.
        DeviceError: CUDA was asked for and can't be had.
        OptionError: `device` or `threads` is none that there is.
    """
    bundle = read_bundle(path)
    if bundle.manifest.kind == "forecaster":
        forecaster = Forecaster(bundle, device=device, threads=threads)
        check_sample(bundle, forecaster.session)
        return forecaster
    translator = Translator(bundle, device=device, threads=threads)
    check_translator_sample(bundle, translator)
    return translator
