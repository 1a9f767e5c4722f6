"""Forecasts over the wire: decode, call, encode. What may go wrong is told by exceptions."""

from collections.abc import AsyncIterator
from functools import partial

import grpc

from foretell.data.bundles.bundle import ForecasterSpec
from foretell.data.errors import ForetellError
from foretell.protos.v1.forecaster_pb2 import ForecastRequest, ForecastResponse
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterServicer
from foretell.server.calls.answer_sizes import check_answer_size, forecast_bytes
from foretell.server.calls.answering import Answering
from foretell.server.calls.call import Call
from foretell.server.models.repository import Repository
from foretell.server.options import ServerOptions
from foretell.server.services.forecaster_codec import (
    ForecastTask,
    answer_bytes,
    read_request,
    write_answer,
)


class ForecasterService(ForecasterServicer):
    """Forecasts; decoding, computing and encoding run off the event loop."""

    def __init__(
        self, repository: Repository, answering: Answering, options: ServerOptions
    ) -> None:
        self._repository = repository
        self._answering = answering
        self._options = options

    async def Forecast(  # noqa: N802  # gRPC's name
        self, request: ForecastRequest, context: grpc.aio.ServicerContext
    ) -> ForecastResponse:
        """Forecast the series of one request."""
        return await self._answer(request, context)

    async def ForecastStream(  # noqa: N802  # gRPC's name
        self,
        request_iterator: AsyncIterator[ForecastRequest],
        context: grpc.aio.ServicerContext,
    ) -> AsyncIterator[ForecastResponse]:
        """Forecast one request after another, in order."""
        number = 0
        async for request in request_iterator:
            number += 1
            try:
                response = await self._answer(request, context)
            except ForetellError as error:
                error.add_note(f"request {number} of the stream:")
                raise
            yield response

    async def _answer(
        self, request: ForecastRequest, context: grpc.aio.ServicerContext
    ) -> ForecastResponse:
        answering = self._answering
        call = Call(context, size_bytes=request.ByteSize(), num_items=len(request.history.ids))
        with self._repository.lease(request.model, request.version) as model:
            forecaster, spec = model.forecaster
            with answering.admitted(model, call):
                task = await answering.compute(
                    partial(self._read, request, spec), call, size_bytes=call.size_bytes
                )
                answer = await answering.forecast(model, task.rows, task.future, task.options, call)
                response = await answering.compute(
                    partial(write_answer, answer, task.rows, raw=request.raw_answer),
                    call,
                    size_bytes=forecast_bytes(answer),
                )
                response.model = model.name
                response.version = model.version
                response.provider = forecaster.provider
                self._check_size(response.ByteSize())
                return response

    def _read(self, request: ForecastRequest, spec: ForecasterSpec) -> ForecastTask:
        task = read_request(request, spec, self._options)
        self._check_size(answer_bytes(len(task.rows.ids), task.options))
        return task

    def _check_size(self, size_bytes: int) -> None:
        fewer = "fewer series, steps or quantiles at once"
        check_answer_size(size_bytes, self._options, fewer, has="has")
