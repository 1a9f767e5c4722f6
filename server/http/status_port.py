"""The HTTP port of a server: Prometheus' metrics, a health answer, and the status page."""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus

from foretell.server.errors import ListenError
from foretell.server.http.guard import HttpGuard
from foretell.server.http.metrics import CONTENT_TYPE, Metrics
from foretell.server.http.model_states import ReadStates
from foretell.server.http.port import HttpPort, Page
from foretell.server.http.recent import STEP_S, Recent
from foretell.server.http.status_page import ServerStatus, write_fragment, write_json, write_page
from foretell.server.listen import check_address, is_same_place, is_unix, split_address
from foretell.server.telemetry.observing import Observer

OFF = "none"
NEXT = "next"
HEALTH = ("/healthz", "/livez")
"""Pages for probes, which have no tokens."""
_LARGEST_PORT = 65_535


def metrics_address(metrics: str, listen: str) -> str:
    """Where the HTTP port is, empty for nowhere.

    Args:
        metrics: HOST:PORT, "none", or "next" for gRPC's host and the port after its own. A gRPC
            port 0 gives port 0. A socket in the file system gives none: whoever has one may mean
            to be reached by nobody else.
        listen: gRPC's address.

    Raises:
        AddressError: One of them is no address.
    """
    if metrics == OFF or (metrics == NEXT and is_unix(listen)):
        return ""
    if metrics != NEXT:
        split_address(metrics, "metrics", f"{NEXT}, or {OFF}")
        return metrics
    host, port = split_address(listen)
    return f"{host}:{port + 1 if 0 < port < _LARGEST_PORT else 0}"


def check_metrics(address: str, listen: str) -> None:
    """Check that the HTTP port can be had.

    Args:
        address: HOST:PORT, or empty.
        listen: gRPC's address, which can be had.

    Raises:
        ListenError: It can't; the reason is named, and what to do.
    """
    if not address:
        return
    try:
        check_address(address)
        _check_apart(address, listen)
    except ListenError as error:
        raise ListenError(
            f"{error} That is the HTTP port of metrics and the status page; choose another one "
            "by --metrics HOST:PORT, or do without: --metrics none."
        ) from error


def _check_apart(address: str, listen: str) -> None:
    """Workers share their ports, so the system would give them one for both."""
    if is_same_place(address, listen):
        raise ListenError(f"can't listen on {address}: gRPC's port is that of {listen}.")


class StatusPort:
    """Serves over HTTP what the observer counted; all methods belong to the server's event loop."""

    def __init__(
        self,
        address: str,
        observer: Observer,
        read_states: ReadStates,
        is_serving: Callable[[], bool],
        *,
        guard: HttpGuard | None = None,
    ) -> None:
        """Note what to serve.

        Args:
            address: HOST:PORT; port 0 takes a free one.
            observer: Whose counts.
            read_states: The versions that there are.
            is_serving: Whether new calls are taken.
            guard: Who may look; None lets everybody look, in clear.
        """
        self._scheme = "https" if guard is not None and guard.is_secure else "http"
        self._recent = Recent(observer, read_states)
        self._is_serving = is_serving
        self._grpc_address = ""
        self._start_s = time.monotonic()
        self._keeping: asyncio.Task[None] | None = None
        metrics = Metrics(observer, read_states)
        self._port = HttpPort(
            address,
            {
                "/": lambda: write_page(self._status()),
                "/metrics": lambda: Page(metrics.write(), CONTENT_TYPE),
                "/healthz": self._health,
                "/livez": lambda: Page(b"alive\n"),
                "/status": lambda: write_fragment(self._status()),
                "/status.json": lambda: write_json(self._status()),
            },
            guard,
        )

    @property
    def address(self) -> str:
        """HOST:PORT, as bound once started."""
        return self._port.address

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"{self._scheme}://{self.address}"

    async def start(self, grpc_address: str, *, shared: bool = False) -> None:
        """Listen.

        Args:
            grpc_address: What the page is headed with.
            shared: Whether other processes of ours listen at the address too.

        Raises:
            ListenError: The address can't be had.
        """
        self._grpc_address = grpc_address
        await self._port.start(shared=shared)
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Listen no more."""
        if self._keeping is not None:
            self._keeping.cancel()
        await self._port.stop()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(STEP_S)
            self._recent.keep()

    def _health(self) -> Page:
        if self._is_serving():
            return Page(b"serving\n")
        return Page(b"not serving\n", status=HTTPStatus.SERVICE_UNAVAILABLE)

    def _status(self) -> ServerStatus:
        return ServerStatus(
            address=self._grpc_address,
            is_serving=self._is_serving(),
            uptime_s=time.monotonic() - self._start_s,
            models=self._recent.models(),
        )
