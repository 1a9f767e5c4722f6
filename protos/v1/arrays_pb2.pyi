from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class StampKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAMP_KIND_UNSPECIFIED: _ClassVar[StampKind]
    STAMP_KIND_NAIVE: _ClassVar[StampKind]
    STAMP_KIND_ZONED: _ClassVar[StampKind]
    STAMP_KIND_INTEGER: _ClassVar[StampKind]
STAMP_KIND_UNSPECIFIED: StampKind
STAMP_KIND_NAIVE: StampKind
STAMP_KIND_ZONED: StampKind
STAMP_KIND_INTEGER: StampKind

class Doubles(_message.Message):
    __slots__ = ("values", "raw")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    raw: bytes
    def __init__(self, values: _Optional[_Iterable[float]] = ..., raw: _Optional[bytes] = ...) -> None: ...

class Integers(_message.Message):
    __slots__ = ("values", "raw")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    raw: bytes
    def __init__(self, values: _Optional[_Iterable[int]] = ..., raw: _Optional[bytes] = ...) -> None: ...
