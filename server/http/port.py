"""A small HTTP server beside gRPC's, for what people and their tools look at: GET and no more.

It answers from the event loop, so that it answers only while the server itself does; what takes
longer than a moment is written in a thread.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast

from foretell.server.errors import ForbiddenError, ListenError, UnauthenticatedError
from foretell.server.http.guard import CHALLENGES, HttpGuard
from foretell.server.listen import check_address, split_address

_log = logging.getLogger(__name__)
_MOST_REQUEST = 16 * 1024  # bytes of a request's line and headers
_MOST_CALLERS = 64  # at a time; of more, the one who has said nothing for longest is hung up on
_TIMEOUT_S = 10.0  # for one request and its answer
_METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Page:
    """An answer.

    Attributes:
        body: Its bytes.
        content_type: What they are.
        status: HTTP's.
        headers: Further ones.
        challenges: How to ask again, of one that was refused for want of a token.
    """

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    challenges: Sequence[str] = ()


class HttpPort:
    """Answers with the pages of its routes.

    Attributes:
        address: HOST:PORT, once started with the port as bound.
    """

    def __init__(
        self,
        address: str,
        routes: Mapping[str, Callable[[], Page]],
        guard: HttpGuard | None = None,
    ) -> None:
        """Note what to do.

        Args:
            address: HOST:PORT; port 0 takes a free one.
            routes: Makes the page of each path; called in a thread.
            guard: Who may look; None lets everybody look, in clear.
        """
        self.address = address
        self._routes = routes
        self._guard = guard
        self._server: asyncio.Server | None = None
        self._callers = 0
        self._silent: dict[asyncio.StreamWriter, None] = {}  # the oldest first

    async def start(self, *, shared: bool = False) -> None:
        """Listen.

        Args:
            shared: Whether other processes of ours listen at the address too.

        Raises:
            ListenError: The address can't be had.
        """
        host, port = split_address(self.address if shared else check_address(self.address))
        try:
            self._server = await asyncio.start_server(
                self._answer, host.strip("[]"), port, limit=_MOST_REQUEST, reuse_port=shared
            )
        except OSError as error:
            raise ListenError(f"can't listen on {self.address}: {error.strerror}.") from error
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"{host}:{port}"

    async def stop(self) -> None:
        """Listen no more; answers that are being sent are cut off."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._callers += 1
        self._silent[writer] = None
        try:
            if self._has_room(writer):
                async with asyncio.timeout(_TIMEOUT_S):
                    if self._guard is not None and self._guard.is_secure:
                        transport = cast(asyncio.Transport, writer.transport)
                        transport.pause_reading()  # what comes is for TLS to read
                        await writer.start_tls(await self._guard.context())
                    await self._answer_one(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the caller went away, or is too slow
        finally:
            self._callers -= 1
            self._silent.pop(writer, None)
            writer.close()

    def _has_room(self, newest: asyncio.StreamWriter) -> bool:
        """Make room, or else whoever says nothing could keep probes from being answered."""
        if self._callers <= _MOST_CALLERS:
            return True
        oldest = next(iter(self._silent))
        oldest.transport.abort()
        del self._silent[oldest]
        return oldest is not newest

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method = ""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self._silent.pop(writer, None)
            line, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = line.encode("latin-1").decode("ascii").split(" ")
            path, headers = path.partition("?")[0], _headers(lines)
        except asyncio.LimitOverrunError:
            page = _plain("the request's head is too large", HTTPStatus.BAD_REQUEST)
        except ValueError:
            page = _plain("this is no HTTP request", HTTPStatus.BAD_REQUEST)
        else:
            has_certificate = bool(writer.get_extra_info("peercert"))
            refusal = await self._refusal(path, headers, has_certificate)
            page = refusal or await self._page(method, path)
        writer.write(_head(page))
        if method != "HEAD":
            writer.write(page.body)
        await writer.drain()

    async def _refusal(
        self, path: str, headers: Sequence[tuple[str, str]], has_certificate: bool
    ) -> Page | None:
        try:
            if self._guard is not None:
                await self._guard.check(path, headers, has_certificate=has_certificate)
        except UnauthenticatedError as error:
            return _plain(str(error), HTTPStatus.UNAUTHORIZED, challenges=CHALLENGES)
        except ForbiddenError as error:
            return _plain(str(error), HTTPStatus.FORBIDDEN)
        return None

    async def _page(self, method: str, path: str) -> Page:
        if method not in _METHODS:
            allow = {"Allow": ", ".join(_METHODS)}
            return _plain("only GET is answered here", HTTPStatus.METHOD_NOT_ALLOWED, allow)
        route = self._routes.get(path)
        if route is None:
            there = " ".join(self._routes)
            return _plain(f"there is no such page; there are: {there}", HTTPStatus.NOT_FOUND)
        try:
            return await asyncio.to_thread(route)
        except Exception:
            _log.exception("the page %s could not be written", path)
            return _plain("a fault of the server's own", HTTPStatus.INTERNAL_SERVER_ERROR)


def _headers(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Headers by their names in small letters; one that occurs twice is there twice."""
    parted = [line.partition(":") for line in lines if line]
    return [(name.strip().lower(), value.strip()) for name, _, value in parted]


def _plain(
    text: str,
    status: HTTPStatus,
    headers: Mapping[str, str] | None = None,
    challenges: Sequence[str] = (),
) -> Page:
    return Page(f"{text}\n".encode(), status=status, headers=headers or {}, challenges=challenges)


def _head(page: Page) -> bytes:
    headers = {
        "Content-Type": page.content_type,
        "Content-Length": str(len(page.body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **page.headers,
    }
    lines = [f"HTTP/1.1 {page.status.value} {page.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"WWW-Authenticate: {challenge}" for challenge in page.challenges]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
