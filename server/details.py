"""What an error says to programs: google.rpc's details, beside the text for people.

They travel in the trailing metadata that gRPC's libraries of all languages look for them in.
"""

import math
import re
from urllib.parse import quote

import grpc
from google.protobuf.message import Message  # type: ignore[import-untyped]  # has no types
from google.rpc import (  # type: ignore[import-untyped]  # has no types
    error_details_pb2 as details,
)
from google.rpc import status_pb2

from foretell.data.errors import ForetellError
from foretell.protos.v1 import forecaster_pb2, models_pb2, translator_pb2

TRAILER = "grpc-status-details-bin"
DOMAIN = "foretell"

_MOST_VIOLATIONS = 20
# All headers together; clients drop a status whose headers are above 8 KiB, and there are others.
_MAX_HEADER_BYTES = 7000
# A problem begins with the field that it tells of: "history.ids is empty; ...".
_PATH = re.compile(r"(\w+)(?:\.\w+|\[\d+\])*(?=[: ])")
_FIELDS = frozenset(
    field.name
    for file in (forecaster_pb2, models_pb2, translator_pb2)
    for message in file.DESCRIPTOR.message_types_by_name.values()
    if message.name.endswith(("Request", "Options"))
    for field in message.fields
)
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


def status_details(
    error: BaseException, code: grpc.StatusCode, text: str, request_id: str
) -> tuple[tuple[str, bytes], ...]:
    """Make the trailing metadata with an error's details; less of them where a header is full.

    The reason is the error's name, as MODEL_NOT_FOUND; of a fault of ours it is INTERNAL. An error
    with an attribute `retry_after_s` tells after how many seconds to try again; the problems of a
    malformed request are told by field.

    Args:
        error: What a call raised.
        code: Of the status.
        text: Of the status, as it is sent.
        request_id: Of the call.
    """
    is_fault = code is grpc.StatusCode.INTERNAL or not isinstance(error, ForetellError)
    reason = "INTERNAL" if is_fault else _reason(error)
    status = status_pb2.Status(code=code.value[0], message=text)
    room = _MAX_HEADER_BYTES - len(quote(text))
    parts: list[Message] = [
        details.ErrorInfo(reason=reason, domain=DOMAIN),
        details.RequestInfo(request_id=request_id),
    ]
    retry_after_s = getattr(error, "retry_after_s", None)
    if retry_after_s is not None:
        retry = details.RetryInfo()
        retry.retry_delay.FromMilliseconds(math.ceil(retry_after_s * 1000))
        parts.append(retry)
    for part in parts:
        _add(status, part, room)
    if code is grpc.StatusCode.INVALID_ARGUMENT and isinstance(error, ForetellError):
        violations = _violations(error)
        while violations and not _add(
            status, details.BadRequest(field_violations=violations), room
        ):
            violations.pop()
    return ((TRAILER, status.SerializeToString()),) if status.details else ()


def _add(status: status_pb2.Status, part: Message, room_bytes: int) -> bool:
    status.details.add().Pack(part)
    if math.ceil(status.ByteSize() / 3) * 4 <= room_bytes:  # as base64, like all binary headers
        return True
    del status.details[-1]
    return False


def _violations(error: ForetellError) -> list[details.BadRequest.FieldViolation]:
    return [
        details.BadRequest.FieldViolation(field=match[0], description=problem)
        for problem in error.problems[:_MOST_VIOLATIONS]
        if len(problem) <= _MAX_HEADER_BYTES
        and (match := _PATH.match(problem)) is not None
        and match[1] in _FIELDS
    ]


def _reason(error: BaseException) -> str:
    return _WORD.sub("_", type(error).__name__.removesuffix("Error")).upper()
