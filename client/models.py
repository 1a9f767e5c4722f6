"""What a server tells about its models."""

import json
import numbers
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from foretell.client.errors import RemoteError
from foretell.data.bundles.bundle import ForecasterSpec, TranslatorSpec
from foretell.data.errors import OptionError
from foretell.protos.v1.models_pb2 import (
    DescribeModelRequest,
    ForecasterDescription,
    ListModelsResponse,
    LoadModelRequest,
    ModelDescription,
    TranslatorDescription,
    UnloadModelRequest,
)
from foretell.protos.v1.models_pb2 import ModelStatus as ModelStatusMessage

_STATES = {
    ModelStatusMessage.STATE_LOADING: "loading",
    ModelStatusMessage.STATE_READY: "ready",
    ModelStatusMessage.STATE_FAILED: "failed",
    ModelStatusMessage.STATE_UNLOADING: "unloading",
}


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What becomes of a version of a model.

    Attributes:
        name: Of the model.
        version: Of the model.
        state: "ready" (it is served), "loading", "failed" or "unloading"; "unknown" to an older
            client than the server.
        reason: Why it is not served; of one that is, what is wrong with its files since, or that it
            is pinned.
    """

    name: str
    version: int
    state: str
    reason: str

    @property
    def is_ready(self) -> bool:
        """Whether it is served."""
        return self.state == "ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelInfo:
    """What a served model is and takes.

    Attributes:
        name: Of the model.
        version: That is served.
        kind: "forecaster" or "translator".
        precision: Of the weights, such as "fp32".
        provider: What computes its answers, such as "CPUExecutionProvider".
        forecaster: What a forecaster was trained for, its covariates among that; else None.
        translator: What a translator was trained for; else None.
        manifest: The bundle's manifest: training data and metrics, tool versions, hashes.
        max_message_bytes: Largest message that the server takes and sends.
        max_series: Series that the server takes in a request to a forecaster; else 0.
        max_steps: Rows that it takes in a series; else 0.
        max_horizon: Steps ahead that it takes; else 0.
        max_sentences: Sentences that the server takes in a request to a translator; else 0.
        max_characters: Characters that it takes in a sentence; else 0.
        max_beam_size: Largest beam that it takes; else 0.
    """

    name: str
    version: int
    kind: str
    precision: str
    provider: str
    forecaster: ForecasterSpec | None
    translator: TranslatorSpec | None
    manifest: dict[str, Any] = field(repr=False)  # of thousands of characters
    max_message_bytes: int
    max_series: int
    max_steps: int
    max_horizon: int
    max_sentences: int
    max_characters: int
    max_beam_size: int


def describe_request(name: str | None, version: int | None) -> DescribeModelRequest:
    """Ask for a model; on the wire an empty name and version 0 mean that none is named.

    Raises:
        OptionError: What is given is no name or no version.
    """
    _check(name, version, "or None for the one served")
    return DescribeModelRequest(model=name or "", version=int(version or 0))


def described(model: ModelInfo, version: int | None) -> ModelInfo:
    """Return what a server has told of a model, to be asked again.

    Raises:
        OptionError: A version is given besides.
    """
    if version is not None:
        raise OptionError(
            f"the version is {version!r}, and the model tells {model.version} itself; leave the "
            "version out, or give the model's name."
        )
    return model


def load_request(name: str, version: int | None) -> LoadModelRequest:
    """Ask for a model to be loaded; on the wire version 0 means that none is named.

    Raises:
        OptionError: What is given is no name or no version.
    """
    _check(name, version, "or None for the newest")
    return LoadModelRequest(model=name, version=int(version or 0))


def unload_request(name: str) -> UnloadModelRequest:
    """Ask for a model to be unloaded.

    Raises:
        OptionError: What is given is no name.
    """
    _check(name, None, "")
    return UnloadModelRequest(model=name)


def read_statuses(response: ListModelsResponse) -> list[ModelStatus]:
    """Unpack the list of models."""
    return [read_status(status) for status in response.models]


def read_status(status: ModelStatusMessage) -> ModelStatus:
    """Unpack the state of one version."""
    state = _STATES.get(status.state, "unknown")
    return ModelStatus(status.name, status.version, state, status.reason)


def read_description(description: ModelDescription) -> ModelInfo:
    """Unpack a model's description."""
    forecaster, translator = description.forecaster, description.translator
    return ModelInfo(
        name=description.name,
        version=description.version,
        kind=description.kind,
        precision=description.precision,
        provider=description.provider,
        forecaster=(
            _read_forecaster(description.forecaster) if description.HasField("forecaster") else None
        ),
        translator=(
            _read_translator(description.translator) if description.HasField("translator") else None
        ),
        manifest=json.loads(description.manifest_json),
        max_message_bytes=description.max_message_bytes,
        max_series=forecaster.max_series,
        max_steps=forecaster.max_steps,
        max_horizon=forecaster.max_horizon,
        max_sentences=translator.max_sentences,
        max_characters=translator.max_characters,
        max_beam_size=translator.max_beam_size,
    )


def _check(name: str | None, version: int | None, otherwise: str) -> None:
    problems = []
    if name is not None and not (isinstance(name, str) and name.isprintable() and name):
        problems.append(f"the model is {name!r}; give its name, or None for the only one.")
    is_number = isinstance(version, numbers.Integral) and not isinstance(version, bool)
    if version is not None and not (is_number and 1 <= version < 2**63):
        problems.append(f"the version is {version!r}; give a whole number from 1, {otherwise}.")
    if problems:
        raise OptionError(problems)


def forecaster_of(model: ModelInfo, target: str) -> ForecasterSpec:
    """Return what a forecaster takes.

    Raises:
        RemoteError: The model is no forecaster.
    """
    if model.forecaster is None:
        raise _is_no("forecaster", model, target)
    return model.forecaster


def translator_of(model: ModelInfo, target: str) -> TranslatorSpec:
    """Return what a translator takes.

    Raises:
        RemoteError: The model is no translator.
    """
    if model.translator is None:
        raise _is_no("translator", model, target)
    return model.translator


def _is_no(kind: str, model: ModelInfo, target: str) -> RemoteError:
    return RemoteError(
        "FAILED_PRECONDITION", target, f"model {model.name} is a {model.kind}, no {kind}."
    )


def _read_forecaster(spec: ForecasterDescription) -> ForecasterSpec:
    return ForecasterSpec(
        context_length=spec.context_length,
        patch_length=spec.patch_length,
        horizon=spec.horizon,
        frequency=spec.frequency,
        season_length=spec.season_length,
        quantile_levels=tuple(spec.quantile_levels),
        future_covariates=tuple(spec.future_covariates),
        past_covariates=tuple(spec.past_covariates),
        static=tuple(spec.static),
    )


def _read_translator(spec: TranslatorDescription) -> TranslatorSpec:
    return TranslatorSpec(
        arch=cast("Literal['recurrent', 'transformer']", spec.arch),
        vocab_size=spec.vocab_size,
        max_source_length=spec.max_source_length,
        max_target_length=spec.max_target_length,
        src_language=spec.src_language,
        tgt_language=spec.tgt_language,
        has_attention=spec.has_attention,
    )
