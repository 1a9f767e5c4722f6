"""What happened to calls, in numbers, by method: what every gRPC server's metrics tell."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from foretell.server.telemetry.histograms import SECONDS, Histogram, Recorder

_TYPES = {
    (False, False): "unary",
    (True, False): "client_stream",
    (False, True): "server_stream",
    (True, True): "bidi_stream",
}


@dataclass(frozen=True, slots=True, order=True)
class Method:
    """A method of a service.

    Attributes:
        service: With its package; "other" for what this server doesn't have.
        name: Of the method; "other" alike.
        kind: "unary", "client_stream", "server_stream" or "bidi_stream".
    """

    service: str
    name: str
    kind: str

    @classmethod
    @lru_cache  # a server has few, and each call asks
    def of(cls, path: str, *, request_streaming: bool, response_streaming: bool) -> "Method":
        """Read gRPC's path of a method that the server has, "/package.Service/Method"."""
        service, _, name = path.strip("/").rpartition("/")
        return cls(service, name, _TYPES[request_streaming, response_streaming])


UNKNOWN_METHOD = Method("other", "other", "unary")
"""Stands for all that this server doesn't have: a client's text never becomes a label."""


@dataclass(frozen=True, slots=True)
class MethodStatistics:
    """What happened to a method's calls.

    Attributes:
        method: Which.
        started: Calls that came.
        handled: Calls that ended, by the name of their code.
        seconds: From the start of each to its very end, when all of the answer was sent.
    """

    method: Method
    started: int
    handled: dict[str, int]
    seconds: Histogram

    def __add__(self, other: "MethodStatistics") -> "MethodStatistics":
        """Both together; they are of one method."""
        handled = Counter(self.handled) + Counter(other.handled)
        return MethodStatistics(
            self.method,
            self.started + other.started,
            dict(sorted(handled.items())),
            self.seconds + other.seconds,
        )


class CallStatistics:
    """The account of all calls; its methods may be called from any thread.

    Attributes:
        read_peers: Makes the accounts of other processes of the same server, which `all` adds to
            this one's.
    """

    def __init__(self) -> None:
        self.read_peers: Callable[[], Iterable[MethodStatistics]] = tuple
        self._lock = threading.Lock()
        self._tallies: dict[Method, _Tally] = {}

    def start(self, method: Method) -> None:
        """Count a call that came."""
        with self._lock:
            self._tally(method).started += 1

    def finish(self, method: Method, code: str, seconds: float) -> None:
        """Count a call's end."""
        with self._lock:
            tally = self._tally(method)
            tally.handled[code] += 1
            tally.seconds.add(seconds)

    def all(self) -> list[MethodStatistics]:
        """Every method that was ever called, by service and name."""
        return add_by_method([*self.own(), *self.read_peers()])

    def own(self) -> list[MethodStatistics]:
        """What `all` tells, of this process alone."""
        with self._lock:
            return [
                MethodStatistics(
                    method, tally.started, dict(sorted(tally.handled.items())), tally.seconds.read()
                )
                for method, tally in sorted(self._tallies.items())
            ]

    def _tally(self, method: Method) -> "_Tally":
        tally = self._tallies.get(method)
        if tally is None:
            tally = self._tallies[method] = _Tally()
        return tally


def add_by_method(parts: Iterable[MethodStatistics]) -> list[MethodStatistics]:
    """Add up what several processes tell, by service and name."""
    found: dict[Method, MethodStatistics] = {}
    for one in parts:
        found[one.method] = one + found[one.method] if one.method in found else one
    return [found[method] for method in sorted(found)]


class _Tally:
    """A `MethodStatistics` that grows."""

    def __init__(self) -> None:
        self.started = 0
        self.handled: Counter[str] = Counter()
        self.seconds = Recorder(SECONDS)
