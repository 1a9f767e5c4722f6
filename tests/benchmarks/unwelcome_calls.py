"""Calls that a server must not answer as asked: left ones, late ones, wrong ones, too large ones.

Each has the one right end: the status that `server/README.md` promises, or that its caller left.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import known_answers as known
import numpy as np
from known_answers import LEFT, Answer, Question

from foretell.data.text.number_words import english_words
from foretell.data.text.translation import TranslateOptions
from foretell.protos.arrays import pack_doubles
from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import models_pb2, translator_pb2

LIMITS = (
    *("--max-message-mib", "2", "--max-series", "100", "--max-horizon", "5000"),
    *("--max-sentences", "64", "--max-beam-size", "16"),
)
"""Flags of the server that these calls are written for."""

_ABOVE_MIB = 3
_LATE = "DEADLINE_EXCEEDED"
_SLOW = TranslateOptions(beam_size=16, n_best=16)


def left_calls(rng: random.Random) -> list[Question]:
    """Calls that are cancelled before their answer is there, or else in the middle of a stream."""
    made = []
    for _ in range(10):
        sentences = [english_words(rng.randrange(1000)) for _ in range(32)]
        content = known.translate_request(sentences, _SLOW).SerializeToString()
        made.append(Question("left in mid-call", _leaves(content, rng), {}, (LEFT,)))
        stream = known.stream_request(sentences[0], TranslateOptions()).SerializeToString()
        made.append(Question("left in mid-stream", _leaves_stream(stream, rng), {}, (LEFT,)))
    return made


def _leaves(content: bytes, rng: random.Random) -> Callable[[grpc.aio.Channel], Awaitable[Answer]]:
    async def ask(channel: grpc.aio.Channel) -> Answer:
        call = channel.unary_unary(known.TRANSLATE)(content)
        await asyncio.sleep(rng.uniform(0, 0.02))
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        raise asyncio.CancelledError  # also where the answer was quicker

    return ask


def _leaves_stream(
    content: bytes, rng: random.Random
) -> Callable[[grpc.aio.Channel], Awaitable[Answer]]:
    async def ask(channel: grpc.aio.Channel) -> Answer:
        call = channel.unary_stream(known.TRANSLATE_STREAM)(content)
        for _ in range(rng.randrange(3)):
            await call.read()
        call.cancel()
        raise asyncio.CancelledError

    return ask


def late_calls() -> list[Question]:
    """Calls whose time is over before any answer can be there, by their own or gRPC's deadline."""
    sentences = [english_words(number) for number in range(700, 764)]
    content = known.translate_request(sentences, _SLOW).SerializeToString()
    request = known.infer_translation_request(sentences, _SLOW)
    request.parameters["timeout"].int64_param = 1000  # microseconds

    async def ask(channel: grpc.aio.Channel) -> Answer:
        await channel.unary_unary(known.TRANSLATE)(content, timeout=0.005)
        return 0, None

    return [
        Question("deadline passed", ask, {}, (_LATE,)),
        Question("own timeout passed", known.infer(request), {}, (_LATE,)),
    ]


def wrong_calls() -> list[Question]:
    """Requests that are wrong as a whole."""
    model, status = inference_pb2.ModelInferRequest, "INVALID_ARGUMENT"
    tensor = model(model_name=known.FORECASTER)
    tensor.inputs.add(name="context", datatype="FP32", shape=[1, 8])
    tensor.raw_input_contents.append(bytes(32))
    short = model(model_name=known.FORECASTER)
    short.inputs.add(name="context", datatype="FP64", shape=[2, 8])
    short.raw_input_contents.append(bytes(64))
    parameter = known.infer_translation_request(["one"], TranslateOptions())
    parameter.parameters["sequence_id"].int64_param = 1
    nobody = _forecast(1, 10, 3)
    nobody.model = "nobody"
    version = _forecast(1, 10, 3)
    version.version = 99
    kind = translator_pb2.TranslateRequest(model=known.FORECASTER, sentences=["one"])
    levels = _forecast(1, 10, 3)
    levels.quantile_levels.CopyFrom(pack_doubles(np.array([0.5, 1.5]), raw=True))
    return [
        *_refused("wrong", known.INFER, status, tensor, short, parameter),
        *_refused("wrong", known.FORECAST, status, _forecast(2, 10, 0), levels, b"\xff" * 40),
        *_refused("wrong", known.TRANSLATE, status, _sentences(0), _sentences(1, beam_size=0)),
        *_refused("wrong", known.FORECAST, "NOT_FOUND", nobody, version),
        *_refused("wrong", known.TRANSLATE, "FAILED_PRECONDITION", kind),
        *_refused(
            "wrong",
            "/foretell.v1.Models/Load",
            "FAILED_PRECONDITION",
            models_pb2.LoadModelRequest(model=known.FORECASTER),
        ),
        *_refused("wrong", "/foretell.v1.Translator/Sing", "UNIMPLEMENTED", b""),
    ]


def large_calls() -> list[Question]:
    """Requests above one of the `LIMITS`, and one whose answer would be."""
    status = "INVALID_ARGUMENT"
    above = bytes(_ABOVE_MIB * 2**20)
    return [
        *_refused("too large", known.FORECAST, status, _forecast(101, 4, 3), _forecast(1, 9, 5001)),
        *_refused(
            "too large", known.TRANSLATE, status, _sentences(65), _sentences(1, beam_size=17)
        ),
        *_refused("too large", known.FORECAST, "RESOURCE_EXHAUSTED", above, _forecast(90, 9, 4000)),
        *_refused("too large", known.TRANSLATE, "RESOURCE_EXHAUSTED", above),
    ]


def _refused(kind: str, method: str, status: str, *requests: Any) -> Iterator[Question]:
    for request in requests:
        content = request if isinstance(request, bytes) else request.SerializeToString()
        yield Question(kind, _sends(method, content), {}, (status,))


def _sends(method: str, content: bytes) -> Callable[[grpc.aio.Channel], Awaitable[Answer]]:
    async def ask(channel: grpc.aio.Channel) -> Answer:
        await channel.unary_unary(method)(content)
        return 0, None

    return ask


def _forecast(num_series: int, steps: int, horizon: int) -> Any:
    request = known.integer_request([np.arange(float(steps))] * num_series)
    request.horizon = horizon
    return request


def _sentences(count: int, **options: int) -> Any:
    return translator_pb2.TranslateRequest(
        model=known.TRANSLATOR,
        sentences=["one"] * count,
        options=[translator_pb2.TranslateOptions(**options)],
    )
