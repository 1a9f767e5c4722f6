"""How a client talks to its server, checked before any call."""

import numbers
import re
from dataclasses import dataclass

from foretell.data.errors import OptionError

MIB = 1024 * 1024
_LARGEST = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientOptions:
    """How a client talks to its server.

    Attributes:
        timeout_s: Seconds that one request may take, not the whole table.
        max_message_bytes: Largest message that the client sends and takes.
        chunk_bytes: Size that a large table is cut into; answers stay within it too. The default
            fits servers and proxies with gRPC's own limit of 4 MiB.
        in_flight: Requests of one table that are on their way at a time.
        retry_s: Seconds in which a request is sent again that a full queue refused, or that never
            reached the server; never longer than `timeout_s`, and 0 sends none again.
    """

    timeout_s: float = 60.0
    max_message_bytes: int = 64 * MIB
    chunk_bytes: int = 3 * MIB
    in_flight: int = 4
    retry_s: float = 60.0

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value!r}; it must be a whole number from 1 to {_LARGEST:,}."
            for name in ("max_message_bytes", "chunk_bytes", "in_flight")
            if not _is_real(value := getattr(self, name), numbers.Integral)
            or not 1 <= value <= _LARGEST
        ]
        timeout_s = self.timeout_s
        if not (_is_real(timeout_s, numbers.Real) and 0 < timeout_s <= _LARGEST):
            problems.append(f"timeout_s is {timeout_s!r}; it must be a number of seconds above 0.")
        retry_s = self.retry_s
        if not (_is_real(retry_s, numbers.Real) and 0 <= retry_s <= _LARGEST):
            problems.append(f"retry_s is {retry_s!r}; it must be a number of seconds, 0 or more.")
        if not problems and self.chunk_bytes > self.max_message_bytes:
            problems.append(
                f"chunk_bytes is {self.chunk_bytes:,}, more than max_message_bytes "
                f"{self.max_message_bytes:,}; a chunk must fit a message."
            )
        if problems:
            raise OptionError(problems)

    @property
    def channel_options(self) -> list[tuple[str, int]]:
        """The options that gRPC takes."""
        return [
            ("grpc.max_send_message_length", self.max_message_bytes),
            ("grpc.max_receive_message_length", self.max_message_bytes),
        ]

    def chunk_bytes_for(self, server_bytes: int) -> int:
        """Size that a table is cut into for a server, whose messages may have to be smaller.

        A quarter of a message is left for what a chunk doesn't count: names, warnings, reasons.

        Args:
            server_bytes: Largest message of the server; 0 where it doesn't tell.
        """
        limit = min(self.max_message_bytes, server_bytes or self.max_message_bytes)
        return min(self.chunk_bytes, limit * 3 // 4)


def check_target(target: str) -> str:
    """Return a server's address as it came; gRPC would take port 443 where none is named.

    Raises:
        OptionError: It names no port, or is no address at all.
    """
    if isinstance(target, str) and (scheme := re.match(r"(https?|grpcs?)://", target, re.I)):
        raise OptionError(
            f"the server is {target!r}; give HOST:PORT, without {scheme[0]}, such as "
            "127.0.0.1:8001."
        )
    if not (isinstance(target, str) and target.isprintable() and re.fullmatch(r"\S+:\S+", target)):
        raise OptionError(f"the server is {target!r}; give HOST:PORT, such as 127.0.0.1:8001.")
    return target


def _is_real(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
