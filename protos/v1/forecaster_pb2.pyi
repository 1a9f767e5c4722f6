from foretell.protos.v1 import arrays_pb2 as _arrays_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ForecastRequest(_message.Message):
    __slots__ = ("model", "version", "horizon", "quantile_levels", "frequency", "allow_other_frequency", "history", "future", "raw_answer")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    QUANTILE_LEVELS_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_FIELD_NUMBER: _ClassVar[int]
    ALLOW_OTHER_FREQUENCY_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    FUTURE_FIELD_NUMBER: _ClassVar[int]
    RAW_ANSWER_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    horizon: int
    quantile_levels: _arrays_pb2.Doubles
    frequency: str
    allow_other_frequency: bool
    history: History
    future: Future
    raw_answer: bool
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., horizon: _Optional[int] = ..., quantile_levels: _Optional[_Union[_arrays_pb2.Doubles, _Mapping]] = ..., frequency: _Optional[str] = ..., allow_other_frequency: bool = ..., history: _Optional[_Union[History, _Mapping]] = ..., future: _Optional[_Union[Future, _Mapping]] = ..., raw_answer: bool = ...) -> None: ...

class History(_message.Message):
    __slots__ = ("ids", "lengths", "stamps", "stamp_kind", "time_zone", "target", "covariates", "static")
    IDS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    STAMPS_FIELD_NUMBER: _ClassVar[int]
    STAMP_KIND_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    COVARIATES_FIELD_NUMBER: _ClassVar[int]
    STATIC_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    lengths: _arrays_pb2.Integers
    stamps: _arrays_pb2.Integers
    stamp_kind: _arrays_pb2.StampKind
    time_zone: str
    target: _arrays_pb2.Doubles
    covariates: _containers.RepeatedCompositeFieldContainer[NamedDoubles]
    static: _containers.RepeatedCompositeFieldContainer[NamedDoubles]
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., lengths: _Optional[_Union[_arrays_pb2.Integers, _Mapping]] = ..., stamps: _Optional[_Union[_arrays_pb2.Integers, _Mapping]] = ..., stamp_kind: _Optional[_Union[_arrays_pb2.StampKind, str]] = ..., time_zone: _Optional[str] = ..., target: _Optional[_Union[_arrays_pb2.Doubles, _Mapping]] = ..., covariates: _Optional[_Iterable[_Union[NamedDoubles, _Mapping]]] = ..., static: _Optional[_Iterable[_Union[NamedDoubles, _Mapping]]] = ...) -> None: ...

class Future(_message.Message):
    __slots__ = ("ids", "lengths", "stamps", "covariates", "unread")
    IDS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    STAMPS_FIELD_NUMBER: _ClassVar[int]
    COVARIATES_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    lengths: _arrays_pb2.Integers
    stamps: _arrays_pb2.Integers
    covariates: _containers.RepeatedCompositeFieldContainer[NamedDoubles]
    unread: _containers.RepeatedCompositeFieldContainer[SeriesError]
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., lengths: _Optional[_Union[_arrays_pb2.Integers, _Mapping]] = ..., stamps: _Optional[_Union[_arrays_pb2.Integers, _Mapping]] = ..., covariates: _Optional[_Iterable[_Union[NamedDoubles, _Mapping]]] = ..., unread: _Optional[_Iterable[_Union[SeriesError, _Mapping]]] = ...) -> None: ...

class NamedDoubles(_message.Message):
    __slots__ = ("name", "values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    values: _arrays_pb2.Doubles
    def __init__(self, name: _Optional[str] = ..., values: _Optional[_Union[_arrays_pb2.Doubles, _Mapping]] = ...) -> None: ...

class ForecastResponse(_message.Message):
    __slots__ = ("model", "version", "provider", "horizon", "positions", "frequencies", "stamp_kind", "time_zone", "stamps", "forecast", "quantile_levels", "quantiles", "errors", "warnings")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    STAMP_KIND_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    STAMPS_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    QUANTILE_LEVELS_FIELD_NUMBER: _ClassVar[int]
    QUANTILES_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    provider: str
    horizon: int
    positions: _arrays_pb2.Integers
    frequencies: _containers.RepeatedScalarFieldContainer[str]
    stamp_kind: _arrays_pb2.StampKind
    time_zone: str
    stamps: _arrays_pb2.Integers
    forecast: _arrays_pb2.Doubles
    quantile_levels: _arrays_pb2.Doubles
    quantiles: _arrays_pb2.Doubles
    errors: _containers.RepeatedCompositeFieldContainer[SeriesError]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., provider: _Optional[str] = ..., horizon: _Optional[int] = ..., positions: _Optional[_Union[_arrays_pb2.Integers, _Mapping]] = ..., frequencies: _Optional[_Iterable[str]] = ..., stamp_kind: _Optional[_Union[_arrays_pb2.StampKind, str]] = ..., time_zone: _Optional[str] = ..., stamps: _Optional[_Union[_arrays_pb2.Integers, _Mapping]] = ..., forecast: _Optional[_Union[_arrays_pb2.Doubles, _Mapping]] = ..., quantile_levels: _Optional[_Union[_arrays_pb2.Doubles, _Mapping]] = ..., quantiles: _Optional[_Union[_arrays_pb2.Doubles, _Mapping]] = ..., errors: _Optional[_Iterable[_Union[SeriesError, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class SeriesError(_message.Message):
    __slots__ = ("position", "unique_id", "reason")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    position: int
    unique_id: str
    reason: str
    def __init__(self, position: _Optional[int] = ..., unique_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
