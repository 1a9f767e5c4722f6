"""Where a server listens, checked before anything is loaded for it.

gRPC lets two servers share a port unless told otherwise, takes port 99999 for another one, and says
of a port that it can't have only that it failed. So the address is tried with a plain socket first,
which knows why.
"""

import errno
import re
import socket
from typing import Any

from foretell.server.errors import ListenError

_ADDRESS = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]]*):(?P<port>[0-9]{1,10})")
_LARGEST_PORT = 65_535

_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_REASONS = {
    errno.EADDRINUSE: "the port is in use; stop what listens there, or choose another port",
    errno.EACCES: "this user may not use that port; choose one from 1024 on",
    errno.EPERM: "this user may not use that port; choose one from 1024 on",
    errno.EADDRNOTAVAIL: "this machine has no such address; use 127.0.0.1 or 0.0.0.0",
}


def check_address(address: str) -> str:
    """Check that a server can listen at an address.

    Args:
        address: HOST:PORT; port 0 takes a free one; an empty host takes all.

    Returns:
        The address as gRPC wants it.

    Raises:
        ListenError: It is no address, or can't be had; the reason and the port are named.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ListenError(
            f"can't listen on {address!r}; expected HOST:PORT, such as 127.0.0.1:8001."
        )
    host, port = match["host"] or "0.0.0.0", int(match["port"])
    if port > _LARGEST_PORT:
        raise ListenError(f"can't listen on port {port}; a port is 0 to {_LARGEST_PORT}.")
    try:
        places = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ListenError(
            f"can't listen on {address}: {host!r} is no known host ({error.strerror})."
        ) from error
    failed = [problem for place in places if (problem := _try(place)) is not None]
    # A host may have an address of a kind that this machine doesn't do; one good address will do.
    real = [problem for problem in failed if problem.errno not in _ABSENT]
    if real or len(failed) == len(places):
        first = (real or failed)[0]
        reason = _REASONS.get(first.errno or 0, first.strerror)
        raise ListenError(f"can't listen on {address}: {reason}.") from first
    return f"{host}:{port}"


def _try(place: tuple[Any, ...]) -> OSError | None:
    """Listen for a moment at one place that `getaddrinfo` found."""
    family, kind, protocol, _, at = place
    try:
        with socket.socket(family, kind, protocol) as probe:
            # As gRPC does: a port whose last connections are only winding down is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(at)
            probe.listen()
    except OSError as error:
        return error
    return None
