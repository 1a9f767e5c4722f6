from foretell.protos.v1 import arrays_pb2 as _arrays_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LengthFormula(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LENGTH_FORMULA_UNSPECIFIED: _ClassVar[LengthFormula]
    LENGTH_FORMULA_POWER: _ClassVar[LengthFormula]
    LENGTH_FORMULA_GNMT: _ClassVar[LengthFormula]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_EOS: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
LENGTH_FORMULA_UNSPECIFIED: LengthFormula
LENGTH_FORMULA_POWER: LengthFormula
LENGTH_FORMULA_GNMT: LengthFormula
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_EOS: FinishReason
FINISH_REASON_LENGTH: FinishReason

class TranslateRequest(_message.Message):
    __slots__ = ("model", "version", "sentences", "options", "first_place", "raw_answer")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    FIRST_PLACE_FIELD_NUMBER: _ClassVar[int]
    RAW_ANSWER_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    sentences: _containers.RepeatedScalarFieldContainer[str]
    options: _containers.RepeatedCompositeFieldContainer[TranslateOptions]
    first_place: int
    raw_answer: bool
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., sentences: _Optional[_Iterable[str]] = ..., options: _Optional[_Iterable[_Union[TranslateOptions, _Mapping]]] = ..., first_place: _Optional[int] = ..., raw_answer: bool = ...) -> None: ...

class TranslateOptions(_message.Message):
    __slots__ = ("beam_size", "n_best", "length_penalty", "length_formula", "min_length", "max_length", "max_length_ratio", "max_length_margin", "patience", "no_repeat_ngram_size", "repetition_penalty", "banned", "prefix", "sample", "temperature", "top_k", "top_p", "seed", "replace_unknowns", "attention", "truncate_source")
    BEAM_SIZE_FIELD_NUMBER: _ClassVar[int]
    N_BEST_FIELD_NUMBER: _ClassVar[int]
    LENGTH_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FORMULA_FIELD_NUMBER: _ClassVar[int]
    MIN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_MARGIN_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_FIELD_NUMBER: _ClassVar[int]
    NO_REPEAT_NGRAM_SIZE_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    BANNED_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    REPLACE_UNKNOWNS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_SOURCE_FIELD_NUMBER: _ClassVar[int]
    beam_size: int
    n_best: int
    length_penalty: float
    length_formula: LengthFormula
    min_length: int
    max_length: int
    max_length_ratio: float
    max_length_margin: int
    patience: float
    no_repeat_ngram_size: int
    repetition_penalty: float
    banned: _containers.RepeatedScalarFieldContainer[str]
    prefix: str
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int
    replace_unknowns: bool
    attention: bool
    truncate_source: bool
    def __init__(self, beam_size: _Optional[int] = ..., n_best: _Optional[int] = ..., length_penalty: _Optional[float] = ..., length_formula: _Optional[_Union[LengthFormula, str]] = ..., min_length: _Optional[int] = ..., max_length: _Optional[int] = ..., max_length_ratio: _Optional[float] = ..., max_length_margin: _Optional[int] = ..., patience: _Optional[float] = ..., no_repeat_ngram_size: _Optional[int] = ..., repetition_penalty: _Optional[float] = ..., banned: _Optional[_Iterable[str]] = ..., prefix: _Optional[str] = ..., sample: bool = ..., temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., seed: _Optional[int] = ..., replace_unknowns: bool = ..., attention: bool = ..., truncate_source: bool = ...) -> None: ...

class TranslateResponse(_message.Message):
    __slots__ = ("model", "version", "provider", "translations", "errors")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    TRANSLATIONS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    provider: str
    translations: _containers.RepeatedCompositeFieldContainer[Translation]
    errors: _containers.RepeatedCompositeFieldContainer[SentenceError]
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., provider: _Optional[str] = ..., translations: _Optional[_Iterable[_Union[Translation, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[SentenceError, _Mapping]]] = ...) -> None: ...

