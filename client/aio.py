"""The client for programs with an event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import grpc
import pandas as pd

from foretell.client.call import Question
from foretell.client.codec import Span
from foretell.client.credentials import Credentials, choose_credentials
from foretell.client.errors import remote_errors
from foretell.client.models import (
    ModelInfo,
    ModelStatus,
    describe_request,
    described,
    load_request,
    read_description,
    read_status,
    read_statuses,
    unload_request,
)
from foretell.client.options import MIB, ClientOptions, check_target
from foretell.client.retries import AsyncWindow
from foretell.client.translation_call import ScoreCall, TranslateCall, stream_request
from foretell.client.translation_codec import check_complete, read_event
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.text.sentences import check_pairs, check_sentences
from foretell.data.text.translation import PairScore, TranslateOptions, Translation, TranslationPart
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2 import TranslateStreamRequest
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub

if TYPE_CHECKING:  # the stubs' types know an asynchronous twin that isn't there at run time
    from foretell.protos.v1.forecaster_pb2_grpc import ForecasterAsyncStub
    from foretell.protos.v1.models_pb2_grpc import ModelsAsyncStub
    from foretell.protos.v1.translator_pb2_grpc import TranslatorAsyncStub

_DEFAULTS = TranslateOptions()


class AsyncClient:
    """Asks a foretell server; `foretell.client.Client` with `await`, see there.

    It takes the same arguments. It belongs to the event loop that it was made in. Close it, or use
    it in an `async with` block.

    Attributes:
        target: HOST:PORT of the server.
        options: How the client talks to it.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout_s: float = 60.0,
        max_message_bytes: int = 64 * MIB,
        chunk_bytes: int = 3 * MIB,
        in_flight: int = 4,
        retry_s: float = 60.0,
        token: str | None = None,
        ca: str | Path | None = None,
        cert: str | Path | None = None,
        key: str | Path | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.target = check_target(target)
        self.options = ClientOptions(
            timeout_s=timeout_s,
            max_message_bytes=max_message_bytes,
            chunk_bytes=chunk_bytes,
            in_flight=in_flight,
            retry_s=retry_s,
        )
        shown = choose_credentials(credentials, token=token, ca=ca, cert=cert, key=key)
        settings = [*self.options.channel_options, *shown.channel_options]
        secret = shown.for_channel(target)
        if secret is None:
            self._channel = grpc.aio.insecure_channel(target, options=settings)
        else:
            self._channel = grpc.aio.secure_channel(target, secret, options=settings)
        self._with: dict[str, Any] = {"timeout": self.options.timeout_s, "metadata": shown.metadata}
        self._forecaster = cast("ForecasterAsyncStub", ForecasterStub(self._channel))
        self._translator = cast("TranslatorAsyncStub", TranslatorStub(self._channel))
        self._models = cast("ModelsAsyncStub", ModelsStub(self._channel))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls in work are cancelled."""
        await self._channel.close()

    async def models(self) -> list[ModelStatus]:
        """List the server's models; see `Client.models`."""
        with remote_errors(self.target):
            response = await self._models.List(ListModelsRequest(), **self._with)
        return read_statuses(response)

    async def describe(
        self, name: str | None = None, version: int | None = None, *, retry: bool = False
    ) -> ModelInfo:
        """Describe a served model; see `Client.describe`."""
        request = describe_request(name, version)
        if retry:
            asked = iter([(Span(0, 1), request)])
            answers = self._answers(self._models.Describe, asked, is_harmless=True)
            ((_, answer),) = [one async for one in answers]
            return read_description(answer)
        with remote_errors(self.target):
            description = await self._models.Describe(request, **self._with)
        return read_description(description)

    async def load_model(self, name: str, version: int | None = None) -> ModelStatus:
        """Have the server load a model and serve it; see `Client.load_model`."""
        request = load_request(name, version)
        with remote_errors(self.target):
            return read_status(await self._models.Load(request, **self._with))

    async def unload_model(self, name: str) -> ModelStatus:
        """Have the server serve a model no more; see `Client.unload_model`."""
        request = unload_request(name)
        with remote_errors(self.target):
            return read_status(await self._models.Unload(request, **self._with))

    async def forecast(
        self,
        df: pd.DataFrame,
        horizon: int,
        *,
        model: str | ModelInfo | None = None,
        version: int | None = None,
        quantiles: Sequence[float] | None = None,
        level: Sequence[float] | None = None,
        freq: str | int | None = None,
        future: pd.DataFrame | None = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        time_zone: str | None = None,
        allow_other_frequency: bool = False,
    ) -> pd.DataFrame:
        """Forecast every series of a long table; see `Client.forecast`.

        Reading the table and making the answer's table run in a thread, off the event loop.
        """
        options = ForecastOptions.from_call(
            horizon,
            quantiles=quantiles,
            level=level,
            freq=freq,
            allow_other_frequency=allow_other_frequency,
        )
        columns = Columns(unique_id=id_col, ds=time_col, y=target_col, time_zone=time_zone)
        question = Question(df, future, columns, options)
        info = await self._described(model, version)
        call = await asyncio.to_thread(question.call, info, self.options, self.target)
        async for span, response in self._answers(self._forecaster.Forecast, call.requests()):
            call.add(span, response)
        return await asyncio.to_thread(question.table, call)

    async def translate(
        self,
        sentences: Sequence[str],
        options: TranslateOptions | Sequence[TranslateOptions] = _DEFAULTS,
        *,
        model: str | ModelInfo | None = None,
        version: int | None = None,
        first_place: int = 0,
    ) -> list[Translation]:
        """Translate sentences; see `Client.translate`."""
        texts, settings = check_sentences(sentences, options)
        info = await self._described(model, version)
        call = await asyncio.to_thread(
            TranslateCall, texts, settings, info, self.options, self.target, first_place
        )
        async for span, response in self._answers(self._translator.Translate, call.requests()):
            call.add(span, response)
        return call.answers()

    def translate_stream(
        self,
        sentence: str,
        options: TranslateOptions = _DEFAULTS,
        *,
        model: str | None = None,
        version: int | None = None,
    ) -> AsyncIterator[TranslationPart | Translation]:
        """Translate one sentence as a stream, for `async for`; see `Client.translate_stream`."""
        return self._events(stream_request(sentence, options, model, version))

    async def score(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        model: str | ModelInfo | None = None,
        version: int | None = None,
    ) -> list[PairScore]:
        """Tell how probable given translations are; see `Client.score`."""
        texts = check_pairs(pairs)
        info = await self._described(model, version)
        call = await asyncio.to_thread(ScoreCall, texts, info, self.options, self.target)
        async for span, response in self._answers(self._translator.Score, call.requests()):
            call.add(span, response)
        return call.answers()

    async def _described(self, model: str | ModelInfo | None, version: int | None) -> ModelInfo:
        if isinstance(model, ModelInfo):
            return described(model, version)
        return await self.describe(model, version)

    async def _events(
        self, request: TranslateStreamRequest
    ) -> AsyncIterator[TranslationPart | Translation]:
        sent = self._translator.TranslateStream(request, **self._with)
        event = None
        try:
            with remote_errors(self.target):
                async for response in sent:
                    event = read_event(response, self.target)
                    yield event
            check_complete(event, self.target)
        finally:
            sent.cancel()

    async def _answers(
        self, method: Any, requests: Iterator[tuple[Span, Any]], *, is_harmless: bool = False
    ) -> AsyncIterator[tuple[Span, Any]]:
        """Send the requests, a few at a time; yield the answers in their order."""
        window = AsyncWindow(self.options, is_harmless=is_harmless)
        try:
            with remote_errors(self.target):
                for span, request in requests:
                    window.send(span, partial(self._send, method, request))
                    while window.is_full:
                        yield await window.first()
                while len(window):
                    yield await window.first()
        finally:
            await window.cancel()

    def _send(self, method: Any, request: Any, timeout_s: float) -> Any:
        return method(request, timeout=timeout_s, metadata=self._with["metadata"])
