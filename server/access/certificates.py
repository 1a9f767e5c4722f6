"""TLS, with or without certificates of clients; certificates are read again when they change."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from foretell.data.plain_files import read_plain
from foretell.server.access.reloading import Reloaded
from foretell.server.errors import CertificateError
from foretell.server.security import SecurityOptions

_MOST_BYTES = 4 * 1024 * 1024  # a machine's whole list of authorities has a tenth of it


@dataclass(frozen=True, slots=True)
class _Contents:
    """Contents of the files, PEM."""

    cert: bytes
    key: bytes
    client_ca: bytes | None


@dataclass(frozen=True, slots=True)
class _Found:
    """What was read.

    Attributes:
        contents: Of the files.
        context: Made of them; lets in clients without a certificate, and none with a bad one.
    """

    contents: _Contents
    context: ssl.SSLContext


class Certificates:
    """What a server shows its clients, and whose clients it lets in.

    New connections get what the files hold now; those that exist keep what they have.

    Attributes:
        asks_clients: Clients must show certificates of their own.
    """

    def __init__(
        self, cert: Path, key: Path, client_ca: Path | None, *, check_every_s: float
    ) -> None:
        """Read the files, whose names these are; see `read_certificates`."""
        self.asks_clients = client_ca is not None
        paths = [path for path in (cert, key, client_ca) if path is not None]
        self._files = Reloaded(
            paths, lambda: _read(cert, key, client_ca), check_every_s=check_every_s
        )

    @property
    def is_due(self) -> bool:
        """Whether it is time to look at the files again, which may mean to wait for a disk."""
        return self._files.is_due

    def look(self) -> None:
        """Read the files again, for `context`, if it is time to and if they have changed."""
        self._files.get()

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection of HTTP; clients without certificates are let in."""
        return self._files.value.context

    def credentials(self) -> grpc.ServerCredentials:
        """For gRPC, which asks for news by itself; clients need certificates where they must."""
        last = self._files.get()

        def changed() -> grpc.ServerCertificateConfiguration | None:
            """Called by gRPC at every handshake; None leaves all as it is."""
            nonlocal last
            if (found := self._files.get()) is last:
                return None
            last = found
            return _configuration(found.contents)

        return grpc.dynamic_ssl_server_credentials(
            _configuration(last.contents),
            changed,
            require_client_authentication=self.asks_clients,
        )


def read_certificates(
    security: SecurityOptions, *, check_every_s: float = 1.0
) -> Certificates | None:
    """Read a server's certificates; None where it talks in clear.

    Args:
        security: Names the files.
        check_every_s: Seconds for which the files are not looked at again.

    Raises:
        CertificateError: A file can't be read, or what it holds is not good.
    """
    if security.tls_cert is None or security.tls_key is None:
        return None
    return Certificates(
        security.tls_cert, security.tls_key, security.tls_client_ca, check_every_s=check_every_s
    )


def _configuration(found: _Contents) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(found.key, found.cert)], root_certificates=found.client_ca
    )


def _read(cert: Path, key: Path, client_ca: Path | None) -> _Found:
    """Read the files and check them: gRPC would only fail at every connection."""
    found = _contents(cert, key, client_ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # OpenSSL would ask at the terminal for the pass phrase of an encrypted key.
        context.load_cert_chain(cert, key, password=lambda: b"")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CertificateError(
            f"{cert} and {key} are no certificate with its private key ({_reason(error)}); give "
            "two PEM files that belong together, the key without a pass phrase."
        ) from error
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise CertificateError(
                f"{client_ca} holds no certificates ({_reason(error)}); give a PEM file of the "
                "authorities whose clients are let in."
            ) from error
        context.verify_mode = ssl.CERT_OPTIONAL
    if found != _contents(cert, key, client_ca):
        raise CertificateError(f"{cert} or a file beside it changed while it was read.")
    return _Found(found, context)


def _contents(cert: Path, key: Path, client_ca: Path | None) -> _Contents:
    problems = []
    contents = []
    for path in (cert, key, client_ca):
        try:
            contents.append(b"" if path is None else read_plain(path, _MOST_BYTES))
        except OSError as error:
            problems.append(f"{path} can't be read: {error.strerror}.")
    if problems:
        raise CertificateError(problems)
    return _Contents(contents[0], contents[1], contents[2] or None)


def _reason(error: Exception) -> str:
    """What OpenSSL names as the reason, in words, without the place in its source."""
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "malformed"
    return str(reason).replace("_", " ").lower()
