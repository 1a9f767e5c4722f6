"""A server that computes a job's forecasts; apart, for clients take time to import."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from foretell.client.models import forecaster_of
from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import PanelForecast, Rows
from foretell.jobs.journals.sealed import fingerprint
from foretell.jobs.servers import IN_FLIGHT, PATIENCE_S, JobServer, job_server
from foretell.jobs.tables.doors import Door


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
    # One of each chunk: as many are on their way as there are chunks.
    with job_server(target, model=model, in_flight=1, patience_s=patience_s) as server:
        yield Door(
            forecast_rows=partial(_ask, server),
            where=server.where,
            spec=forecaster_of(server.info, target),
            fingerprint=fingerprint(server.info.manifest),
            in_flight=in_flight,
            stop=server.stop,
        )


def _ask(
    server: JobServer, rows: Rows, future: Rows | None, options: ForecastOptions
) -> PanelForecast:
    server.check_model()
    return server.client.forecast_rows(rows, future, options, server.info)
