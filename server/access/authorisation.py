"""Which calls need a token, and of which group: an interceptor before any payload is read."""

import asyncio
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import grpc

from foretell.data.errors import ForetellError
from foretell.server.access.tokens import GROUPS, TokenFile
from foretell.server.calls.receiving import Continuation
from foretell.server.errors import ForbiddenError, UnauthenticatedError
from foretell.server.telemetry.call_notes import note_token

_HEALTH = "health"
_ANY = frozenset(GROUPS)
_INFERENCE = frozenset({"inference"})
_REPOSITORY = frozenset({"repository"})
METADATA = frozenset({"metadata"})
"""What looks at models and changes nothing, the HTTP port too."""

# What a caller must know of a model to ask it belongs to inference too; a method that stands
# nowhere needs the strongest group.
_SERVICES = {
    "/foretell.v1.Forecaster": _INFERENCE,
    "/foretell.v1.Translator": _INFERENCE,
    "/grpc.reflection.v1.ServerReflection": _ANY,
    "/grpc.reflection.v1alpha.ServerReflection": _ANY,
    "/grpc.health.v1.Health": frozenset({_HEALTH}),
}
_METHODS = {
    "/grpc.health.v1.Health/List": METADATA | _REPOSITORY,  # it tells names of models
    "/foretell.v1.Models/List": METADATA | _REPOSITORY,
    "/foretell.v1.Models/Describe": METADATA | _INFERENCE,
    "/foretell.v1.Models/Load": _REPOSITORY,
    "/foretell.v1.Models/Unload": _REPOSITORY,
    "/inference.GRPCInferenceService/ServerLive": frozenset({_HEALTH}),
    "/inference.GRPCInferenceService/ServerReady": frozenset({_HEALTH}),
    "/inference.GRPCInferenceService/ModelReady": frozenset({_HEALTH}),
    "/inference.GRPCInferenceService/ServerMetadata": METADATA | _INFERENCE,
    "/inference.GRPCInferenceService/ModelMetadata": METADATA | _INFERENCE,
    "/inference.GRPCInferenceService/ModelConfig": METADATA | _INFERENCE,
    "/inference.GRPCInferenceService/ModelStatistics": METADATA,
    "/inference.GRPCInferenceService/ModelInfer": _INFERENCE,
    "/inference.GRPCInferenceService/ModelStreamInfer": _INFERENCE,
    "/inference.GRPCInferenceService/RepositoryIndex": METADATA | _REPOSITORY,
    "/inference.GRPCInferenceService/RepositoryModelLoad": _REPOSITORY,
    "/inference.GRPCInferenceService/RepositoryModelUnload": _REPOSITORY,
}


def groups_of(method: str) -> frozenset[str]:
    """The groups of which a token may call a method; "health" where no token is asked for.

    Args:
        method: Its whole name, such as "/foretell.v1.Models/List".
    """
    return _METHODS.get(method) or _SERVICES.get(method.rpartition("/")[0]) or _REPOSITORY


class Authorisation(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Lets calls pass that show a good token: `authorization: Bearer TOKEN` in their metadata.

    It decides when the metadata are there: what a refused caller sends is not even received. A
    call is judged when it begins; one that has begun may end, also where its token's time is over
    meanwhile.

    Args:
        tokens: The good ones; None lets everybody pass.
        health_needs_token: Whether health needs a token too, of any group.
    """

    def __init__(self, tokens: TokenFile | None, *, health_needs_token: bool = False) -> None:
        self._tokens = tokens
        self._health_needs_token = health_needs_token

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler:
        """Hand a call on, or have it refused; called by gRPC."""
        handler = await continuation(handler_call_details)
        if handler is None or self._tokens is None:
            return handler
        if self._tokens.is_due:  # a disk may keep its reader waiting
            await asyncio.to_thread(self._tokens.look)
        try:
            self._check(
                self._tokens,
                handler_call_details.method,
                handler_call_details.invocation_metadata or (),
            )
        except ForetellError as error:
            _refusal.set(error)
            return _REFUSING
        return handler

    def _check(self, tokens: TokenFile, method: str, metadata: Iterable[tuple[str, Any]]) -> None:
        groups = groups_of(method)
        if _HEALTH in groups:
            if not self._health_needs_token:
                return
            groups = _ANY
        token = tokens.check(bearer_token(metadata))
        note_token(token.name)
        if not token.groups & groups:
            raise ForbiddenError(
                f"{method} needs a token of the group {' or '.join(sorted(groups))}; this one, of "
                f"{token.name}, has {', '.join(sorted(token.groups))}."
            )


def bearer_token(metadata: Iterable[tuple[str, Any]]) -> str:
    """The token in a call's metadata, or in a request's headers.

    Raises:
        UnauthenticatedError: There is none, or not exactly one.
    """
    values = [value for key, value in metadata if key == "authorization"]
    if not values:
        raise UnauthenticatedError(
            "this server asks for a token; send the metadata `authorization: Bearer TOKEN`."
        )
    scheme, _, token = values[0].partition(" ") if isinstance(values[0], str) else ("", "", "")
    if len(values) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise UnauthenticatedError(
            "the metadata `authorization` is malformed; send it once, as `Bearer TOKEN`."
        )
    return token.strip()


async def _refuse(_requests: object, _context: grpc.aio.ServicerContext) -> None:
    """Refuse the call that runs here; around it errors are turned into a status, as all are."""
    raise _refusal.get()


# It takes a stream, whatever the method does, so as to receive none. It is one for all calls, for
# those around it remember handlers.
_REFUSING = grpc.stream_stream_rpc_method_handler(_refuse)
_refusal: ContextVar[ForetellError] = ContextVar("refusal")
