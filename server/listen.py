"""Where a server listens, checked before anything is loaded for it.

gRPC lets two servers share a port unless told otherwise, takes port 99999 for another one, and says
of a port that it can't have only that it failed. So the address is tried with a plain socket first,
which knows why.
"""

import errno
import os
import re
import socket
import stat
from pathlib import Path
from typing import Any

import grpc

from foretell.server.errors import AddressError, ListenError

_ADDRESS = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]]*):(?P<port>[0-9]{1,10})")
_LARGEST_PORT = 65_535
_UNIX = "unix:"
_LONGEST_PATH = 107  # bytes; a socket's address has room for no more
_OWNER_ONLY = 0o177  # the rights that a socket of ours must not give

_ALL_HOSTS = {"0.0.0.0", "::"}
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_REASONS = {
    errno.EADDRINUSE: "the port is in use; stop what listens there, or choose another port",
    errno.EACCES: "this user may not use that port; choose one from 1024 on",
    errno.EPERM: "this user may not use that port; choose one from 1024 on",
    errno.EADDRNOTAVAIL: "this machine has no such address; use 127.0.0.1 or 0.0.0.0",
}


def is_unix(address: str) -> bool:
    """Whether an address is a socket in the file system, unix:PATH."""
    return address.startswith(_UNIX)


def split_address(
    address: str, option: str = "listen", others: str = "unix:PATH"
) -> tuple[str, int]:
    """Split HOST:PORT; an empty host is 0.0.0.0, all of them.

    Args:
        address: As it was given.
        option: Which one gave it.
        others: What else may stand there, for whoever is told that it is no address.

    Raises:
        AddressError: It is no address.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise AddressError(
            f"{option} is {address!r}; expected HOST:PORT, such as 127.0.0.1:8001, or {others}."
        )
    host, port = match["host"] or "0.0.0.0", int(match["port"])
    if port > _LARGEST_PORT:
        raise AddressError(f"{option} has port {port}; a port is 0 to {_LARGEST_PORT}.")
    return host, port


def is_same_place(first: str, second: str) -> bool:
    """Whether who connects to one address may reach the other one.

    Args:
        first: HOST:PORT of a known host, where port 0 is a place of its own; or unix:PATH.
        second: The same.

    Raises:
        AddressError: One of them is no address.
    """
    if is_unix(first) or is_unix(second):
        return first == second
    (host, port), (other_host, other_port) = split_address(first), split_address(second)
    hosts, others = _numbers(host), _numbers(other_host)
    is_reached = bool(hosts & others or (hosts | others) & _ALL_HOSTS)
    return port == other_port != 0 and is_reached


def check_address(address: str) -> str:
    """Check that a server can listen at an address.

    Args:
        address: HOST:PORT, where port 0 takes a free one and an empty host takes all; or unix:PATH.

    Returns:
        The address as gRPC wants it.

    Raises:
        AddressError: It is no address.
        ListenError: It can't be had; the reason and the port are named.
    """
    if is_unix(address):
        return _check_unix(address)
    host, port = split_address(address)
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


def bind(
    server: grpc.aio.Server,
    address: str,
    credentials: grpc.ServerCredentials | None = None,
    *,
    shared: bool = False,
) -> str:
    """Let a server listen; a socket in the file system is its owner's alone (mode 0600).

    Args:
        server: Not yet started.
        address: As `check_address` takes it.
        credentials: For TLS; None talks in clear.
        shared: Whether other processes of ours listen at the address too, checked before them all.

    Returns:
        The address as bound, the port among that.

    Raises:
        ListenError: The address can't be had.
    """
    if not shared:
        address = check_address(address)
    # Not by a change of mode afterwards: someone could be faster.
    mask = os.umask(_OWNER_ONLY) if is_unix(address) else None
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:  # someone was faster than us
        raise ListenError(f"can't listen on {address}; is the port in use by now?") from error
    finally:
        if mask is not None:
            os.umask(mask)
    return address if is_unix(address) else f"{address.rpartition(':')[0]}:{port}"


def _numbers(host: str) -> set[str]:
    places = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    return {str(place[4][0]) for place in places}


def _check_unix(address: str) -> str:
    """Check a socket in the file system; gRPC would take it away from a server that listens."""
    path = Path(os.path.abspath(address.removeprefix(_UNIX)))
    reason = _unix_problem(path) if address != _UNIX else "there is no path behind unix:"
    if reason:
        raise ListenError(f"can't listen on {address}: {reason}.")
    return f"{_UNIX}{path}"


def _unix_problem(path: Path) -> str | None:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        return f"a socket's whole path may have {_LONGEST_PATH} bytes; choose a shorter one"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}; make it, or choose another one"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return f"this user may not write in {path.parent}; choose another folder"
    return _occupant(path)


def _occupant(path: Path) -> str | None:
    """Why a path is not free; a socket left by a server that is gone doesn't count."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISSOCK(mode):
        return "there is something else than a socket; choose another name"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return None
        except OSError as error:
            return f"{error.strerror}; choose another name"
    return "a server listens there; stop it, or choose another name"


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
