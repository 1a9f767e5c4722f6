"""Who computes a job's forecasts: a model in this process, or a server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import pandas as pd

from foretell.client import Client, Credentials
from foretell.client.models import forecaster_of
from foretell.data.bundle import ForecasterSpec
from foretell.data.options import Columns
from foretell.runtime import load_forecaster


class Forecast(Protocol):
    """The call that all doors share."""

    def __call__(
        self,
        df: pd.DataFrame,
        horizon: int,
        *,
        quantiles: Sequence[float] | None,
        level: Sequence[float] | None,
        freq: str | None,
        future: pd.DataFrame | None,
        id_col: str,
        time_col: str,
        target_col: str,
        time_zone: str | None,
        allow_other_frequency: bool,
    ) -> pd.DataFrame:
        """Forecast a table; the options are those of `Forecaster.forecast`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Door:
    """An open way to a model.

    Attributes:
        forecast: Asks for forecasts.
        where: What computes them, for people to read.
        spec: What the model was trained for.
    """

    forecast: Forecast
    where: str
    spec: ForecasterSpec


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
    yield Door(forecast=forecaster.forecast, where=forecaster.provider, spec=spec)


@contextmanager
def remote_door(target: str, *, model: str | None = None) -> Iterator[Door]:
    """Connect to a server, with the credentials of the environment.

    Raises:
        OptionError: The credentials contradict, or a token would go in clear to another machine.
        RemoteError: It can't be reached, or has no such forecaster.
    """
    with Client(target, credentials=Credentials.from_environment()) as client:
        info = client.describe(model)
        yield Door(
            forecast=partial(client.forecast, model=model),
            where=f"{info.name} version {info.version} at {target} ({info.provider})",
            spec=forecaster_of(info, target),
        )
