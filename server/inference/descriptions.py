"""What the Open Inference Protocol tells of models: metadata, configuration, statistics, index."""

from collections.abc import Iterable

from foretell.protos.inference import inference_pb2 as wire
from foretell.protos.inference import model_config_pb2 as config_wire
from foretell.server.inference.graphs import GraphInference, graphs_of
from foretell.server.inference.models import GRAPH, Inference
from foretell.server.models.repository import Repository, State
from foretell.server.telemetry.durations import Duration
from foretell.server.telemetry.statistics import ModelStatistics

_TYPES = {
    "BOOL": config_wire.TYPE_BOOL,
    "INT32": config_wire.TYPE_INT32,
    "INT64": config_wire.TYPE_INT64,
    "FP16": config_wire.TYPE_FP16,
    "FP32": config_wire.TYPE_FP32,
    "FP64": config_wire.TYPE_FP64,
    "BYTES": config_wire.TYPE_STRING,
}
# Triton has no word for a version that failed.
_STATES = {
    State.LOADING: "LOADING",
    State.READY: "READY",
    State.FAILED: "UNAVAILABLE",
    State.UNLOADING: "UNLOADING",
    State.UNAVAILABLE: "UNAVAILABLE",
}


def write_metadata(inference: Inference) -> wire.ModelMetadataResponse:
    """Tell a model's inputs and outputs."""
    signature = inference.signature
    metadata = wire.ModelMetadataResponse.TensorMetadata
    return wire.ModelMetadataResponse(
        name=signature.model,
        versions=[str(inference.model.version)],
        platform=_platform(inference),
        inputs=[
            metadata(name=one.name, datatype=one.datatype, shape=one.shape)
            for one in signature.inputs
        ],
        outputs=[
            metadata(name=one.name, datatype=one.datatype, shape=one.shape)
            for one in signature.outputs
        ],
    )


def write_config(inference: Inference) -> config_wire.ModelConfig:
    """Tell the same as Triton's configuration of a model does, and what it was trained for."""
    signature, served = inference.signature, inference.model.served
    facts = {
        "kind": served.manifest.kind,
        "precision": served.manifest.precision,
        "provider": served.provider,
        "request_parameters": ",".join(sorted(signature.parameters)),
        **signature.facts,
    }
    is_task = not isinstance(inference, GraphInference)
    return config_wire.ModelConfig(
        name=signature.model,
        platform=_platform(inference),
        backend="foretell" if is_task else "onnxruntime",
        input=[
            config_wire.ModelInput(name=one.name, data_type=_TYPES[one.datatype], dims=one.shape)
            for one in signature.inputs
        ],
        output=[
            config_wire.ModelOutput(name=one.name, data_type=_TYPES[one.datatype], dims=one.shape)
            for one in signature.outputs
        ],
        dynamic_batching=config_wire.ModelDynamicBatching() if is_task else None,
        parameters={
            name: config_wire.ModelParameter(string_value=text) for name, text in facts.items()
        },
        model_transaction_policy=config_wire.ModelTransactionPolicy(decoupled=False),
    )


def write_statistics(name: str, counted: ModelStatistics) -> wire.ModelStatistics:
    """Tell what a model did.

    Args:
        name: As asked: a graph has no account of its own, its model's is told.
        counted: The account.
    """
    return wire.ModelStatistics(
        name=name,
        version=str(counted.version),
        last_inference=counted.last_inference_ms,
        inference_count=counted.inference_count,
        execution_count=counted.execution_count,
        inference_stats=wire.InferStatistics(
            success=_duration(counted.success),
            fail=_duration(counted.fail),
            queue=_duration(counted.queue),
            compute_input=_duration(counted.compute_input),
            compute_infer=_duration(counted.compute_infer),
            compute_output=_duration(counted.compute_output),
        ),
        batch_stats=[
            wire.InferBatchStatistics(
                batch_size=size,
                compute_input=_duration(took.input),
                compute_infer=_duration(took.infer),
                compute_output=_duration(took.output),
            )
            for size, took in counted.batches.items()
        ],
    )


def write_index(
    repository: Repository, *, only_ready: bool
) -> Iterable[wire.RepositoryIndexResponse.ModelIndex]:
    """List every version with its state, and the graphs of those that serve."""
    models = repository.models
    for status in repository.index():
        is_ready = status.state is State.READY
        if only_ready and not is_ready:
            continue
        names = [status.name]
        model = models.get(status.name)
        if is_ready and model is not None and model.version == status.version:
            graphs = graphs_of(model.served.manifest)
            names += [f"{status.name}{GRAPH}{graph}" for graph in graphs]
        for name in names:
            yield wire.RepositoryIndexResponse.ModelIndex(
                name=name,
                version=str(status.version),
                state=_STATES[status.state],
                reason=status.reason,
            )


def _platform(inference: Inference) -> str:
    if isinstance(inference, GraphInference):
        return "onnxruntime_onnx"
    return f"foretell_{inference.model.served.manifest.kind}"


def _duration(duration: Duration) -> wire.StatisticDuration:
    return wire.StatisticDuration(count=duration.count, ns=duration.ns)
