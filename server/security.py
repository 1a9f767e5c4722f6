"""Who may reach a server and who may ask it: the options, and what they leave open."""

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from foretell.data.errors import OptionError
from foretell.server.listen import is_unix, split_address

CompressedRequests = Literal["auto", "accept", "refuse"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SecurityOptions:
    """Who may reach a server and who may ask it; by default whoever can reach it.

    All files are read again when they change; what they then hold must be good, or it is logged
    and what was read before stays in force.

    Attributes:
        tls_cert: PEM file of the server's certificate and those that vouch for it; None talks in
            clear.
        tls_key: PEM file of its private key, without a pass phrase.
        tls_client_ca: PEM file of the authorities whose clients are let in; None lets in clients
            without a certificate.
        tokens: File of bearer tokens, see `foretell.server.access.tokens`; None asks for none.
        health_needs_token: Whether health, too, is told only to callers with a token.
        metrics_open: The HTTP port talks in clear and asks for no token, whatever gRPC does.
        compressed_requests: Whether requests may be compressed: "accept", "refuse", or "auto" for
            where no stranger can send any; see `takes_compressed`.
    """

    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    tokens: Path | None = None
    health_needs_token: bool = False
    metrics_open: bool = False
    compressed_requests: CompressedRequests = "auto"

    def __post_init__(self) -> None:
        problems = []
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = ("tls_cert", "tls_key")[:: 1 if self.tls_cert else -1]
            problems.append(f"{given} is given without {missing}; TLS needs both.")
        if self.tls_client_ca is not None and self.tls_cert is None:
            problems.append("tls_client_ca is given without tls_cert and tls_key; it needs both.")
        if self.health_needs_token and self.tokens is None:
            problems.append("health_needs_token is set without tokens; give a file of tokens.")
        if self.compressed_requests not in get_args(CompressedRequests):
            problems.append(
                f"compressed_requests is {self.compressed_requests!r}; it must be auto, accept or "
                "refuse."
            )
        if problems:
            raise OptionError(problems)


def open_doors(listen: str, security: SecurityOptions, metrics: str = "") -> list[str]:
    """Tell what strangers can do to a server that others than this machine can reach.

    Args:
        listen: Where it listens.
        security: How it is protected.
        metrics: Where its HTTP port is; empty for none.

    Returns:
        A sentence for each thing that may be no intention; none for a server of this machine alone.
    """
    doors = []
    is_secured = security.tokens is not None or security.tls_client_ca is not None
    if is_secured and metrics and not _is_local(split_address(metrics)[0]):
        if security.metrics_open:
            doors.append(
                f"http://{metrics} asks for no token and no certificate: whoever reaches it can "
                "read the names of models and the metrics; leave --metrics-open out, or give "
                "--metrics 127.0.0.1:8002."
            )
        elif security.tls_cert is None:
            doors.append(
                f"http://{metrics} takes tokens in clear: whoever is on the way can read them; "
                "give --tls-cert and --tls-key, or --metrics 127.0.0.1:8002."
            )
    if is_unix(listen) or _is_local(split_address(listen)[0]):
        return doors
    if security.tls_cert is None:
        read = "requests and tokens" if security.tokens else "requests and answers"
        doors.append(
            f"listening on {listen} in clear: whoever is on the way can read {read}; "
            "give --tls-cert and --tls-key, or listen on 127.0.0.1."
        )
    if not is_secured:
        doors.append(
            f"listening on {listen} without --tokens or --tls-client-ca: whoever reaches the port "
            "can ask the models."
        )
    return doors


def takes_compressed(listen: str, security: SecurityOptions) -> bool:
    """Whether a server unpacks requests.

    60 KiB unpack to 60 MiB before anyone can look at them, token or not, and health asks for none;
    so by itself a server does it only for programs of its machine and for known certificates.

    Args:
        listen: Where it listens.
        security: How it is protected.
    """
    if security.compressed_requests != "auto":
        return security.compressed_requests == "accept"
    if is_unix(listen) or security.tls_client_ca is not None:
        return True
    return _is_local(split_address(listen)[0])


def _is_local(host: str) -> bool:
    """Whether a host names addresses of this machine alone."""
    try:
        places = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(
        ipaddress.ip_address(str(place[4][0]).partition("%")[0]).is_loopback for place in places
    )
