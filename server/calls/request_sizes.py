"""How large a request may be, method by method, and how much all that are in work hold together."""

from collections.abc import Iterator
from contextlib import contextmanager

from foretell.runtime.queues.work import QueueFullError
from foretell.server.errors import RequestError
from foretell.server.options import ServerOptions

LONGEST_NAME = 1024
"""Bytes of a service's name that health is asked for; whoever watches it has it kept."""

_SMALL_BYTES = 64 * 1024  # names, and parameters of a load
_PROBE_BYTES = LONGEST_NAME + 1024
_UTF8_BYTES = 4  # of a character
_RETRY_S = 1.0

_OF_TABLES = frozenset(
    {
        "/foretell.v1.Forecaster/Forecast",
        "/foretell.v1.Forecaster/ForecastStream",
        "/foretell.v1.Translator/Translate",
        "/foretell.v1.Translator/Score",
        "/inference.GRPCInferenceService/ModelInfer",
        "/inference.GRPCInferenceService/ModelStreamInfer",
    }
)
_OF_A_SENTENCE = "/foretell.v1.Translator/TranslateStream"
_PROBES = ("/grpc.health.v1.Health/", "/inference.GRPCInferenceService/Server")


class RequestSizes:
    """Bounds the bytes of requests; all methods belong to the server's event loop.

    A call keeps its request until it ends, however long its caller takes to read the answer, so
    what all of them hold has a bound of its own, beside that of each model's queue.

    Attributes:
        held_bytes: Of the requests of all calls in work.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.held_bytes = 0
        self._options = options

    def check(self, method: str, size_bytes: int) -> None:
        """Refuse what is larger than any sensible request to a method.

        Args:
            method: Its whole name.
            size_bytes: Of the request, decompressed.

        Raises:
            RequestError: It is.
        """
        most_bytes = self.most_bytes(method)
        if size_bytes > most_bytes:
            raise RequestError(
                f"the request has {size_bytes:,} bytes; {method} takes {most_bytes:,} at most. "
                "Leave out what its .proto file doesn't name."
            )

    def most_bytes(self, method: str) -> int:
        """The largest request that a method takes."""
        options = self._options
        if method in _OF_TABLES:
            return options.max_message_bytes
        if method == _OF_A_SENTENCE:  # the sentence, and the texts of its options
            most_bytes = _SMALL_BYTES + 2 * _UTF8_BYTES * options.max_characters
        else:
            most_bytes = _PROBE_BYTES if method.startswith(_PROBES) else _SMALL_BYTES
        return min(most_bytes, options.max_message_bytes)

    @contextmanager
    def held(self, size_bytes: int) -> Iterator[None]:
        """Count a request while it is in work; one alone is always let in.

        Raises:
            QueueFullError: All that are in work hold too much.
        """
        most_bytes = self._options.max_held_bytes
        if self.held_bytes and self.held_bytes + size_bytes > most_bytes:
            raise QueueFullError(
                f"Exceeds maximum queue size: the requests in work hold {self.held_bytes:,} bytes "
                f"of {most_bytes:,}, and this one has {size_bytes:,}. Ask again later, or another "
                "server.",
                _RETRY_S,
            )
        self.held_bytes += size_bytes
        try:
            yield
        finally:
            self.held_bytes -= size_bytes
