"""Translations over the wire: decode, call, encode. What may go wrong is told by exceptions."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Literal

import grpc

from foretell.data.bundles.bundle import TranslatorSpec
from foretell.data.text.translation import PairScore, RefusedSentencesError, Translation
from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.translator_pb2_grpc import TranslatorServicer
from foretell.server.calls.answer_sizes import check_answer_size, scores_bytes, translations_bytes
from foretell.server.calls.answering import Answered, Answering
from foretell.server.calls.call import Call
from foretell.server.calls.task import Task
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions
from foretell.server.services.translator_codec import (
    answer_bytes,
    read_pairs,
    read_sentence,
    read_sentences,
    write_pair_score,
    write_translation,
)


class TranslatorService(TranslatorServicer):
    """Translates; decoding, computing and encoding run off the event loop."""

    def __init__(
        self, repository: Repository, answering: Answering, options: ServerOptions
    ) -> None:
        self._repository = repository
        self._answering = answering
        self._options = options

    async def Translate(  # noqa: N802  # gRPC's name
        self, request: wire.TranslateRequest, context: grpc.aio.ServicerContext
    ) -> wire.TranslateResponse:
        """Translate the sentences of one request."""
        answering = self._answering
        call = Call(context, size_bytes=request.ByteSize(), num_items=_num_items(request))
        with self._repository.lease(request.model, request.version) as model:
            _, spec = model.translator
            with answering.admitted(model, call):
                task = await answering.compute(
                    partial(self._read, request, spec), call, size_bytes=call.size_bytes
                )
                answered = await answering.translate(
                    model, task, call, first_place=request.first_place
                )
                return await answering.compute(
                    partial(self._write, model, request, answered),
                    call,
                    size_bytes=translations_bytes(answered.answers.values()),
                )

    async def TranslateStream(  # noqa: N802  # gRPC's name
        self, request: wire.TranslateStreamRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[wire.TranslateStreamResponse]:
        """Translate one sentence, and send what is found while it is being found."""
        call = Call(context, size_bytes=request.ByteSize())
        with self._repository.lease(request.model, request.version) as model:
            translator, spec = model.translator
            sign = partial(
                wire.TranslateStreamResponse,
                model=model.name,
                version=model.version,
                provider=translator.provider,
            )
            task = read_sentence(request, self._options)
            self._check_size(answer_bytes(task, spec), has="may have")
            if task.refusals:
                yield sign(error=wire.SentenceError(reason=task.refusals[0]))
                return
            events = self._answering.translate_stream(model, task.items[0], task.options[0], call)
            try:
                async for event in events:
                    if isinstance(event, Translation):
                        yield sign(translation=write_translation(0, event, raw=request.raw_answer))
                    else:
                        yield sign(part=wire.TranslationPart(text=event.text, tokens=event.tokens))
            except RefusedSentencesError as error:
                yield sign(error=wire.SentenceError(reason=error.refusals[0].reason))

    async def Score(  # noqa: N802  # gRPC's name
        self, request: wire.ScoreRequest, context: grpc.aio.ServicerContext
    ) -> wire.ScoreResponse:
        """Score the pairs of one request."""
        answering = self._answering
        call = Call(context, size_bytes=request.ByteSize(), num_items=len(request.pairs))
        with self._repository.lease(request.model, request.version) as model:
            _ = model.translator  # another kind of model is told first
            with answering.admitted(model, call):
                task = await answering.compute(
                    partial(read_pairs, request, self._options), call, size_bytes=call.size_bytes
                )
                answered = await answering.score(model, task, call)
                return await answering.compute(
                    partial(self._write_scores, model, answered),
                    call,
                    size_bytes=scores_bytes(answered.answers.values()),
                )

    def _read(self, request: wire.TranslateRequest, spec: TranslatorSpec) -> Task[str]:
        task = read_sentences(request, self._options)
        self._check_size(answer_bytes(task, spec), has="may have")
        return task

    def _write(
        self, model: Model, request: wire.TranslateRequest, answered: Answered[Translation]
    ) -> wire.TranslateResponse:
        response = wire.TranslateResponse(
            model=model.name,
            version=model.version,
            provider=model.served.provider,
            translations=[
                write_translation(at, translation, raw=request.raw_answer)
                for at, translation in answered.answers.items()
            ],
            errors=_errors(answered.reasons),
        )
        self._check_size(response.ByteSize(), has="has")
        return response

    def _write_scores(self, model: Model, answered: Answered[PairScore]) -> wire.ScoreResponse:
        response = wire.ScoreResponse(
            model=model.name,
            version=model.version,
            provider=model.served.provider,
            scores=[write_pair_score(at, score) for at, score in answered.answers.items()],
            errors=_errors(answered.reasons),
        )
        self._check_size(response.ByteSize(), has="has")
        return response

    def _check_size(self, size_bytes: int, *, has: Literal["has", "may have"]) -> None:
        fewer = "fewer sentences, fewer hypotheses or no attention"
        check_answer_size(size_bytes, self._options, fewer, has=has)


def _num_items(request: wire.TranslateRequest) -> int:
    """Sentences, and what else is read one by one beside them."""
    return len(request.sentences) + sum(1 + len(one.banned) for one in request.options)


def _errors(reasons: dict[int, str]) -> list[wire.SentenceError]:
    return [wire.SentenceError(position=at, reason=reason) for at, reason in reasons.items()]
