"""Who computes a job's forecasts: a model in this process, or a server."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from foretell.client import Client, Credentials, RemoteError
from foretell.client.models import ModelInfo, forecaster_of
from foretell.data.bundle import ForecasterSpec
from foretell.data.errors import ForetellError
from foretell.data.options import Columns, ForecastOptions
from foretell.data.panel import PanelForecast, Rows
from foretell.jobs.journal import fingerprint
from foretell.jobs.pool import Pool
from foretell.runtime import load_forecaster

# A night's job waits for a server that is started anew; whoever sits before it can stop it.
PATIENCE_S = 600.0
IN_FLIGHT = 4
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0
# Rows that are computed together: for a model in this process as many as keep all cores busy, for
# a server about what a request holds, so that several are on their way.
LOCAL_ROWS, REMOTE_ROWS = 1 << 18, 1 << 16


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
        chunk_rows: Rows of history that are asked for together.
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
    chunk_rows: int = LOCAL_ROWS
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
    yield Door(
        forecast_rows=forecaster.forecast_rows,
        where=forecaster.provider,
        spec=spec,
        fingerprint=fingerprint(json.loads(forecaster.manifest.to_json())),
        in_flight=2,
        busy_s=lambda: forecaster.busy_s,
        threads=forecaster.threads,
    )


@contextmanager
def remote_door(
    target: str,
    *,
    model: str | None = None,
    in_flight: int = IN_FLIGHT,
    patience_s: float = PATIENCE_S,
) -> Iterator[Door]:
    """Connect to a server, with the credentials of the environment.

    Args:
        target: HOST:PORT of the server.
        model: Its name there; None where the server has one.
        in_flight: Requests that are on their way at a time.
        patience_s: Seconds that a request may take, those included in which the server is full, or
            isn't there; where none is at the beginning, nothing is waited for.

    Raises:
        OptionError: The credentials contradict, or a token would go in clear to another machine.
        RemoteError: It can't be reached, or has no such forecaster.
    """
    with Client(
        target,
        credentials=Credentials.from_environment(),
        in_flight=1,  # of each chunk, so that there are as many as there are chunks
        timeout_s=patience_s,
        retry_s=patience_s,
    ) as client:
        info = client.describe(model)
        server = _Server(client, info, patience_s)
        yield Door(
            forecast_rows=server.forecast_rows,
            where=f"{info.name} version {info.version} at {target} ({info.provider})",
            spec=forecaster_of(info, target),
            fingerprint=fingerprint(info.manifest),
            in_flight=in_flight,
            chunk_rows=REMOTE_ROWS,
            stop=server.stop,
        )


class _Server:
    """Has one version of one model answer, as long as the server has it."""

    def __init__(self, client: Client, info: ModelInfo, patience_s: float) -> None:
        self._client = client
        self._info = info
        self._patience_s = patience_s
        self._is_stopped = threading.Event()

    def forecast_rows(
        self, rows: Rows, future: Rows | None, options: ForecastOptions
    ) -> PanelForecast:
        """Ask, once it is sure that the model is still the one that the job began with.

        Raises:
            ForetellError: It is another one.
            RemoteError: The server can't be reached for longer than the job is patient.
        """
        self._check_model()
        return self._client.forecast_rows(rows, future, options, self._info)

    def stop(self) -> None:
        """End all calls."""
        self._is_stopped.set()
        self._client.close()

    def _check_model(self) -> None:
        was, now = self._info, self._described()
        if (now.version, now.manifest) == (was.version, was.manifest):
            return
        found = f"version {now.version}"
        if now.version == was.version:
            found = f"another version {now.version}"
        raise ForetellError(
            f"server {self._client.target} has {found} of {was.name} now, and this job began with "
            f"version {was.version}: half of the output would be of another model. Let the server "
            "have that version again (foretell serve --pin), or start anew (overwrite)."
        )

    def _described(self) -> ModelInfo:
        """Ask for the model's description, and wait for a server that is started anew."""
        end, wait_s = time.monotonic() + self._patience_s, _FIRST_WAIT_S
        while True:
            try:
                return self._client.describe(self._info.name)
            except RemoteError as error:
                if error.code != "UNAVAILABLE" or time.monotonic() + wait_s > end:
                    raise
            if self._is_stopped.wait(wait_s * random.uniform(0.5, 1.0)):
                raise ForetellError("the job was stopped.")
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
