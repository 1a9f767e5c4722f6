"""The client for programs without an event loop."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import pandas as pd

from foretell.client.call import ForecastCall, Question
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
from foretell.client.retries import Window
from foretell.client.translation_call import ScoreCall, TranslateCall, stream_request
from foretell.client.translation_codec import check_complete, read_event
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import PanelForecast, Rows
from foretell.data.text.sentences import check_pairs, check_sentences
from foretell.data.text.translation import PairScore, TranslateOptions, Translation, TranslationPart
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.protos.v1.translator_pb2 import TranslateStreamRequest
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub

_DEFAULTS = TranslateOptions()


class Client:
    """Forecasts tables and translates sentences on a foretell server.

    Threads may share it. Close it, or use it in a `with` block.

    Args:
        target: HOST:PORT of the server, or unix:PATH.
        timeout_s, max_message_bytes, chunk_bytes, in_flight, retry_s: See `ClientOptions`.
        token, ca, cert, key: A bearer token and PEM files, see `Credentials`; with `ca` the client
            talks TLS, with `cert` and `key` it shows a certificate of its own.
        credentials: All of these instead, and more.

    Raises:
        OptionError: An option is out of its range, a file can't be read, or a token would go to
            another machine in clear.

    Attributes:
        target: Of the server.
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
            self._channel = grpc.insecure_channel(target, options=settings)
        else:
            self._channel = grpc.secure_channel(target, secret, options=settings)
        self._with: dict[str, Any] = {"timeout": self.options.timeout_s, "metadata": shown.metadata}
        self._forecaster = ForecasterStub(self._channel)
        self._translator = TranslatorStub(self._channel)
        self._models = ModelsStub(self._channel)
        self._windows: set[Window] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; calls in work are cancelled."""
        self._channel.close()
        for window in self._windows.copy():
            window.close()

    def models(self) -> list[ModelStatus]:
        """List the server's models, those it could not load included.

        Raises:
            RemoteError: The server can't be reached, or says no.
        """
        with remote_errors(self.target):
            response = self._models.List(ListModelsRequest(), **self._with)
        return read_statuses(response)

    def describe(
        self, name: str | None = None, version: int | None = None, *, retry: bool = False
    ) -> ModelInfo:
        """Describe a served model.

        Args:
            name: Its name; None where the server serves exactly one.
            version: Its version; None for the one that is served.
            retry: Wait for a server that isn't there for as long as a request may be asked again,
                see `ClientOptions`. Else it is told at once: the address may be wrong.

        Raises:
            OptionError: The name or the version can't be one.
            RemoteError: The server can't be reached, or has no such model.
        """
        request = describe_request(name, version)
        if retry:
            asked = iter([(Span(0, 1), request)])
            ((_, answer),) = self._answers(self._models.Describe, asked, is_harmless=True)
            return read_description(answer)
        with remote_errors(self.target):
            description = self._models.Describe(request, **self._with)
        return read_description(description)

    def load_model(self, name: str, version: int | None = None) -> ModelStatus:
        """Have the server load a model and serve it, where its operator lets callers do that.

        A model that takes long to load needs a client with a larger `timeout_s`; the server loads
        on whoever waits.

        Args:
            name: Its name, as its folder has it.
            version: Its version; None for the newest, or the one that the operator has pinned.

        Returns:
            The state of the version that serves now.

        Raises:
            OptionError: The name or the version can't be one.
            RemoteError: The server can't be reached, or says no; what served goes on serving.
        """
        request = load_request(name, version)
        with remote_errors(self.target):
            return read_status(self._models.Load(request, **self._with))

    def unload_model(self, name: str) -> ModelStatus:
        """Have the server serve a model no more; the calls that it has are finished.

        Raises:
            OptionError: The name can't be one.
            RemoteError: The server can't be reached, or says no.
        """
        request = unload_request(name)
        with remote_errors(self.target):
            return read_status(self._models.Unload(request, **self._with))

    def forecast(  # noqa: D417  # arguments that go together share a line
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
        """Forecast every series of a long table; a large one goes as several requests by itself.

        Args:
            df: Rows of series: id, time stamp or integer step, target, the model's covariates.
            horizon: Steps ahead.
            model, version: Which model; None where the server serves exactly one. What `describe`
                has returned is asked for again as it is, in the same version, without a look.
            quantiles, level: Levels inside (0, 1), or instead central intervals in percent.
            freq, allow_other_frequency: See `ForecastOptions`.
            future: The model's known-future covariates over the horizon: id, stamp, values.
            id_col, time_col, target_col, time_zone: See `Columns`.

        Returns:
            `id_col`, `time_col`, `forecast` (the 0.5 quantile) and a column a level, such as
            `q0.1`; series in the order of their first rows.

        Raises:
            RefusedSeriesError: Some series were refused; it carries the table of the others.
            RemoteError: The server can't be reached, or refuses the question as a whole.
            TableError, FrequencyError, OptionError: As a forecaster in this process raises them.
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
        call = question.call(self._described(model, version), self.options, self.target)
        self._complete(call)
        return question.table(call)

    def forecast_rows(
        self, rows: Rows, future: Rows | None, options: ForecastOptions, model: ModelInfo
    ) -> PanelForecast:
        """Forecast typed rows, as `Forecaster.forecast_rows` does: what jobs call.

        Args:
            rows: The series, with the model's covariates in its order.
            future: The known-future covariates over the horizon; None where the model has none.
            options: What to forecast.
            model: As `describe` has told it; no other version of it answers.

        Returns:
            The answers, and the series refused with their reasons.

        Raises:
            RemoteError: The server can't be reached, or refuses the question as a whole.
            TableError, FrequencyError, OptionError: As a forecaster in this process raises them.
        """
        call = ForecastCall(rows, future, options, model, self.options, self.target)
        self._complete(call)
        return call.answer()

    def translate(  # noqa: D417  # arguments that go together share a line
        self,
        sentences: Sequence[str],
        options: TranslateOptions | Sequence[TranslateOptions] = _DEFAULTS,
        *,
        model: str | ModelInfo | None = None,
        version: int | None = None,
        first_place: int = 0,
    ) -> list[Translation]:
        """Translate sentences; a long list goes as several requests by itself.

        Args:
            sentences: Texts, a line each.
            options: How to search: for all sentences, or one a sentence.
            model, version: Which model; see `forecast`.
            first_place: Place of the first sentence, where these are a part of a longer list: what
                is drawn at random depends on a sentence's place.

        Returns:
            The translations in the order of the sentences.

        Raises:
            RefusedSentencesError: Some sentences were refused; it carries the others' answers.
            RemoteError: The server can't be reached, or refuses the question as a whole.
            OptionError: As a translator in this process raises it.
        """
        texts, settings = check_sentences(sentences, options)
        info = self._described(model, version)
        call = TranslateCall(texts, settings, info, self.options, self.target, first_place)
        for span, response in self._answers(self._translator.Translate, call.requests()):
            call.add(span, response)
        return call.answers()

    def translate_stream(  # noqa: D417  # arguments that go together share a line
        self,
        sentence: str,
        options: TranslateOptions = _DEFAULTS,
        *,
        model: str | None = None,
        version: int | None = None,
    ) -> Iterator[TranslationPart | Translation]:
        """Translate one sentence, and get its text while it is being found.

        Closing the iterator, or leaving it to be collected, stops the computation at the server.

        Args:
            sentence: A text.
            options: How to search.
            model, version: Which model; None where the server serves exactly one.

        Returns:
            Yields parts, whose texts together are that of the translation, and the translation
            last; raises what `translate` raises.

        Raises:
            OptionError: As a translator in this process raises it.
        """
        return self._events(stream_request(sentence, options, model, version))

    def score(  # noqa: D417  # arguments that go together share a line
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        model: str | ModelInfo | None = None,
        version: int | None = None,
    ) -> list[PairScore]:
        """Tell how probable given translations are; many go as several requests by themselves.

        Args:
            pairs: A source and its translation each.
            model, version: Which model; see `forecast`.

        Raises:
            RefusedSentencesError: Some pairs were refused; it carries the others' answers.
            RemoteError: The server can't be reached, or refuses the question as a whole.
            OptionError: As a translator in this process raises it.
        """
        texts = check_pairs(pairs)
        call = ScoreCall(texts, self._described(model, version), self.options, self.target)
        for span, response in self._answers(self._translator.Score, call.requests()):
            call.add(span, response)
        return call.answers()

    def _described(self, model: str | ModelInfo | None, version: int | None) -> ModelInfo:
        if isinstance(model, ModelInfo):
            return described(model, version)
        return self.describe(model, version)

    def _complete(self, call: ForecastCall) -> None:
        """Send a call's requests, and give it the answers."""
        for span, response in self._answers(self._forecaster.Forecast, call.requests()):
            call.add(span, response)

    def _events(self, request: TranslateStreamRequest) -> Iterator[TranslationPart | Translation]:
        sent = self._translator.TranslateStream(request, **self._with)
        event = None
        try:
            with remote_errors(self.target):
                for response in sent:
                    event = read_event(response, self.target)
                    yield event
            check_complete(event, self.target)
        finally:
            sent.cancel()

    def _answers(
        self, method: Any, requests: Iterator[tuple[Span, Any]], *, is_harmless: bool = False
    ) -> Iterator[tuple[Span, Any]]:
        """Send the requests, a few at a time; yield the answers in their order."""
        window = Window(self.options, is_harmless=is_harmless)
        self._windows.add(window)
        try:
            with remote_errors(self.target):
                for span, request in requests:
                    window.send(span, partial(self._send, method, request))
                    while window.is_full:
                        yield window.first()
                while len(window):
                    yield window.first()
        finally:
            self._windows.remove(window)
            window.cancel()

    def _send(self, method: Any, request: Any, timeout_s: float) -> Any:
        return method.future(request, timeout=timeout_s, metadata=self._with["metadata"])
