"""What a server has: its models listed and described."""

import grpc

from foretell.data.bundle import ForecasterSpec, TranslatorSpec
from foretell.protos.v1.models_pb2 import (
    DescribeModelRequest,
    ForecasterDescription,
    ListModelsRequest,
    ListModelsResponse,
    ModelDescription,
    ModelStatus,
    TranslatorDescription,
)
from foretell.protos.v1.models_pb2_grpc import ModelsServicer
from foretell.server.options import ServerOptions
from foretell.server.repository import Repository
from foretell.server.served import Model


class ModelsService(ModelsServicer):
    """Tells about the models."""

    def __init__(self, repository: Repository, options: ServerOptions) -> None:
        self._repository = repository
        self._descriptions = {
            model.name: _describe(model, options) for model in repository.models.values()
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


def _describe(model: Model, options: ServerOptions) -> ModelDescription:
    manifest = model.served.manifest
    forecaster, translator = manifest.forecaster, manifest.translator
    return ModelDescription(
        name=model.name,
        version=model.version,
        kind=manifest.kind,
        precision=manifest.precision,
        provider=model.served.provider,
        manifest_json=manifest.to_json(),
        max_message_bytes=options.max_message_bytes,
        forecaster=None if forecaster is None else _describe_forecaster(forecaster),
        translator=None if translator is None else _describe_translator(translator, options),
    )


def _describe_forecaster(spec: ForecasterSpec) -> ForecasterDescription:
    return ForecasterDescription(
        context_length=spec.context_length,
        patch_length=spec.patch_length,
        horizon=spec.horizon,
        frequency=spec.frequency,
        season_length=spec.season_length,
        quantile_levels=spec.quantile_levels,
        future_covariates=spec.future_covariates,
        past_covariates=spec.past_covariates,
        static=spec.static,
    )


def _describe_translator(spec: TranslatorSpec, options: ServerOptions) -> TranslatorDescription:
    return TranslatorDescription(
        arch=spec.arch,
        vocab_size=spec.vocab_size,
        max_source_length=spec.max_source_length,
        max_target_length=spec.max_target_length,
        src_language=spec.src_language,
        tgt_language=spec.tgt_language,
        has_attention=spec.has_attention,
        max_sentences=options.max_sentences,
        max_characters=options.max_characters,
        max_beam_size=options.max_beam_size,
    )
