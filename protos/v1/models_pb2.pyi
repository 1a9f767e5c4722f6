from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[ModelStatus]
    def __init__(self, models: _Optional[_Iterable[_Union[ModelStatus, _Mapping]]] = ...) -> None: ...

class ModelStatus(_message.Message):
    __slots__ = ("name", "version", "state", "reason")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[ModelStatus.State]
        STATE_READY: _ClassVar[ModelStatus.State]
        STATE_FAILED: _ClassVar[ModelStatus.State]
        STATE_LOADING: _ClassVar[ModelStatus.State]
        STATE_UNLOADING: _ClassVar[ModelStatus.State]
    STATE_UNSPECIFIED: ModelStatus.State
    STATE_READY: ModelStatus.State
    STATE_FAILED: ModelStatus.State
    STATE_LOADING: ModelStatus.State
    STATE_UNLOADING: ModelStatus.State
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    state: ModelStatus.State
    reason: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., state: _Optional[_Union[ModelStatus.State, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class LoadModelRequest(_message.Message):
    __slots__ = ("model", "version")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class UnloadModelRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class DescribeModelRequest(_message.Message):
    __slots__ = ("model", "version")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class ModelDescription(_message.Message):
    __slots__ = ("name", "version", "kind", "precision", "provider", "forecaster", "manifest_json", "max_message_bytes", "translator")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    FORECASTER_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_JSON_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRANSLATOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    kind: str
    precision: str
    provider: str
    forecaster: ForecasterDescription
    manifest_json: str
    max_message_bytes: int
    translator: TranslatorDescription
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., kind: _Optional[str] = ..., precision: _Optional[str] = ..., provider: _Optional[str] = ..., forecaster: _Optional[_Union[ForecasterDescription, _Mapping]] = ..., manifest_json: _Optional[str] = ..., max_message_bytes: _Optional[int] = ..., translator: _Optional[_Union[TranslatorDescription, _Mapping]] = ...) -> None: ...

class ForecasterDescription(_message.Message):
    __slots__ = ("context_length", "patch_length", "horizon", "frequency", "season_length", "quantile_levels", "future_covariates", "past_covariates", "static", "max_series", "max_steps", "max_horizon")
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    PATCH_LENGTH_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_FIELD_NUMBER: _ClassVar[int]
    SEASON_LENGTH_FIELD_NUMBER: _ClassVar[int]
    QUANTILE_LEVELS_FIELD_NUMBER: _ClassVar[int]
    FUTURE_COVARIATES_FIELD_NUMBER: _ClassVar[int]
    PAST_COVARIATES_FIELD_NUMBER: _ClassVar[int]
    STATIC_FIELD_NUMBER: _ClassVar[int]
    MAX_SERIES_FIELD_NUMBER: _ClassVar[int]
    MAX_STEPS_FIELD_NUMBER: _ClassVar[int]
    MAX_HORIZON_FIELD_NUMBER: _ClassVar[int]
    context_length: int
    patch_length: int
    horizon: int
    frequency: str
    season_length: int
    quantile_levels: _containers.RepeatedScalarFieldContainer[float]
    future_covariates: _containers.RepeatedScalarFieldContainer[str]
    past_covariates: _containers.RepeatedScalarFieldContainer[str]
    static: _containers.RepeatedScalarFieldContainer[str]
    max_series: int
    max_steps: int
    max_horizon: int
    def __init__(self, context_length: _Optional[int] = ..., patch_length: _Optional[int] = ..., horizon: _Optional[int] = ..., frequency: _Optional[str] = ..., season_length: _Optional[int] = ..., quantile_levels: _Optional[_Iterable[float]] = ..., future_covariates: _Optional[_Iterable[str]] = ..., past_covariates: _Optional[_Iterable[str]] = ..., static: _Optional[_Iterable[str]] = ..., max_series: _Optional[int] = ..., max_steps: _Optional[int] = ..., max_horizon: _Optional[int] = ...) -> None: ...

class TranslatorDescription(_message.Message):
    __slots__ = ("arch", "vocab_size", "max_source_length", "max_target_length", "src_language", "tgt_language", "has_attention", "max_sentences", "max_characters", "max_beam_size")
    ARCH_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_SOURCE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_TARGET_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SRC_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TGT_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    HAS_ATTENTION_FIELD_NUMBER: _ClassVar[int]
    MAX_SENTENCES_FIELD_NUMBER: _ClassVar[int]
    MAX_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    MAX_BEAM_SIZE_FIELD_NUMBER: _ClassVar[int]
    arch: str
    vocab_size: int
    max_source_length: int
    max_target_length: int
    src_language: str
    tgt_language: str
    has_attention: bool
    max_sentences: int
    max_characters: int
    max_beam_size: int
    def __init__(self, arch: _Optional[str] = ..., vocab_size: _Optional[int] = ..., max_source_length: _Optional[int] = ..., max_target_length: _Optional[int] = ..., src_language: _Optional[str] = ..., tgt_language: _Optional[str] = ..., has_attention: bool = ..., max_sentences: _Optional[int] = ..., max_characters: _Optional[int] = ..., max_beam_size: _Optional[int] = ...) -> None: ...
