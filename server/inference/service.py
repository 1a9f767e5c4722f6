"""The Open Inference Protocol: what Triton's and KServe's clients speak, over the same models."""

import importlib.metadata
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import grpc
import numpy as np

from foretell.data.errors import ForetellError, ModelNotFoundError
from foretell.data.quoting import quoted
from foretell.data.text.translation import TranslationPart
from foretell.protos.inference import inference_pb2 as wire
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceServicer
from foretell.server.calls.answer_sizes import check_answer_size
from foretell.server.calls.answering import Answering
from foretell.server.calls.call import Call
from foretell.server.calls.request_sizes import RequestSizes
from foretell.server.errors import ModelNotReadyError, RequestError, told_status
from foretell.server.inference.descriptions import (
    write_config,
    write_index,
    write_metadata,
    write_statistics,
)
from foretell.server.inference.models import Inference, InferenceModels, read_version
from foretell.server.inference.parameters import Parameters, read_parameters
from foretell.server.inference.signature import Signature, Tensor
from foretell.server.inference.streams import MOST_IN_WORK, SideBySide
from foretell.server.inference.tensors import read_inputs, read_outputs, write_outputs
from foretell.server.inference.translations import (
    ERRORS,
    PARTS,
    STREAM,
    TranslationInference,
    parts_of,
)
from foretell.server.models.repository import Repository
from foretell.server.options import ServerOptions
from foretell.server.telemetry.call_lines import log_stream_error
from foretell.server.telemetry.call_notes import current_notes

EXTENSIONS = (
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)
_MOST_NAME = 1024  # characters of what a caller calls something, where it is said again
_FINAL = "triton_final_response"
_ERROR_METADATA = "triton_grpc_error"


