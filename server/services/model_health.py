"""What health says of the server, its services, and each model by its name."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from grpc_health.v1 import health, health_pb2

from foretell.server.models.repository import Repository
from foretell.server.services.health import HealthService

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

LIVENESS = health.SERVICE_NAME
"""The name that serves as long as the process answers, models or none, also while it stops.

Whoever restarts what isn't alive must not take an empty server or a stopping one for dead.
"""


class ModelHealth:
    """Follows the repository until the server stops; all methods belong to the event loop.

    The server as a whole, the empty name, serves while any model does; a load of one model says
    nothing of the others.

    Attributes:
        servicer: Answers grpc.health.v1.
    """

    def __init__(self, repository: Repository, services: Sequence[str]) -> None:
        self.servicer = HealthService()
        self._repository = repository
        self._services = tuple(services)
        self._names: set[str] = set()
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Say how things are now, and after every change."""
        loop = asyncio.get_running_loop()

        def on_change() -> None:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(self._changed.set)

        self._unsubscribe = self._repository.subscribe(on_change)
        self._tell()
        self._following = asyncio.create_task(self._follow())

    def stop(self) -> None:
        """Say NOT_SERVING of everything but being alive, for good."""
        self._unsubscribe()
        if self._following is not None:
            self._following.cancel()
        for name in {"", *self._services, *self._names} - {LIVENESS}:
            self.servicer.set(name, _NOT_SERVING)

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._tell()

    def _tell(self) -> None:
        models = self._repository.models
        # A name that was known once is told of from then on: a watcher waits for its return.
        self._names |= {status.name for status in self._repository.statuses()}
        serving = {"": bool(models)} | dict.fromkeys(self._services, True)
        serving |= {name: name in models for name in self._names} | {LIVENESS: True}
        for name, is_serving in serving.items():
            self.servicer.set(name, _SERVING if is_serving else _NOT_SERVING)
