"""What a caller sees when the server, or the way to it, says no."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from foretell.data.errors import ForetellError, FrequencyError, OptionError, TableError
from foretell.protos.trailers import read_error_kind

_CALLERS_MISTAKES: dict[str, type[ForetellError]] = {
    kind.__name__: kind for kind in (TableError, FrequencyError, OptionError)
}

_ADVICE = {
    "UNAVAILABLE": (
        "Ask again later, or check that the server is started, the address right, and that both "
        "sides talk TLS or neither does."
    ),
    "UNAUTHENTICATED": "Give the client a token= that the server knows.",
    "PERMISSION_DENIED": "Give the client another token=, or ask for more rights for this one.",
    "DEADLINE_EXCEEDED": "Give the client a larger timeout_s, or smaller chunks.",
    "RESOURCE_EXHAUSTED": (
        "If a message is too large: the limit is max_message_bytes of the client and "
        "--max-message-mib of the server, and both must allow it."
    ),
    "UNIMPLEMENTED": "Is it a foretell server, and not an older one than this client?",
}


class RemoteError(ForetellError, RuntimeError):
    """The server refused a call as a whole, or didn't answer.

    Attributes:
        code: Name of the gRPC status code, such as "NOT_FOUND".
        target: Which server.
    """

    def __init__(self, code: str, target: str, details: str) -> None:
        self.code = code
        self.target = target
        self._details = details
        problems = [f"server {target} answered {code}: {details}"]
        if advice := _ADVICE.get(code):
            problems.append(advice)
        super().__init__(problems)

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.code, self.target, self._details)


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
        raise RemoteError(error.code().name, target, details) from error
