"""Who may look at the HTTP port: TLS, certificates of clients and tokens, as gRPC asks for them."""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Collection, Sequence

from foretell.server.access.authorisation import METADATA, bearer_token
from foretell.server.access.certificates import Certificates
from foretell.server.access.tokens import GROUPS, TokenFile
from foretell.server.errors import ForbiddenError, UnauthenticatedError

CHALLENGES = ('Basic realm="foretell", charset="UTF-8"', 'Bearer realm="foretell"')
"""How to ask again. A browser knows the first one, and asks its user; a program the second."""


class HttpGuard:
    """Lets those look who may ask gRPC for the same: a token of the group `metadata`.

    Probes have neither tokens nor certificates, so health needs none unless it is told to.

    Args:
        certificates: Of the server; None talks in clear.
        tokens: The good ones; None asks for none.
        health: Paths that tell whether the server is well.
        health_needs_token: Whether these need a token, too, of any group.
    """

    def __init__(
        self,
        certificates: Certificates | None,
        tokens: TokenFile | None,
        *,
        health: Collection[str],
        health_needs_token: bool = False,
    ) -> None:
        self._certificates = certificates
        self._tokens = tokens
        self._health = health
        self._health_needs_token = health_needs_token

    @property
    def is_secure(self) -> bool:
        """Whether it talks by TLS."""
        return self._certificates is not None

    async def context(self) -> ssl.SSLContext:
        """For the next connection, if it is secure: certificates change while the server runs."""
        assert self._certificates is not None
        if self._certificates.is_due:  # a disk may keep its reader waiting
            await asyncio.to_thread(self._certificates.look)
        return self._certificates.context

    async def check(
        self, path: str, headers: Sequence[tuple[str, str]], *, has_certificate: bool
    ) -> None:
        """Let a request pass, or not.

        Args:
            path: Asked for, whether there is such a page or not.
            headers: Of the request, names in small letters.
            has_certificate: The client showed one, and it is good.

        Raises:
            UnauthenticatedError: It shows no token, or none that is good.
            ForbiddenError: Its token is of another group, or it shows no certificate.
        """
        is_health = path in self._health
        if is_health and not self._health_needs_token:
            return
        if self._tokens is not None:
            if self._tokens.is_due:
                await asyncio.to_thread(self._tokens.look)
            groups = frozenset(GROUPS) if is_health else METADATA
            token = self._tokens.check(_token_of(headers, is_health=is_health))
            if not token.groups & groups:
                raise ForbiddenError(
                    f"this page needs a token of the group {' or '.join(sorted(groups))}; this "
                    f"one, of {token.name}, has {', '.join(sorted(token.groups))}."
                )
        needs_certificate = self._certificates is not None and self._certificates.asks_clients
        if needs_certificate and not has_certificate and not is_health:
            raise ForbiddenError("this page needs a client certificate; connect with one.")


def _token_of(headers: Sequence[tuple[str, str]], *, is_health: bool) -> str:
    """The token, however it is shown: as such, or as the password of whatever name.

    Raises:
        UnauthenticatedError: There is none, or not exactly one.
    """
    values = [value for name, value in headers if name == "authorization"]
    if not values:
        groups = "any group" if is_health else "the group metadata"
        raise UnauthenticatedError(
            f"this page asks for a token of {groups}; send it as `Authorization: Bearer TOKEN`, or "
            "give it to a browser as the password, with any name."
        )
    scheme, _, rest = values[0].partition(" ")
    if len(values) == 1 and scheme.lower() == "basic":
        return bearer_token([("authorization", f"Bearer {_password(rest.strip())}")])
    return bearer_token([("authorization", value) for value in values])


def _password(credentials: str) -> str:
    """The password of HTTP's basic scheme; empty where there is none (RFC 7617, section 2)."""
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""
