"""Loads a bundle for serving: ready means checked and warm, and nobody has to wait for it."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from foretell.data.bundles.bundle import Bundle, ForecasterSpec, read_bundle
from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import Rows
from foretell.runtime import Forecaster, Translator
from foretell.runtime.devices import why_no_cuda
from foretell.runtime.selfcheck import check_sample, check_translator_sample

Done = TypeVar("Done")

_NICE = 10  # a thread of it gets a tenth of a core that another one wants


def load_warm(path: Path, *, device: str, threads: int | None) -> Forecaster | Translator:
    """Load a bundle, and let it answer its own sample before anybody else asks.

    So a graph that computes something else here than where it was exported never serves, and the
    first caller doesn't wait for what is done once, by onnxruntime or by ourselves.

    Args:
        path: The bundle's folder.
        device: "auto", "cpu" or "cuda".
        threads: Compute threads; None takes the cores that this process may use.

    Raises:
        BundleError: The bundle is missing, incomplete or damaged, or answers its sample wrongly.
        DeviceError: CUDA was asked for and can't be had.
        OptionError: `device` or `threads` is none that there is.
    """
    load = partial(_load, path, device=device, threads=threads)
    # CUDA's own threads are begun by whoever opens it, and would stay as slow as that one.
    is_on_cpu = device == "cpu" or why_no_cuda() is not None
    bundle, model = _behind_all_others(load) if is_on_cpu else load()
    # Threads that a model keeps begin here, not there.
    if isinstance(model, Forecaster):
        check_sample(bundle, model.session)
        _forecast_once(model, bundle.manifest.forecaster)
    else:
        check_translator_sample(bundle, model)
    return model


def _load(
    path: Path, *, device: str, threads: int | None
) -> tuple[Bundle, Forecaster | Translator]:
    bundle = read_bundle(path)
    kind = Forecaster if bundle.manifest.kind == "forecaster" else Translator
    return bundle, kind(bundle, device=device, threads=threads)


def _behind_all_others(work: Callable[[], Done]) -> Done:
    """Have work done in a thread that leaves the cores to those who answer callers."""
    done: Future[Done] = Future()

    def run() -> None:
        if sys.platform == "linux":  # elsewhere it would slow the whole process
            with contextlib.suppress(OSError):
                this = threading.get_native_id()
                nice = max(_NICE, os.getpriority(os.PRIO_PROCESS, this))
                os.setpriority(os.PRIO_PROCESS, this, nice)
        try:
            done.set_result(work())
        except BaseException as error:  # for whoever waits
            done.set_exception(error)

    threading.Thread(target=run, name="loading", daemon=True).start()
    return done.result()


def _forecast_once(forecaster: Forecaster, spec: ForecasterSpec | None) -> None:
    """Forecast a series by the way that requests take, so that what they need first is there."""
    assert spec is not None
    future = None
    steps = 2 * spec.patch_length
    if spec.future_covariates:
        future = _series(steps, spec.horizon, len(spec.future_covariates), 0, is_known=True)
    columns = len(spec.future_covariates) + len(spec.past_covariates)
    options = ForecastOptions(
        horizon=spec.horizon,
        quantile_levels=spec.quantile_levels,
        freq="1",
        allow_other_frequency=True,
    )
    forecaster.forecast_rows(_series(0, steps, columns, len(spec.static)), future, options)


def _series(first: int, steps: int, columns: int, static: int, *, is_known: bool = False) -> Rows:
    """One series from a step on; a known future has no target."""
    return Rows(
        ids=pd.Index(["0"], dtype=object),
        indptr=np.array([0, steps]),
        stamps=np.arange(first, first + steps),
        stamp_kind="integer",
        time_zone=None,
        target=np.arange(0.0 if is_known else float(steps)),
        covariates=np.zeros((steps, columns)),
        static=np.zeros((1, static)),
        positions=np.array([0]),
    )