class InferenceService(GRPCInferenceServiceServicer):
    """Answers the Open Inference Protocol; decoding, computing and encoding run off the event loop.

    Attributes:
        is_stopping: The server is going, and no longer ready.
    """

    def __init__(
        self,
        repository: Repository,
        answering: Answering,
        options: ServerOptions,
        sizes: RequestSizes,
    ) -> None:
        self.is_stopping = False
        self._sizes = sizes
        self._repository = repository
        self._models = InferenceModels(repository, options)
        self._answering = answering
        self._options = options

    async def ServerLive(  # noqa: N802  # gRPC's name
        self, request: wire.ServerLiveRequest, context: grpc.aio.ServicerContext
    ) -> wire.ServerLiveResponse:
        """Say that the server answers."""
        return wire.ServerLiveResponse(live=True)

    async def ServerReady(  # noqa: N802  # gRPC's name
        self, request: wire.ServerReadyRequest, context: grpc.aio.ServicerContext
    ) -> wire.ServerReadyResponse:
        """Say whether any model can be asked; one that is being loaded changes nothing."""
        return wire.ServerReadyResponse(
            ready=bool(self._repository.models) and not self.is_stopping
        )

    async def ModelReady(  # noqa: N802  # gRPC's name
        self, request: wire.ModelReadyRequest, context: grpc.aio.ServicerContext
    ) -> wire.ModelReadyResponse:
        """Say whether a model can be asked; one that isn't known can't."""
        try:
            self._models.get(request.name, request.version)
        except (ModelNotFoundError, ModelNotReadyError):
            return wire.ModelReadyResponse(ready=False)
        return wire.ModelReadyResponse(ready=not self.is_stopping)

    async def ServerMetadata(  # noqa: N802  # gRPC's name
        self, request: wire.ServerMetadataRequest, context: grpc.aio.ServicerContext
    ) -> wire.ServerMetadataResponse:
        """Say what the server is and what it can do beside the protocol."""
        return wire.ServerMetadataResponse(
            name="foretell", version=importlib.metadata.version("foretell"), extensions=EXTENSIONS
        )

    async def ModelMetadata(  # noqa: N802  # gRPC's name
        self, request: wire.ModelMetadataRequest, context: grpc.aio.ServicerContext
    ) -> wire.ModelMetadataResponse:
        """Say what a model takes and gives."""
        return write_metadata(self._models.get(request.name, request.version))

    async def ModelConfig(  # noqa: N802  # gRPC's name
        self, request: wire.ModelConfigRequest, context: grpc.aio.ServicerContext
    ) -> wire.ModelConfigResponse:
        """Say the same as Triton's configuration of a model does."""
        inference = self._models.get(request.name, request.version)
        return wire.ModelConfigResponse(config=write_config(inference))

    async def ModelStatistics(  # noqa: N802  # gRPC's name
        self, request: wire.ModelStatisticsRequest, context: grpc.aio.ServicerContext
    ) -> wire.ModelStatisticsResponse:
        """Say what one model did, or each of them."""
        statistics = self._repository.observer.statistics
        if request.name:
            asked = [(request.name, self._models.get(request.name, request.version).model)]
        elif read_version(request.version) is not None:
            raise RequestError("a version is named, but no model; name one, or leave both out.")
        else:
            asked = list(self._repository.models.items())
        return wire.ModelStatisticsResponse(
            model_stats=[
                write_statistics(name, statistics.of(model.name, model.version))
                for name, model in asked
            ]
        )

    async def RepositoryIndex(  # noqa: N802  # gRPC's name
        self, request: wire.RepositoryIndexRequest, context: grpc.aio.ServicerContext
    ) -> wire.RepositoryIndexResponse:
        """List the models and their states."""
        _check_one_repository(request.repository_name)
        return wire.RepositoryIndexResponse(
            models=write_index(self._repository, only_ready=request.ready)
        )

    async def RepositoryModelLoad(  # noqa: N802  # gRPC's name
        self, request: wire.RepositoryModelLoadRequest, context: grpc.aio.ServicerContext
    ) -> wire.RepositoryModelLoadResponse:
        """Load the newest version of a model, where the repository lets callers do that."""
        name = _named_model(request, known=())
        await self._repository.load_model(name)
        return wire.RepositoryModelLoadResponse(model_name=name, isLoaded=True)

    async def RepositoryModelUnload(  # noqa: N802  # gRPC's name
        self, request: wire.RepositoryModelUnloadRequest, context: grpc.aio.ServicerContext
    ) -> wire.RepositoryModelUnloadResponse:
        """Let a model serve no more, where the repository lets callers do that."""
        name = _named_model(request, known=("unload_dependents",))  # no model has any
        await self._repository.unload_model(name)
        return wire.RepositoryModelUnloadResponse(model_name=name, isUnloaded=True)

    async def ModelInfer(  # noqa: N802  # gRPC's name
        self, request: wire.ModelInferRequest, context: grpc.aio.ServicerContext
    ) -> wire.ModelInferResponse:
        """Answer one request."""
        _check_id(request)
        try:
            with self._models.lease(request.model_name, request.model_version) as inference:
                parameters = read_parameters(request, inference.signature.parameters)
                if parameters.own.get(STREAM):
                    raise RequestError(
                        f"the parameter {STREAM!r} asks for many answers; use ModelStreamInfer."
                    )
                return await self._answer(inference, request, parameters, context)
        except ForetellError as error:
            _note_id(error, request)
            raise

    async def ModelStreamInfer(  # noqa: N802  # gRPC's name
        self,
        request_iterator: AsyncIterator[wire.ModelInferRequest],
        context: grpc.aio.ServicerContext,
    ) -> AsyncIterator[wire.ModelStreamInferResponse]:
        """Answer requests side by side, each as soon as may be; an error is one's own answer."""
        metadata = dict(context.invocation_metadata() or ())
        ends_on_error = metadata.get(_ERROR_METADATA) == "true"

        async def answers(
            request: wire.ModelInferRequest,
        ) -> AsyncGenerator[wire.ModelStreamInferResponse, None]:
            try:
                with self._sizes.held(request.ByteSize()):
                    async with aclosing(self._answers(request, context)) as responses:
                        async for response in responses:
                            yield wire.ModelStreamInferResponse(infer_response=response)
            except Exception as error:
                _note_id(error, request)
                if ends_on_error:
                    raise
                yield self._told(error, request)

        options = self._options
        work = SideBySide(
            answers,
            most=min(MOST_IN_WORK, options.max_queue),
            most_bytes=min(options.max_message_bytes, options.max_queue_bytes),
        )
        context.add_done_callback(lambda _: work.cancel())  # gRPC may be writing at the end
        async with aclosing(work.answers(request_iterator)) as responses:
            async for response in responses:
                yield response

    async def _answers(
        self, request: wire.ModelInferRequest, context: grpc.aio.ServicerContext
    ) -> AsyncGenerator[wire.ModelInferResponse, None]:
        """The one answer to a request of a stream, or one for each part of a translation."""
        _check_id(request)
        with self._models.lease(request.model_name, request.model_version) as inference:
            parameters = read_parameters(request, inference.signature.parameters)
            if not (parameters.own.get(STREAM) and isinstance(inference, TranslationInference)):
                yield await self._answer(inference, request, parameters, context)
                return
            call = _call(request, parameters, context)
            write = partial(self._write, inference, request, parameters)
            with self._answering.admitted(inference.model, call):
                task, outputs = await self._read(request, inference, parameters, call)
                chosen = _chosen(inference.signature, outputs)
                stream = inference.stream(self._answering, task, call)
                async with aclosing(stream) as events:
                    async for event in events:
                        if isinstance(event, TranslationPart):
                            yield write(PARTS, parts_of(event), is_final=False)
                        else:
                            yield write(chosen, event, is_final=True)

    async def _answer(
        self,
        inference: Inference,
        request: wire.ModelInferRequest,
        parameters: Parameters,
        context: grpc.aio.ServicerContext,
    ) -> wire.ModelInferResponse:
        call = _call(request, parameters, context)
        with self._answering.admitted(inference.model, call):
            task, outputs = await self._read(request, inference, parameters, call)
            answer = await inference.ask(self._answering, task, outputs, call)

            def write() -> wire.ModelInferResponse:
                asks_errors = any(output.name == ERRORS for output in request.outputs)
                arrays = inference.write(task, answer, asks_errors=asks_errors)
                tensors = _chosen(inference.signature, outputs)
                return self._write(inference, request, parameters, tensors, arrays, is_final=True)

            size_bytes = inference.answer_bytes(answer)
            return await self._answering.compute(write, call, size_bytes=size_bytes)

    async def _read(
        self,
        request: wire.ModelInferRequest,
        inference: Inference,
        parameters: Parameters,
        call: Call,
    ) -> tuple[Any, tuple[str, ...]]:
        """What is asked, and which outputs."""

        def read() -> tuple[Any, tuple[str, ...]]:
            outputs = read_outputs(request, inference.signature)
            return inference.read(
                read_inputs(request, inference.signature), parameters.own
            ), outputs

        return await self._answering.compute(read, call, size_bytes=call.size_bytes)

    def _write(
        self,
        inference: Inference,
        request: wire.ModelInferRequest,
        parameters: Parameters,
        tensors: tuple[Tensor, ...],
        arrays: dict[str, np.ndarray],
        *,
        is_final: bool,
    ) -> wire.ModelInferResponse:
        response = wire.ModelInferResponse(
            model_name=request.model_name,
            model_version=str(inference.model.version),
            id=request.id,
        )
        if parameters.wants_final:
            response.parameters[_FINAL].bool_param = is_final
        write_outputs(response, tensors, arrays, raw=parameters.raw)
        check_answer_size(response.ByteSize(), self._options, "fewer rows", has="may have")
        return response

    def _told(
        self, error: Exception, request: wire.ModelInferRequest
    ) -> wire.ModelStreamInferResponse:
        """Tell an error inside a stream, with the code that a call of its own would have had."""
        code, text = told_status(error, "/inference.GRPCInferenceService/ModelStreamInfer")
        known_id = _echo(request.id)
        if known_id and code is grpc.StatusCode.INTERNAL:  # of which nothing else is told
            text = f"{_note(known_id)}\n{text}"
        self._log(code, text, request)
        response = wire.ModelStreamInferResponse(
            error_message=text,
            infer_response=wire.ModelInferResponse(
                model_name=_echo(request.model_name), id=known_id
            ),
        )
        response.infer_response.parameters["grpc_code"].string_param = code.name
        wants = request.parameters.get("triton_enable_empty_final_response")
        if wants is not None and wants.bool_param:
            response.infer_response.parameters[_FINAL].bool_param = True
        return response

    def _log(self, code: grpc.StatusCode, text: str, request: wire.ModelInferRequest) -> None:
        """Log a request that failed in a stream, as a call that fails is; the stream goes on."""
        name, version = "", 0
        with suppress(ForetellError):  # what the caller wrote is no model's name
            model = self._models.get(request.model_name, request.model_version).model
            name, version = model.name, model.version
        if (notes := current_notes()) is not None:
            log_stream_error(
                notes, code, text, of_request=_echo(request.id), model=name, version=version
            )


