"""What a server has: its models listed and described, and loaded where callers may."""

from weakref import WeakKeyDictionary

import grpc

from foretell.data.bundles.bundle import ForecasterSpec, TranslatorSpec
from foretell.protos.v1.models_pb2 import (
    DescribeModelRequest,
    ForecasterDescription,
    ListModelsRequest,
    ListModelsResponse,
    LoadModelRequest,
    ModelDescription,
    ModelStatus,
    TranslatorDescription,
    UnloadModelRequest,
)
from foretell.protos.v1.models_pb2_grpc import ModelsServicer
from foretell.server.models.repository import Repository, State, VersionStatus
from foretell.server.models.served import Model, Served
from foretell.server.options import ServerOptions

_STATES = {
    State.LOADING: ModelStatus.STATE_LOADING,
    State.READY: ModelStatus.STATE_READY,
    State.FAILED: ModelStatus.STATE_FAILED,
    State.UNLOADING: ModelStatus.STATE_UNLOADING,
}


class ModelsService(ModelsServicer):
    """Tells about the models, and changes them where the repository lets callers do that."""

    def __init__(self, repository: Repository, options: ServerOptions) -> None:
        self._repository = repository
        self._options = options
        # A manifest may be long, and clients ask often. What is unloaded must not stay for this.
        self._descriptions: WeakKeyDictionary[Served, ModelDescription] = WeakKeyDictionary()

    async def List(  # noqa: N802  # gRPC's name
        self, request: ListModelsRequest, context: grpc.aio.ServicerContext
    ) -> ListModelsResponse:
        """List the versions that are served, come or go, and those that could not be loaded."""
        return ListModelsResponse(
            models=[_write_status(status) for status in self._repository.statuses()]
        )

    async def Describe(  # noqa: N802  # gRPC's name
        self, request: DescribeModelRequest, context: grpc.aio.ServicerContext
    ) -> ModelDescription:
        """Describe one served model."""
        model = self._repository.get(request.model, request.version)
        description = self._descriptions.get(model.served)
        if description is None or (description.name, description.version) != (
            model.name,
            model.version,
        ):
            description = _describe(model, self._options)
            self._descriptions[model.served] = description
        return description

    async def Load(  # noqa: N802  # gRPC's name
        self, request: LoadModelRequest, context: grpc.aio.ServicerContext
    ) -> ModelStatus:
        """Load a version and let it serve."""
        return _write_status(await self._repository.load_model(request.model, request.version))

    async def Unload(  # noqa: N802  # gRPC's name
        self, request: UnloadModelRequest, context: grpc.aio.ServicerContext
    ) -> ModelStatus:
        """Let a model serve no more."""
        return _write_status(await self._repository.unload_model(request.model))


def _write_status(status: VersionStatus) -> ModelStatus:
    return ModelStatus(
        name=status.name,
        version=status.version,
        state=_STATES[status.state],
        reason=status.reason,
    )


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
        forecaster=None if forecaster is None else _describe_forecaster(forecaster, options),
        translator=None if translator is None else _describe_translator(translator, options),
    )


def _describe_forecaster(spec: ForecasterSpec, options: ServerOptions) -> ForecasterDescription:
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
        max_series=options.max_series,
        max_steps=options.max_steps,
        max_horizon=options.max_horizon,
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