class Translation(_message.Message):
    __slots__ = ("position", "hypotheses", "source_tokens", "truncated", "copied")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    HYPOTHESES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    position: int
    hypotheses: _containers.RepeatedCompositeFieldContainer[Hypothesis]
    source_tokens: _containers.RepeatedScalarFieldContainer[str]
    truncated: bool
    copied: bool
    def __init__(self, position: _Optional[int] = ..., hypotheses: _Optional[_Iterable[_Union[Hypothesis, _Mapping]]] = ..., source_tokens: _Optional[_Iterable[str]] = ..., truncated: bool = ..., copied: bool = ...) -> None: ...

class Hypothesis(_message.Message):
    __slots__ = ("text", "tokens", "token_log_probs", "log_prob", "score", "finish_reason", "attention")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    LOG_PROB_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    text: str
    tokens: _containers.RepeatedScalarFieldContainer[str]
    token_log_probs: _containers.RepeatedScalarFieldContainer[float]
    log_prob: float
    score: float
    finish_reason: FinishReason
    attention: _arrays_pb2.Doubles
    def __init__(self, text: _Optional[str] = ..., tokens: _Optional[_Iterable[str]] = ..., token_log_probs: _Optional[_Iterable[float]] = ..., log_prob: _Optional[float] = ..., score: _Optional[float] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., attention: _Optional[_Union[_arrays_pb2.Doubles, _Mapping]] = ...) -> None: ...

class SentenceError(_message.Message):
    __slots__ = ("position", "reason")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    position: int
    reason: str
    def __init__(self, position: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class TranslateStreamRequest(_message.Message):
    __slots__ = ("model", "version", "sentence", "options", "raw_answer")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    RAW_ANSWER_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    sentence: str
    options: TranslateOptions
    raw_answer: bool
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., sentence: _Optional[str] = ..., options: _Optional[_Union[TranslateOptions, _Mapping]] = ..., raw_answer: bool = ...) -> None: ...

class TranslateStreamResponse(_message.Message):
    __slots__ = ("model", "version", "provider", "part", "translation", "error")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    TRANSLATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    provider: str
    part: TranslationPart
    translation: Translation
    error: SentenceError
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., provider: _Optional[str] = ..., part: _Optional[_Union[TranslationPart, _Mapping]] = ..., translation: _Optional[_Union[Translation, _Mapping]] = ..., error: _Optional[_Union[SentenceError, _Mapping]] = ...) -> None: ...

class TranslationPart(_message.Message):
    __slots__ = ("text", "tokens")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    text: str
    tokens: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[str] = ..., tokens: _Optional[_Iterable[str]] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ("model", "version", "pairs")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    pairs: _containers.RepeatedCompositeFieldContainer[SentencePair]
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., pairs: _Optional[_Iterable[_Union[SentencePair, _Mapping]]] = ...) -> None: ...

class SentencePair(_message.Message):
    __slots__ = ("source", "target")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("model", "version", "provider", "scores", "errors")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    provider: str
    scores: _containers.RepeatedCompositeFieldContainer[PairScore]
    errors: _containers.RepeatedCompositeFieldContainer[SentenceError]
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., provider: _Optional[str] = ..., scores: _Optional[_Iterable[_Union[PairScore, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[SentenceError, _Mapping]]] = ...) -> None: ...

class PairScore(_message.Message):
    __slots__ = ("position", "tokens", "token_log_probs", "log_prob", "score")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    LOG_PROB_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    position: int
    tokens: _containers.RepeatedScalarFieldContainer[str]
    token_log_probs: _containers.RepeatedScalarFieldContainer[float]
    log_prob: float
    score: float
    def __init__(self, position: _Optional[int] = ..., tokens: _Optional[_Iterable[str]] = ..., token_log_probs: _Optional[_Iterable[float]] = ..., log_prob: _Optional[float] = ..., score: _Optional[float] = ...) -> None: ...
