"""What comes beside a request: parameters, ids, traces, tokens, and the heads of HTTP requests."""

import asyncio
import atexit
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from foretell.protos.inference import inference_pb2 as wire
from foretell.server.access.authorisation import bearer_token
from foretell.server.access.tokens import TokenFile, add_token, read_tokens
from foretell.server.errors import (
    ForbiddenError,
    RequestError,
    TokenFileError,
    UnauthenticatedError,
)
from foretell.server.http.guard import HttpGuard
from foretell.server.http.port import HttpPort, Page
from foretell.server.inference.parameters import read_parameters
from foretell.server.telemetry.request_id import new_request_id
from foretell.server.telemetry.tracing import trace_id_of

FOLDER = Path(tempfile.mkdtemp(prefix="foretell-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
TOKENS, FUZZED = FOLDER / "tokens", FOLDER / "fuzzed"
TOKEN = add_token(TOKENS, "watcher", "metadata")
PORT = HttpPort(
    "127.0.0.1:0",
    {"/": lambda: Page(b"seen")},
    HttpGuard(None, TokenFile(TOKENS, check_every_s=1e9), health=("/healthz",)),
)
KNOWN = {"beam_size": "int", "speed": "float", "name": "text", "deep": "bool"}


def seeds():
    """One of each, behind the byte that says which."""
    yield b""
    request = wire.ModelInferRequest(model_name="any")
    for name in ("timeout", "priority", "beam_size"):
        request.parameters[name].int64_param = 3
    request.parameters["speed"].string_param = "1e3"
    request.parameters["deep"].bool_param = True
    yield b"\0" + request.SerializeToString()
    yield b"\1mine"
    yield b"\2" + b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    yield b"\3Bearer secret"
    for head in ("GET / HTTP/1.1", "GET /healthz?x=1 HTTP/1.0", "POST / HTTP/1.1"):
        yield f"\4{head}\r\nHost: here\r\nAuthorization: Basic d2hvOnNlY3JldA==\r\n\r\n".encode()
    yield b"\5" + TOKENS.read_bytes()


def parts(data):
    """What stands before the message, and the message, where it is one."""
    if data[0] % len(KINDS):
        raise DecodeError
    return data[:1], wire.ModelInferRequest.FromString(data[1:])


def read(data):
    """Read it or refuse it."""
    kind, content = (data[0] if data else 0) % len(KINDS), data[1:]
    KINDS[kind](content)


def parameters(content):
    with suppress(DecodeError, RequestError):
        read_parameters(wire.ModelInferRequest.FromString(content), KNOWN)


def request_id(content):
    assert 1 <= len(new_request_id(content.decode("latin-1"))) <= 64


def trace(content):
    assert len(trace_id_of(content.decode("latin-1"))) in {0, 32}


def bearer(content):
    with suppress(UnauthenticatedError):
        assert bearer_token([("authorization", content.decode("latin-1"))])


class Writer:
    """Keeps what is written."""

    def __init__(self):
        self.written = b""

    def write(self, content):
        self.written += content

    async def drain(self):
        pass

    def get_extra_info(self, name):
        return None


def http(content):
    """Whatever the head is, there is an answer to it, and none shows the page without the token."""
    writer = Writer()
    asyncio.run(answer(content, writer))
    assert writer.written.startswith(b"HTTP/1.1 ") or not writer.written
    assert b"seen" not in writer.written or TOKEN.encode() in content


async def answer(content, writer):
    reader = asyncio.StreamReader(limit=16 * 1024)
    reader.feed_data(content)
    reader.feed_eof()
    with suppress(asyncio.IncompleteReadError):
        await PORT._answer_one(reader, writer)


def token_file(content):
    FUZZED.write_bytes(content)
    with suppress(TokenFileError, ForbiddenError):
        assert read_tokens(FUZZED)


KINDS = (parameters, request_id, trace, bearer, http, token_file)
