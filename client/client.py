"""The client for programs without an event loop."""

from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import grpc
import pandas as pd

from foretell.client.call import MIB, ClientOptions, ForecastCall, Question
from foretell.client.codec import Span
from foretell.client.errors import remote_errors
from foretell.client.models import ModelInfo, ModelStatus, read_description, read_statuses
from foretell.data.options import ForecastOptions
from foretell.protos.v1.forecaster_pb2 import ForecastRequest, ForecastResponse
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import DescribeModelRequest, ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub


class Client:
    """Forecasts tables on a foretell server.

    Threads may share it. Close it, or use it in a `with` block.

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
    ) -> None:
        self.target = target
        self.options = ClientOptions(
            timeout_s=timeout_s,
            max_message_bytes=max_message_bytes,
            chunk_bytes=chunk_bytes,
            in_flight=in_flight,
        )
        self._channel = grpc.insecure_channel(target, options=self.options.channel_options)
        self._forecaster = ForecasterStub(self._channel)
        self._models = ModelsStub(self._channel)

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

    def models(self) -> list[ModelStatus]:
        """List the server's models, those it could not load included.

        Raises:
            RemoteError: The server can't be reached, or says no.
        """
        with remote_errors(self.target):
            response = self._models.List(ListModelsRequest(), timeout=self.options.timeout_s)
        return read_statuses(response)

    def describe(self, name: str | None = None, version: int | None = None) -> ModelInfo:
        """Describe a served model.

        Args:
            name: Its name; None where the server serves exactly one.
            version: Its version; None for the one that is served.

        Raises:
            RemoteError: The server can't be reached, or has no such model.
        """
        request = DescribeModelRequest(model=name or "", version=version or 0)
        with remote_errors(self.target):
            description = self._models.Describe(request, timeout=self.options.timeout_s)
        return read_description(description, self.target)

    def forecast(
        self,
        df: pd.DataFrame,
        horizon: int,
        *,
        model: str | None = None,
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
        """Forecast every series of a long table.

        A large table goes as several requests by itself, some at a time.

        Args:
            df: Rows of series: id, time stamp or integer step, target, and the model's covariates.
            horizon: Steps ahead.
            model: Name of the model; None where the server serves exactly one.
            version: Its version; None for the one that is served.
            quantiles: Quantile levels, each inside (0, 1); 0.1, 0.5, 0.9 by default.
            level: Instead of quantiles: central intervals in percent, each inside (0, 100).
            freq: Frequency of every series; None infers it for each.
            future: The model's known-future covariates over the horizon: id, stamp, values.
            id_col: Column of ids.
            time_col: Column of stamps.
            target_col: Column of the target.
            time_zone: Zone in which stamps with offsets or zones step days, weeks and months.
            allow_other_frequency: Forecast series of another frequency than the model's.

        Returns:
            Columns `id_col`, `time_col`, `forecast` (the 0.5 quantile), and one a level, such as
            `q0.1`; series in the order of their first rows.

        Raises:
            OptionError: An option is out of range.
            TableError: A table can't be understood.
            RefusedSeriesError: Some series were refused; the error carries the table of the others.
            RemoteError: The server can't be reached, or refuses the question as a whole.
        """
        options = ForecastOptions.from_call(
            horizon,
            quantiles=quantiles,
            level=level,
            freq=freq,
            allow_other_frequency=allow_other_frequency,
        )
        question = Question(
            df=df,
            future=future,
            options=options,
            id_col=id_col,
            time_col=time_col,
            target_col=target_col,
            time_zone=time_zone,
        )
        call = ForecastCall(question, self.describe(model, version), self.options, self.target)
        for span, response in self._answers(call.requests()):
            call.add(span, response)
        return call.table()

    def _answers(
        self, requests: Iterator[tuple[Span, ForecastRequest]]
    ) -> Iterator[tuple[Span, ForecastResponse]]:
        """Send the requests, a few at a time; yield the answers in their order."""
        waiting: deque[tuple[Span, grpc.Future]] = deque()
        try:
            with remote_errors(self.target):
                for span, request in requests:
                    sent = self._forecaster.Forecast.future(request, timeout=self.options.timeout_s)
                    waiting.append((span, sent))
                    if len(waiting) == self.options.in_flight:
                        first, answer = waiting.popleft()
                        yield first, answer.result()
                while waiting:
                    first, answer = waiting.popleft()
                    yield first, answer.result()
        finally:
            for _, answer in waiting:
                answer.cancel()
