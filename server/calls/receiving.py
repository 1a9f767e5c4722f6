"""Runs something around every call, and reads requests inside it; no method can be forgotten."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no types

from foretell.server.calls.request_sizes import RequestSizes
from foretell.server.calls.wire_scan import count_fields
from foretell.server.errors import RequestError

Around = Callable[[str, grpc.aio.ServicerContext], AbstractAsyncContextManager[None]]
Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]]

_LARGE_BYTES = 64 * 1024  # what is smaller can't unfold to much

_FORMS = {
    "unary_unary": grpc.unary_unary_rpc_method_handler,
    "unary_stream": grpc.unary_stream_rpc_method_handler,
    "stream_unary": grpc.stream_unary_rpc_method_handler,
    "stream_stream": grpc.stream_stream_rpc_method_handler,
}


class AroundCalls(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Enters a context manager before a call's body and leaves it after, with what it raised.

    Attributes:
        around: Makes the context manager from the method's name and the call's context.
        spare_libraries: Leave health and reflection alone: they must answer while the server
            drains, and a watcher's call never ends.
    """

    def __init__(self, around: Around, *, spare_libraries: bool = False) -> None:
        self.around = around
        self.spare_libraries = spare_libraries
        self._wrapped = Wrapped(
            lambda method, handler: around_handler(handler, partial(self.around, method))
        )

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler:
        """Wrap the handler of a call; called by gRPC."""
        method: str = handler_call_details.method
        handler = await continuation(handler_call_details)
        if handler is None or (self.spare_libraries and method.startswith("/grpc.")):
            return handler
        return self._wrapped(method, handler)


class Wrapped:
    """Remembers what a method's handler was wrapped into; gRPC asks for handlers call by call.

    Args:
        wrap: Makes a handler from a method's name and handler; both are the same for all calls.
    """

    def __init__(self, wrap: Callable[[str, grpc.RpcMethodHandler], grpc.RpcMethodHandler]) -> None:
        self._wrap = wrap
        self._known: dict[tuple[str, int], tuple[grpc.RpcMethodHandler, object]] = {}

    def __call__(self, method: str, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        """Wrap a handler, or take what it was wrapped into before."""
        key = (method, id(handler))
        known = self._known.get(key)
        if known is None:  # with the handler itself: else another one could get its number
            known = self._known[key] = self._wrap(method, handler), handler
        return known[0]


def around_handler(
    handler: grpc.RpcMethodHandler,
    around: Callable[[grpc.aio.ServicerContext], AbstractAsyncContextManager[None]],
) -> grpc.RpcMethodHandler:
    """Make a handler that enters a context manager before another's body, and leaves it after."""
    form, inner = _behaviour(handler)

    async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:
        async with around(context):
            return await inner(request, context)

    async def stream(request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        async with around(context):
            async for response in inner(request, context):
                yield response

    # A method may write its stream by itself, and is a plain coroutine then.
    wrapped = stream if inspect.isasyncgenfunction(inner) else call
    return _FORMS[form](wrapped, handler.request_deserializer, handler.response_serializer)


class ReadingInside(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Reads requests in the call's body, where what can't be read is an error like all others.

    gRPC itself would answer UNKNOWN, with what Python says of the exception.

    Attributes:
        max_fields: Most fields of a request: it must not unfold to many times its size.
        sizes: Bounds their bytes.
    """

    def __init__(self, max_fields: int, sizes: RequestSizes) -> None:
        self.max_fields = max_fields
        self.sizes = sizes
        self._wrapped = Wrapped(self._reading)

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler:
        """Put the reading of requests into the handler of a call; called by gRPC."""
        handler = await continuation(handler_call_details)
        return handler and self._wrapped(handler_call_details.method, handler)

    def _reading(self, method: str, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        form, inner = _behaviour(handler)
        parse = _reader(handler.request_deserializer, method, self.max_fields)

        def read(content: bytes) -> Any:
            self.sizes.check(method, len(content))
            return parse(content)

        @contextmanager
        def reading(content: Any) -> Iterator[Any]:
            if handler.request_streaming:
                yield self._read_all(_until_over(content, asyncio.current_task()), read)
            else:
                with self.sizes.held(len(content)):
                    yield read(content)

        async def call(content: Any, context: grpc.aio.ServicerContext) -> Any:
            with reading(content) as request:
                return await inner(request, context)

        async def stream(content: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            with reading(content) as request:
                async for response in inner(request, context):
                    yield response

        wrapped = stream if inspect.isasyncgenfunction(inner) else call
        return _FORMS[form](wrapped, None, handler.response_serializer)

    async def _read_all(
        self, contents: AsyncIterator[bytes], read: Callable[[bytes], Any]
    ) -> AsyncIterator[Any]:
        """Read the requests of a stream, each counted until the next one is asked for."""
        number = 0
        async for content in contents:
            number += 1
            with self.sizes.held(len(content)):
                try:
                    request = read(content)
                except RequestError as error:
                    error.add_note(f"request {number} of the stream:")
                    raise
                del content
                yield request
                del request


async def _until_over(
    contents: AsyncIterator[bytes], call: asyncio.Task[Any] | None
) -> AsyncIterator[bytes]:
    """Read no more of a call that has ended, whoever reads: gRPC may have destroyed it."""
    while call is None or not call.done():
        content = await anext(contents, None)
        if content is None:
            return
        yield content


def _behaviour(handler: grpc.RpcMethodHandler) -> tuple[str, Callable[..., Any]]:
    """The form of a handler, and its one function."""
    return next(
        (form, inner) for form in _FORMS if (inner := getattr(handler, form, None)) is not None
    )


def _reader(
    deserialize: Callable[[bytes], Any], method: str, max_fields: int
) -> Callable[[bytes], Any]:
    message: Any = getattr(deserialize, "__self__", None)  # it is the class's FromString

    def read(content: bytes) -> Any:
        if (
            message is not None
            and len(content) > _LARGE_BYTES
            and count_fields(content, message.DESCRIPTOR, max_fields) > max_fields
        ):
            raise RequestError(
                f"the request has more than {max_fields:,} fields in its {len(content):,} bytes; "
                "this server takes no more. Send several requests, and numbers as raw, or let it "
                "take more (--max-series, --max-sentences)."
            )
        try:
            return deserialize(content)
        except DecodeError as error:
            raise RequestError(
                f"the request's {len(content):,} bytes are no message that {method} takes; write "
                "it as the server's .proto files say, which reflection shows."
            ) from error

    return read
