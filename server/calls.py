"""Runs something around every call of foretell's services; no new method can be forgotten."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc

Around = Callable[[str, grpc.aio.ServicerContext], AbstractAsyncContextManager[None]]


class AroundCalls(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Enters a context manager before a call's body and leaves it after, with what it raised.

    Health and reflection are left alone: they must answer while the server drains, and a watcher's
    call never ends.

    Attributes:
        around: Makes the context manager from the method's name and the call's context.
    """

    def __init__(self, around: Around) -> None:
        self.around = around

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """Wrap the handler of a call; called by gRPC."""
        method: str = handler_call_details.method
        handler = await continuation(handler_call_details)
        if handler is None or method.startswith("/grpc."):
            return handler
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                self._unary(method, handler.unary_unary),
                handler.request_deserializer,
                handler.response_serializer,
            )
        if handler.stream_stream is not None:
            return grpc.stream_stream_rpc_method_handler(
                self._stream(method, handler.stream_stream),
                handler.request_deserializer,
                handler.response_serializer,
            )
        raise NotImplementedError(f"{method} is of a form that no foretell service has yet")

    def _unary(self, method: str, inner: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:
            async with self.around(method, context):
                return await inner(request, context)

        return call

    def _stream(self, method: str, inner: Callable[..., AsyncIterator[Any]]) -> Callable[..., Any]:
        async def call(requests: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            async with self.around(method, context):
                async for response in inner(requests, context):
                    yield response

        return call
