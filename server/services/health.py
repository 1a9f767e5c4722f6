"""Answers grpc.health.v1: asked, listed or watched, and no watcher can hold up another.

The library's own servicer for asyncio writes while it holds a lock of the name that is watched, so
one caller that reads nothing would keep all others from their answers, and the server from its end.
"""

import asyncio
from collections.abc import AsyncIterator

import grpc
from grpc_health.v1 import health_pb2 as wire
from grpc_health.v1.health_pb2_grpc import HealthServicer

from foretell.server.calls.request_sizes import LONGEST_NAME
from foretell.server.errors import MessageSizeError, RequestError

Status = wire.HealthCheckResponse

_MOST_SAID = 128  # characters of a name that is said again
_MOST_LISTED = 100  # by health.proto, which wants RESOURCE_EXHAUSTED for more


class HealthService(HealthServicer):  # type: ignore[misc]  # grpc_health has no types
    """What is known of each name; all methods belong to the event loop.

    A watcher gets the newest status when gRPC has sent the one before: what it was too slow for is
    left out, so that nothing piles up.
    """

    def __init__(self) -> None:
        self._statuses: dict[str, int] = {}
        self._watchers: dict[str, set[asyncio.Event]] = {}

    def set(self, name: str, status: int) -> None:
        """Say from now on how a service is; whoever watches it is told when it can hear.

        Args:
            name: Of the service; empty for the server as a whole.
            status: One of `HealthCheckResponse.ServingStatus`.
        """
        self._statuses[name] = status
        for changed in self._watchers.get(name, ()):
            changed.set()

    async def Check(  # noqa: N802  # gRPC's name
        self, request: wire.HealthCheckRequest, context: grpc.aio.ServicerContext
    ) -> wire.HealthCheckResponse:
        """Say how a service is."""
        status = self._statuses.get(_name(request))
        if status is None:
            await context.abort(
                grpc.StatusCode.NOT_FOUND,
                f"health knows no service of this name, {request.service[:_MOST_SAID]!r}; ask for "
                'a model by its name, for a service of this server, or for "", the whole server.',
            )
        return Status(status=status)

    async def List(  # noqa: N802  # gRPC's name
        self, request: wire.HealthListRequest, context: grpc.aio.ServicerContext
    ) -> wire.HealthListResponse:
        """Say how all services are."""
        if len(self._statuses) > _MOST_LISTED:
            raise MessageSizeError(
                f"health knows {len(self._statuses)} names and lists {_MOST_LISTED} at most; "
                "ask for one (Check), or list the models (foretell.v1.Models/List)."
            )
        return wire.HealthListResponse(
            statuses={name: Status(status=status) for name, status in self._statuses.items()}
        )

    async def Watch(  # noqa: N802  # gRPC's name
        self, request: wire.HealthCheckRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[wire.HealthCheckResponse]:
        """Say how a service is, now and whenever it changes; one that isn't known may come."""
        name = _name(request)
        del request
        changed = asyncio.Event()
        self._watchers.setdefault(name, set()).add(changed)
        told = None
        try:
            while True:
                changed.clear()
                status = self._statuses.get(name, Status.SERVICE_UNKNOWN)
                if status == told:
                    await changed.wait()
                else:
                    told = status
                    yield Status(status=status)
        finally:
            self._watchers[name].discard(changed)
            if not self._watchers[name]:
                del self._watchers[name]


def _name(request: wire.HealthCheckRequest) -> str:
    name: str = request.service
    if len(name) > LONGEST_NAME or len(name.encode()) > LONGEST_NAME:
        raise RequestError(
            f"service has {len(name.encode()):,} bytes; no service's name is longer than "
            f"{LONGEST_NAME:,}. Name one that this server has."
        )
    return name
