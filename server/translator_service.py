"""Translations over the wire: decode, call, encode. What may go wrong is told by exceptions."""

from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Executor
from functools import partial
from typing import Protocol, TypeVar

import grpc

from foretell.data.translation import RefusedSentencesError, Translation, TranslationPart
from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.translator_pb2_grpc import TranslatorServicer
from foretell.server.errors import MessageSizeError
from foretell.server.options import ServerOptions
from foretell.server.repository import Repository
from foretell.server.served import Model
from foretell.server.translation_codec import (
    answer_all,
    answer_bytes,
    read_pairs,
    read_sentence,
    read_sentences,
    write_pair_score,
    write_translation,
)
from foretell.server.working import Check, run_in_worker, stream_from_worker


class _Request(Protocol):
    model: str
    version: int


RequestT = TypeVar("RequestT", bound=_Request)
ResponseT = TypeVar("ResponseT")


class TranslatorService(TranslatorServicer):
    """Translates; decoding, computing and encoding run off the event loop."""

    def __init__(self, repository: Repository, workers: Executor, options: ServerOptions) -> None:
        self._repository = repository
        self._workers = workers
        self._options = options

    async def Translate(  # noqa: N802  # gRPC's name
        self, request: wire.TranslateRequest, context: grpc.aio.ServicerContext
    ) -> wire.TranslateResponse:
        """Translate the sentences of one request."""
        return await self._answer(request, self._translate, context)

    async def TranslateStream(  # noqa: N802  # gRPC's name
        self, request: wire.TranslateStreamRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[wire.TranslateStreamResponse]:
        """Translate one sentence, and send what is found while it is being found."""
        with self._repository.lease(request.model, request.version) as model:
            steps = partial(self._stream, model, request)
            async for response in stream_from_worker(steps, self._workers, context):
                yield response

    async def Score(  # noqa: N802  # gRPC's name
        self, request: wire.ScoreRequest, context: grpc.aio.ServicerContext
    ) -> wire.ScoreResponse:
        """Score the pairs of one request."""
        return await self._answer(request, self._score, context)

    async def _answer(
        self,
        request: RequestT,
        compute: Callable[[Model, RequestT, Check], ResponseT],
        context: grpc.aio.ServicerContext,
    ) -> ResponseT:
        with self._repository.lease(request.model, request.version) as model:
            return await run_in_worker(partial(compute, model, request), self._workers, context)

    def _translate(
        self, model: Model, request: wire.TranslateRequest, check: Check
    ) -> wire.TranslateResponse:
        translator, spec = model.translator
        task = read_sentences(request, self._options)
        self._check_size(answer_bytes(task, spec), "may have")
        answered, errors = answer_all(
            task,
            lambda: translator.translate(
                task.items,
                task.options if len(task.options) > 1 else task.options[0],
                first_place=request.first_place,
                on_step=check,
            ),
        )
        response = wire.TranslateResponse(
            model=model.name,
            version=model.version,
            provider=translator.provider,
            translations=[
                write_translation(position, translation, raw=request.raw_answer)
                for position, translation in answered
            ],
            errors=errors,
        )
        self._check_size(response.ByteSize(), "has")
        return response

    def _score(self, model: Model, request: wire.ScoreRequest, check: Check) -> wire.ScoreResponse:
        translator, _ = model.translator
        task = read_pairs(request, self._options)
        answered, errors = answer_all(task, lambda: translator.score(task.items, on_step=check))
        response = wire.ScoreResponse(
            model=model.name,
            version=model.version,
            provider=translator.provider,
            scores=[write_pair_score(position, score) for position, score in answered],
            errors=errors,
        )
        self._check_size(response.ByteSize(), "has")
        return response

    def _stream(
        self, model: Model, request: wire.TranslateStreamRequest
    ) -> Generator[wire.TranslateStreamResponse | None, None, None]:
        translator, spec = model.translator
        task = read_sentence(request, self._options)
        self._check_size(answer_bytes(task, spec), "may have")
        sign = partial(
            wire.TranslateStreamResponse,
            model=model.name,
            version=model.version,
            provider=translator.provider,
        )
        if task.refusals:
            yield sign(error=wire.SentenceError(reason=task.refusals[0]))
            return
        try:
            for event in translator.translate_stream(task.items[0], task.options[0]):
                if isinstance(event, Translation):
                    yield sign(translation=write_translation(0, event, raw=request.raw_answer))
                elif event == TranslationPart():
                    yield None
                else:
                    yield sign(part=wire.TranslationPart(text=event.text, tokens=event.tokens))
        except RefusedSentencesError as error:
            yield sign(error=wire.SentenceError(reason=error.refusals[0].reason))

    def _check_size(self, size_bytes: int, has: str) -> None:
        most = self._options.max_message_bytes
        if size_bytes > most:
            raise MessageSizeError(
                f"the answer {has} {size_bytes:,} bytes, and this server sends at most {most:,}. "
                "Ask for fewer sentences, fewer hypotheses or no attention, or start the server "
                "with a larger --max-message-mib."
            )
