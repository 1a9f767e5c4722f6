"""What a caller sees when the server, or the way to it, says no."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no types
from google.rpc import (  # type: ignore[import-untyped]  # has no types
    error_details_pb2,
    status_pb2,
)

from foretell.data.errors import ForetellError, FrequencyError, OptionError, TableError
from foretell.protos.trailers import read_error_kind

_CALLERS_MISTAKES: dict[str, type[ForetellError]] = {
    kind.__name__: kind for kind in (TableError, FrequencyError, OptionError)
}

_DETAILS = "grpc-status-details-bin"
_ADVICE = {
    "UNAVAILABLE": (
        "Ask again later, or check that the server is started, the address right, and that both "
        "sides talk TLS or neither does (ca= or tls=True; for commands FORETELL_CA or "
        "FORETELL_TLS=1)."
    ),
    "UNAUTHENTICATED": (
        "Give the client a token= that the server knows; commands take it from FORETELL_TOKEN."
    ),
    "PERMISSION_DENIED": (
        "Give the client another token= (for commands FORETELL_TOKEN), or ask for more rights for "
        "this one."
    ),
    "DEADLINE_EXCEEDED": "Give the client a larger timeout_s, or smaller chunks.",
    "RESOURCE_EXHAUSTED": (
        "If a message is too large: the limit is max_message_bytes of the client and "
        "--max-message-mib of the server, and both must allow it."
    ),
    "UNIMPLEMENTED": "Is it a foretell server, and not an older one than this client?",
}
_QUEUE_FULL = "QUEUE_FULL"
_FULL_ADVICE = "Give the client a larger retry_s, and timeout_s with it, or smaller chunks."
# gRPC's own refusals of a large message have no reason.
_SIZE_REASONS = (None, "MESSAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """What a server says of an error to programs (google.rpc), as far as it says it.

    Attributes:
        reason: Such as "QUEUE_FULL".
        retry_after_s: Seconds after which to ask again.
        request_id: Under which the server's log tells more.
    """

    reason: str | None = None
    retry_after_s: float | None = None
    request_id: str | None = None

    @property
    def is_queue_full(self) -> bool:
        """Whether a model has as many requests waiting as it may have."""
        return self.reason == _QUEUE_FULL


def read_details(trailers: Iterable[tuple[str, str | bytes]] | None) -> ErrorDetails:
    """Read what trailing metadata hold of an error; what can't be read is left out.

    Args:
        trailers: As gRPC gives them; None where the call never reached a server.
    """
    info, retry, request = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.RetryInfo(),
        error_details_pb2.RequestInfo(),
    )
    has_retry = False
    try:
        for key, value in trailers or ():
            if key == _DETAILS and isinstance(value, bytes):
                for part in status_pb2.Status.FromString(value).details:
                    has_retry |= part.Unpack(retry)
                    _ = part.Unpack(info) or part.Unpack(request)
    except DecodeError:
        pass
    return ErrorDetails(
        reason=info.reason or None,
        retry_after_s=max(0.0, retry.retry_delay.ToTimedelta().total_seconds())
        if has_retry
        else None,
        request_id=request.request_id or None,
    )


class RemoteError(ForetellError, RuntimeError):
    """The server refused a call as a whole, or didn't answer.

    Attributes:
        code: Name of the gRPC status code, such as "NOT_FOUND".
        target: Which server.
        reason: More exactly than the code, such as "QUEUE_FULL"; None where it isn't told.
        retry_after_s: Seconds after which to ask again; None where it isn't told.
        request_id: Under which the server's log tells more; None where it isn't told.
    """

    def __init__(
        self, code: str, target: str, details: str, told: ErrorDetails | None = None
    ) -> None:
        self.code = code
        self.target = target
        self._details = details
        self._told = told or ErrorDetails()
        self.reason = self._told.reason
        self.retry_after_s = self._told.retry_after_s
        self.request_id = self._told.request_id
        problems = [f"server {target} answered {code}: {details}"]
        if advice := _advice(code, self._told):
            problems.append(advice)
        super().__init__(problems)

    def __reduce__(self) -> tuple[type, tuple[str, str, str, ErrorDetails]]:
        return type(self), (self.code, self.target, self._details, self._told)


def _advice(code: str, told: ErrorDetails) -> str | None:
    if code == "RESOURCE_EXHAUSTED" and told.reason not in _SIZE_REASONS:
        return _FULL_ADVICE if told.is_queue_full else None
    return _ADVICE.get(code)


@contextmanager
def remote_errors(target: str) -> Iterator[None]:
    """Turn gRPC's errors of the block into ours.

    Raises:
        TableError: As a forecaster in this process would raise it; so the next two.
        FrequencyError: See there.
        OptionError: See there.
        RemoteError: Anything else.
    """
    try:
        yield
    except grpc.RpcError as error:
        details = error.details() or "no details"
        kind = _CALLERS_MISTAKES.get(read_error_kind(error.trailing_metadata()) or "")
        if kind is not None:
            raise kind(details.split("\n")) from error
        told = read_details(error.trailing_metadata())
        raise RemoteError(error.code().name, target, details, told) from error
