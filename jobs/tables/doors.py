"""Who computes a job's forecasts: here a model in this process; `remote_door` is a server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from foretell.data.bundles.bundle import ForecasterSpec
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import PanelForecast, Rows
from foretell.jobs.journals.sealed import model_fingerprint
from foretell.jobs.pool import Pool
from foretell.runtime import load_forecaster
from foretell.runtime.search.stopping import Stop


class ForecastRows(Protocol):
    """The call that all doors share."""

    def __call__(self, rows: Rows, future: Rows | None, options: ForecastOptions) -> PanelForecast:
        """Forecast typed rows; see `Forecaster.forecast_rows`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Door:
    """An open way to a model.

    Attributes:
        forecast_rows: Asks for forecasts; several threads may.
        where: What computes them, for people to read.
        spec: What the model was trained for.
        fingerprint: Of the model: another one has another.
        in_flight: Chunks that are worth being asked for at a time.
        stop: Has what is being computed end soon.
        busy_s: Seconds in which the model's graphs have been running so far, summed over all
            threads; None where something else computes.
        threads: That compute at a time.
        pool: Processes that compute whole chunks, where there are any.
    """

    forecast_rows: ForecastRows
    where: str
    spec: ForecasterSpec
    fingerprint: str = ""
    in_flight: int = 2
    stop: Callable[[], None] = lambda: None
    busy_s: Callable[[], float] | None = None
    threads: int = 1
    pool: "Pool[Door] | None" = None


def with_covariates(columns: Columns, spec: ForecasterSpec) -> Columns:
    """Add a model's covariates to the columns that a user named."""
    return replace(
        columns,
        future_covariates=spec.future_covariates,
        past_covariates=spec.past_covariates,
        static=spec.static,
    )


OpenDoor = Callable[[], AbstractContextManager[Door]]


@contextmanager
def local_door(model: Path, *, device: str = "auto", threads: int | None = None) -> Iterator[Door]:
    """Load a model into this process.

    Raises:
        BundleError: It can't be loaded, or is no forecaster.
        DeviceError: The device can't be had.
    """
    forecaster = load_forecaster(model, device=device, threads=threads)
    spec = forecaster.manifest.forecaster
    assert spec is not None  # a Forecaster refuses bundles that hold none
    stop = Stop()
    yield Door(
        forecast_rows=partial(forecaster.forecast_rows, stop=stop),
        where=forecaster.provider,
        spec=spec,
        fingerprint=model_fingerprint(forecaster.manifest),
        stop=stop.set,
        busy_s=lambda: forecaster.busy_s,
        threads=forecaster.threads,
    )