def _chosen(signature: Signature, outputs: tuple[str, ...]) -> tuple[Tensor, ...]:
    known = {tensor.name: tensor for tensor in signature.outputs}
    return tuple(known[name] for name in outputs)


def _call(
    request: wire.ModelInferRequest, parameters: Parameters, context: grpc.aio.ServicerContext
) -> Call:
    return Call(
        context,
        size_bytes=request.ByteSize(),
        num_items=max((one.shape[0] for one in request.inputs if one.shape), default=1),
        timeout_s=parameters.timeout_s,
        priority=parameters.priority,
    )


def _check_id(request: wire.ModelInferRequest) -> None:
    """Refuse an id that is no name but a load: each part of a stream's answers holds it again."""
    if len(request.id) > _MOST_NAME:
        raise RequestError(
            f"id has {len(request.id):,} characters; send at most {_MOST_NAME:,}, such as a number."
        )


def _note_id(error: Exception, request: wire.ModelInferRequest) -> None:
    if known := _echo(request.id):
        error.add_note(_note(known))


def _note(known_id: str) -> str:
    return f"[request id: {quoted(known_id)[1:-1]}]"


def _echo(name: str) -> str:
    """What an error may say again of what was never checked; nothing of what is too long."""
    return name if len(name) <= _MOST_NAME else ""


def _named_model(
    request: wire.RepositoryModelLoadRequest | wire.RepositoryModelUnloadRequest,
    *,
    known: tuple[str, ...],
) -> str:
    """The model's name, in Triton's field or in KServe's."""
    problems = [
        f"parameter {quoted(name)} is not known; leave it out."
        for name in sorted(request.parameters)[:10]
        if name not in known
    ]
    if problems:
        raise RequestError(problems)
    if not request.model_name:
        return request.repository_name
    _check_one_repository(request.repository_name)
    return request.model_name


def _check_one_repository(name: str) -> None:
    if name:
        raise RequestError(f"repository_name is {quoted(name)}; there is one, leave it out.")
