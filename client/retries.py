"""Sends what a server had no room or no time for again: when, how often, and for how long."""

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc

from foretell.client.codec import Span
from foretell.client.errors import ErrorDetails, read_details
from foretell.client.options import ClientOptions

_FIRST_S, _LONGEST_S = 0.1, 5.0
_NEVER_BEGAN = ("failed to connect", "the server is stopping")
_MOST_LOST = 2  # a request whose connection broke may be what breaks servers

Sent = TypeVar("Sent")


class Retries:
    """Of one request: its clock starts now.

    A full queue says after how long to come again (`google.rpc.RetryInfo`), and all callers hear
    the same: each adds a little of its own. Of a server that isn't there nobody knows how long, so
    each wait is about twice as long as the one before.

    Args:
        options: How long a request may take.
        is_harmless: It can't be what breaks a server: broken connections don't end it.
    """

    def __init__(self, options: ClientOptions, *, is_harmless: bool = False) -> None:
        self._is_harmless = is_harmless
        self._started_at = time.monotonic()
        self._timeout_s = options.timeout_s
        self._most_s = min(options.timeout_s, options.retry_s)
        self._tries = 0
        self._lost = 0

    @property
    def timeout_s(self) -> float:
        """Seconds that the next try may take."""
        return max(0.001, self._started_at + self._timeout_s - time.monotonic())

    def wait_s(self, error: grpc.RpcError) -> float | None:
        """Seconds until the next try; None where there is to be none."""
        told = read_details(error.trailing_metadata())
        if not self._is_worth_it(error, told):
            return None
        grown_s = min(_FIRST_S * 2**self._tries, _LONGEST_S) * random.uniform(0.5, 1.0)
        told_s = (told.retry_after_s or 0.0) * random.uniform(1.0, 1.25)
        self._tries += 1
        wait_s = max(grown_s, told_s)
        is_late = time.monotonic() + wait_s - self._started_at >= self._most_s
        return None if is_late else wait_s

    def _is_worth_it(self, error: grpc.RpcError, told: ErrorDetails) -> bool:
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return told.is_queue_full and told.retry_after_s is not None
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return False
        if told.reason is None and not (error.details() or "").startswith(_NEVER_BEGAN):
            self._lost += 1
        return self._is_harmless or self._lost <= _MOST_LOST


class _Asked(Generic[Sent]):
    """One request of several, until it has its answer.

    Attributes:
        span: What it is about.
        is_refused: It waits to be sent again.
    """

    def __init__(self, span: Span, send: Callable[[float], Sent], retries: Retries) -> None:
        self.span = span
        self.is_refused = False
        self._send = send
        self._retries = retries


class _Future(_Asked[Any]):
    """Of a client without an event loop; `go_on` whenever `wake` is set, or `due` has come."""

    def __init__(
        self,
        span: Span,
        send: Callable[[float], Any],
        retries: Retries,
        wake: threading.Event,
    ) -> None:
        super().__init__(span, send, retries)
        self.due = 0.0
        self.is_over = False
        self._wake = wake
        self.sent: Any = None
        self._try()

    def _try(self) -> None:
        self.is_refused = False
        self.sent = self._send(self._retries.timeout_s)
        self.sent.add_done_callback(lambda _: self._wake.set())

    def go_on(self, *, at_once: bool) -> None:
        if self.is_over:
            return
        if self.is_refused:
            if at_once or time.monotonic() >= self.due:
                self._try()
        elif self.sent.done():
            wait_s = None
            if not self.sent.cancelled() and (error := self.sent.exception()) is not None:
                wait_s = self._retries.wait_s(error)
            self.is_over, self.is_refused = wait_s is None, wait_s is not None
            self.due = time.monotonic() + (wait_s or 0.0)


class Window:
    """The requests of one call that are on their way, without an event loop.

    Args:
        options: How many there may be, and how long each may take.
        is_harmless: See `Retries`.
    """

    def __init__(self, options: ClientOptions, *, is_harmless: bool = False) -> None:
        self._options = options
        self._is_harmless = is_harmless
        self._is_closed = False
        self._wake = threading.Event()
        self._asked: deque[_Future] = deque()

    def __len__(self) -> int:
        return len(self._asked)

    @property
    def is_full(self) -> bool:
        """As many are on their way as may be, or one was refused: no other passes it."""
        self._go_on()
        return len(self) >= self._options.in_flight or any(one.is_refused for one in self._asked)

    def send(self, span: Span, send: Callable[[float], Any]) -> None:
        """Send a request.

        Args:
            span: What it is about.
            send: Sends it, with a time limit in seconds, and returns gRPC's future.
        """
        retries = Retries(self._options, is_harmless=self._is_harmless)
        self._asked.append(_Future(span, send, retries, self._wake))

    def first(self) -> tuple[Span, Any]:
        """Wait for the answer to the first request, and forget it.

        Raises:
            grpc.RpcError: It has none, and isn't to be sent again.
        """
        while True:
            self._wake.clear()
            self._go_on()
            first = self._asked[0]
            if first.is_over:
                self._asked.popleft()
                return first.span, first.sent.result()
            due = [one.due - time.monotonic() for one in self._asked if one.is_refused]
            self._wake.wait(max(0.0, min(due)) if due else None)

    def close(self) -> None:
        """Have whoever waits for another try find out that the channel is closed."""
        self._is_closed = True
        self._wake.set()

    def cancel(self) -> None:
        """Wait for nothing any more."""
        for one in self._asked:
            one.sent.cancel()

    def _go_on(self) -> None:
        for one in self._asked:
            one.go_on(at_once=self._is_closed)


class _Task(_Asked[Any]):
    """Of a client with an event loop."""

    def __init__(self, span: Span, send: Callable[[float], Any], retries: Retries) -> None:
        super().__init__(span, send, retries)
        self.task = asyncio.ensure_future(self._answer())

    async def _answer(self) -> Any:
        while True:
            self.is_refused = False
            try:
                return await self._send(self._retries.timeout_s)
            except grpc.aio.AioRpcError as error:
                wait_s = self._retries.wait_s(error)
                if wait_s is None:
                    raise
            self.is_refused = True
            await asyncio.sleep(wait_s)


class AsyncWindow:
    """As `Window`, with an event loop."""

    def __init__(self, options: ClientOptions, *, is_harmless: bool = False) -> None:
        self._options = options
        self._is_harmless = is_harmless
        self._asked: deque[_Task] = deque()

    def __len__(self) -> int:
        return len(self._asked)

    @property
    def is_full(self) -> bool:
        """See `Window.is_full`."""
        return len(self) >= self._options.in_flight or any(one.is_refused for one in self._asked)

    def send(self, span: Span, send: Callable[[float], Any]) -> None:
        """See `Window.send`; gRPC's call is awaited."""
        retries = Retries(self._options, is_harmless=self._is_harmless)
        self._asked.append(_Task(span, send, retries))

    async def first(self) -> tuple[Span, Any]:
        """See `Window.first`."""
        first = self._asked[0]
        answer = await first.task
        self._asked.popleft()
        return first.span, answer

    async def cancel(self) -> None:
        """See `Window.cancel`."""
        tasks = [one.task for one in self._asked]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
