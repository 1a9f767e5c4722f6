"""What callers get to see of an error: the one place that turns exceptions into gRPC status codes.

A caller's own mistake is told in full. Of a fault of ours the caller sees a request id and nothing
else; what happened stands under that id in the log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

import grpc

from foretell.data.errors import (
    ForetellError,
    FrequencyError,
    ModelNotFoundError,
    OptionError,
    TableError,
)
from foretell.protos.trailers import write_error_kind
from foretell.runtime.queues.work import DeadlineError, QueueFullError
from foretell.server.details import status_details
from foretell.server.telemetry.call_notes import current_notes
from foretell.server.telemetry.request_id import current_request_id

_log = logging.getLogger(__name__)

# A status text travels percent-encoded in an HTTP/2 header, and clients drop headers above 8 KiB
# together with the status itself.
_MAX_STATUS_BYTES = 4096
_MAX_LOG_CHARACTERS = 2000  # an event is a line, and a readable one, whatever a client sends


class RequestError(ForetellError, ValueError):
    """A request is malformed: its lengths don't fit, or fields are missing or contradict."""


class ModelKindError(ForetellError, TypeError):
    """The request is right, but the model is of another kind."""


class MessageSizeError(ForetellError, ValueError):
    """An answer would be larger than a message may be."""


class UnauthenticatedError(ForetellError, PermissionError):
    """A call shows no token, or none that is good."""


class ForbiddenError(ForetellError, PermissionError):
    """A call's token is good, but not for this method."""


class TokenFileError(ForetellError, ValueError):
    """A file of tokens can't be read, is malformed, or holds no token."""


class CertificateError(ForetellError, ValueError):
    """A certificate, its key or a list of authorities can't be read, or don't belong together."""


class ModelNotReadyError(ForetellError, RuntimeError):
    """A model is there, but is only being loaded."""


class ModelLoadError(ForetellError, RuntimeError):
    """A model that a caller wants loaded can't be."""


class ModelControlError(ForetellError, RuntimeError):
    """Callers may not load and unload models, or not this version."""


class ListenError(ForetellError, OSError):
    """The server can't listen where it was told to."""


class AddressError(ListenError, OptionError):
    """Where the server is told to listen is no address."""


_CODES: tuple[tuple[type[ForetellError], grpc.StatusCode], ...] = (
    (RequestError, grpc.StatusCode.INVALID_ARGUMENT),
    (TableError, grpc.StatusCode.INVALID_ARGUMENT),
    (FrequencyError, grpc.StatusCode.INVALID_ARGUMENT),
    (OptionError, grpc.StatusCode.INVALID_ARGUMENT),
    (ModelNotFoundError, grpc.StatusCode.NOT_FOUND),
    (ModelKindError, grpc.StatusCode.FAILED_PRECONDITION),
    (ModelNotReadyError, grpc.StatusCode.UNAVAILABLE),
    (ModelLoadError, grpc.StatusCode.FAILED_PRECONDITION),
    (ModelControlError, grpc.StatusCode.FAILED_PRECONDITION),
    (MessageSizeError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (QueueFullError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (DeadlineError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (ForbiddenError, grpc.StatusCode.PERMISSION_DENIED),
)


def status_of(error: BaseException, request_id: str) -> tuple[grpc.StatusCode, str]:
    """Choose the status code and the text for a caller.

    Args:
        error: What a call raised.
        request_id: Under which the log tells more.
    """
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, fit_status([*getattr(error, "__notes__", []), *error.problems])
    return grpc.StatusCode.INTERNAL, f"internal error, request id {request_id}"


def fit_status(problems: Sequence[str]) -> str:
    """Join the problems, a line each, as many as a status can carry, and count the others."""
    lines: list[str] = []
    room = _MAX_STATUS_BYTES
    for number, problem in enumerate(problems):
        # A client may have made it huge, and it only grows when it is quoted.
        size_bytes = len(quote(problem[: _MAX_STATUS_BYTES + 1])) + 3
        if size_bytes > room:
            rest = f"... and {len(problems) - number} more."
            lines.append(rest if lines else problem[: _MAX_STATUS_BYTES // 12] + " ...")
            break
        room -= size_bytes
        lines.append(problem)
    return "\n".join(lines)


@asynccontextmanager
async def errors_as_status(method: str, context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
    """End the call with the right status when its body raises; cancellation and own aborts pass.

    So does what gRPC itself raises where the caller is gone: nobody is left to be told anything.
    """
    try:
        yield
    except (asyncio.CancelledError, grpc.aio.BaseError):
        raise
    except Exception as error:
        code, text = told_status(error, method)
        trailers = () if code is grpc.StatusCode.INTERNAL else write_error_kind(error)
        details = status_details(error, code, text, current_request_id())
        await context.abort(code, text, (*trailers, *details))


def told_status(error: Exception, method: str) -> tuple[grpc.StatusCode, str]:
    """Choose the status code and the text for a caller, and log a fault of ours under the same id.

    It doesn't ask gRPC's context for anything: the call may be over and gone.

    Args:
        error: What a call raised.
        method: Of the call.
    """
    notes = current_notes()
    request_id = current_request_id()
    code, text = status_of(error, request_id)
    if code is grpc.StatusCode.INTERNAL:
        # A caller's own mistake stands in the call's line, in the text it gets.
        _log.error(
            "method=%s code=%s request_id=%s peer=%s: %s",
            method,
            code.name,
            request_id,
            notes.peer if notes else "",
            " ".join(str(error).splitlines())[:_MAX_LOG_CHARACTERS],
            exc_info=error,
        )
    return code, text
