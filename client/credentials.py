"""What a client shows a server, and by what it knows the server: tokens and certificates."""

import ipaddress
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import grpc

from foretell.data.errors import OptionError

_TOKEN = re.compile(r"[!-~]{1,4096}")  # what a header can hold, without spaces
_LOCAL_NAMES = {"localhost", "ip6-localhost"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """What a client shows a server, and by what it knows the server.

    Attributes:
        token: Bearer token; never shown in a message.
        ca: PEM file of the authorities that vouch for the server. With it the client talks TLS.
        cert: PEM file of the client's own certificate, for mutual TLS.
        key: PEM file of its private key, without a pass phrase.
        tls: True talks TLS to servers that well-known authorities vouch for, without `ca` too;
            None talks TLS where a file is given.
        server_name: The name in the server's certificate, where it is not that of the address.
        clear_token: Send the token also where others could read it: in clear, to another machine.
            For networks that encrypt by themselves.
    """

    token: str | None = field(default=None, repr=False)
    ca: str | Path | None = None
    cert: str | Path | None = None
    key: str | Path | None = None
    tls: bool | None = None
    server_name: str | None = None
    clear_token: bool = False

    def __post_init__(self) -> None:
        problems = []
        if self.token is not None and not (
            isinstance(self.token, str) and _TOKEN.fullmatch(self.token)
        ):
            problems.append(
                "the token is none: it must be 1 to 4,096 visible ASCII characters, without "
                "spaces or line breaks."
            )
        if (self.cert is None) != (self.key is None):
            given, missing = ("cert", "key") if self.key is None else ("key", "cert")
            problems.append(f"{given} is given without {missing}; mutual TLS needs both.")
        if self.tls is False and (self.ca or self.cert or self.key):
            problems.append("tls is False, but certificates are given; drop one of them.")
        if self.server_name is not None and not self.uses_tls:
            problems.append("server_name is given without TLS; give ca, or tls=True.")
        if problems:
            raise OptionError(problems)

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] | None = None) -> Self:
        """Read them from FORETELL_TOKEN, FORETELL_CA, FORETELL_CERT, FORETELL_KEY, FORETELL_TLS.

        So a token stands in no command line, which others on the machine can see.

        Args:
            variables: Instead of the process's own.

        Raises:
            OptionError: They contradict each other, or FORETELL_TLS is neither 1 nor 0.
        """
        given = os.environ if variables is None else variables
        tls = given.get("FORETELL_TLS") or None
        if tls not in {None, "0", "1"}:
            raise OptionError("FORETELL_TLS is neither 1 nor 0; 1 talks TLS.")
        return cls(
            token=given.get("FORETELL_TOKEN") or None,
            ca=given.get("FORETELL_CA") or None,
            cert=given.get("FORETELL_CERT") or None,
            key=given.get("FORETELL_KEY") or None,
            tls=None if tls is None else tls == "1",
        )

    @property
    def uses_tls(self) -> bool:
        """Whether the client talks TLS."""
        return bool(self.tls or self.ca or self.cert)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with every call."""
        return () if self.token is None else (("authorization", f"Bearer {self.token}"),)

    @property
    def channel_options(self) -> list[tuple[str, str]]:
        """The options that gRPC takes."""
        name = self.server_name
        return [] if name is None else [("grpc.ssl_target_name_override", name)]

    def for_channel(self, target: str) -> grpc.ChannelCredentials | None:
        """What gRPC takes to connect; None where the client talks in clear.

        Args:
            target: The server's address.

        Raises:
            OptionError: A file can't be read or isn't what it should be, or the token would go in
                clear to another machine.
        """
        if not self.uses_tls:
            if self.token is not None and not self.clear_token and not _is_local(target):
                raise OptionError(
                    f"the token would go to {target} in clear, where others can read it; give ca, "
                    "or tls=True (for commands FORETELL_CA or FORETELL_TLS=1), or clear_token=True "
                    "where the network encrypts by itself."
                )
            return None
        problems: list[str] = []
        ca, cert, key = (
            _contents(value, name, problems)
            for name, value in (("ca", self.ca), ("cert", self.cert), ("key", self.key))
        )
        if not problems:
            problems += self._malformed()
        if problems:
            raise OptionError(problems)
        return grpc.ssl_channel_credentials(ca, key, cert)

    def _malformed(self) -> list[str]:
        """What is wrong with the files: gRPC would only fail to connect."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        problems = []
        if self.ca is not None:
            try:
                context.load_verify_locations(self.ca)
            except (OSError, ValueError):
                problems.append(f"ca: {self.ca} holds no certificates; give a PEM file of them.")
        if self.cert is not None and self.key is not None:
            try:
                context.load_cert_chain(self.cert, self.key, password=lambda: b"")
            except (OSError, ValueError):
                problems.append(
                    f"cert and key: {self.cert} and {self.key} are no certificate with its private "
                    "key; give two PEM files that belong together, the key without a pass phrase."
                )
        return problems


def choose_credentials(
    credentials: Credentials | None,
    *,
    token: str | None,
    ca: str | Path | None,
    cert: str | Path | None,
    key: str | Path | None,
) -> Credentials:
    """Take the credentials that are given whole, or make them of their parts.

    Raises:
        OptionError: Both are given, or the parts contradict.
    """
    if credentials is None:
        return Credentials(token=token, ca=ca, cert=cert, key=key)
    if any(part is not None for part in (token, ca, cert, key)):
        raise OptionError("credentials are given, and token, ca, cert or key too; give one.")
    return credentials


def _contents(path: str | Path | None, name: str, problems: list[str]) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        problems.append(f"{name}: {path} can't be read: {error.strerror}.")
        return None


def _is_local(target: str) -> bool:
    """Whether nobody else is on the way to a server: it is on this machine."""
    if target.startswith("unix:"):
        return True
    host = target.rpartition(":")[0].removeprefix("ipv4:").removeprefix("ipv6:").strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOCAL_NAMES
