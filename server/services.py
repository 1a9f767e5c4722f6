"""The services of foretell.v1: decode, call, encode. What may go wrong is told by exceptions."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor

import grpc

from foretell.data.errors import ForetellError
from foretell.protos.v1.forecaster_pb2 import ForecastRequest, ForecastResponse
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterServicer
from foretell.protos.v1.models_pb2 import (
    DescribeModelRequest,
    ForecasterDescription,
    ListModelsRequest,
    ListModelsResponse,
    ModelDescription,
    ModelStatus,
)
from foretell.protos.v1.models_pb2_grpc import ModelsServicer
from foretell.server.codec import answer_bytes, read_request, write_answer
from foretell.server.errors import MessageSizeError, ModelKindError
from foretell.server.repository import Model, Repository


class ForecasterService(ForecasterServicer):
    """Forecasts; decoding, computing and encoding run off the event loop."""

    def __init__(
        self, repository: Repository, workers: Executor, *, max_message_bytes: int
    ) -> None:
        self._repository = repository
        self._workers = workers
        self._max_message_bytes = max_message_bytes

    async def Forecast(  # noqa: N802  # gRPC's name
        self, request: ForecastRequest, context: grpc.aio.ServicerContext
    ) -> ForecastResponse:
        """Forecast the series of one request."""
        return await self._answer(request)

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
                response = await self._answer(request)
            except ForetellError as error:
                error.add_note(f"request {number} of the stream:")
                raise
            yield response

    async def _answer(self, request: ForecastRequest) -> ForecastResponse:
        model = self._repository.get(request.model, request.version)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, self._forecast, model, request)

    def _forecast(self, model: Model, request: ForecastRequest) -> ForecastResponse:
        spec = model.forecaster.manifest.forecaster
        if spec is None:
            raise ModelKindError(
                f"model {model.name} is a {model.forecaster.manifest.kind}, no forecaster; "
                "ask Models.List and Models.Describe for one."
            )
        task = read_request(request, spec)
        self._check_size(answer_bytes(len(task.rows.ids), task.options))
        answer = model.forecaster.forecast_rows(task.rows, task.future, task.options)
        response = write_answer(answer, task.rows, raw=request.raw_answer)
        response.model = model.name
        response.version = model.version
        response.provider = model.forecaster.provider
        self._check_size(response.ByteSize())
        return response

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._max_message_bytes:
            raise MessageSizeError(
                f"the answer has {size_bytes:,} bytes, and this server sends at most "
                f"{self._max_message_bytes:,}. Ask for fewer series, steps or quantiles at once, "
                "or start the server with a larger --max-message-mib."
            )


class ModelsService(ModelsServicer):
    """Tells about the models."""

    def __init__(self, repository: Repository, *, max_message_bytes: int) -> None:
        self._repository = repository
        self._descriptions = {
            model.name: _describe(model, max_message_bytes) for model in repository.models.values()
        }

    async def List(  # noqa: N802  # gRPC's name
        self, request: ListModelsRequest, context: grpc.aio.ServicerContext
    ) -> ListModelsResponse:
        """List the served models and those that could not be loaded."""
        response = ListModelsResponse()
        for model in self._repository.models.values():
            response.models.add(
                name=model.name, version=model.version, state=ModelStatus.STATE_READY
            )
        for failure in self._repository.failures:
            response.models.add(
                name=failure.name,
                version=failure.version,
                state=ModelStatus.STATE_FAILED,
                reason=failure.reason,
            )
        response.models.sort(key=lambda status: (status.name, status.version))
        return response

    async def Describe(  # noqa: N802  # gRPC's name
        self, request: DescribeModelRequest, context: grpc.aio.ServicerContext
    ) -> ModelDescription:
        """Describe one served model."""
        return self._descriptions[self._repository.get(request.model, request.version).name]


def _describe(model: Model, max_message_bytes: int) -> ModelDescription:
    manifest = model.forecaster.manifest
    spec = manifest.forecaster
    return ModelDescription(
        name=model.name,
        version=model.version,
        kind=manifest.kind,
        precision=manifest.precision,
        provider=model.forecaster.provider,
        manifest_json=manifest.to_json(),
        max_message_bytes=max_message_bytes,
        forecaster=None
        if spec is None
        else ForecasterDescription(
            context_length=spec.context_length,
            patch_length=spec.patch_length,
            horizon=spec.horizon,
            frequency=spec.frequency,
            season_length=spec.season_length,
            quantile_levels=spec.quantile_levels,
            future_covariates=spec.future_covariates,
            past_covariates=spec.past_covariates,
            static=spec.static,
        ),
    )
