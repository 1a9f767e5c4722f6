"""Sentences and options to requests, responses to translations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, Protocol, TypeVar

import numpy as np

from foretell.client.codec import Span
from foretell.client.errors import RemoteError
from foretell.client.models import ModelInfo
from foretell.data.text.translation import (
    FinishReason,
    Hypothesis,
    PairScore,
    RefusedSentencesError,
    SentenceRefusal,
    TranslateOptions,
    Translation,
    TranslationPart,
)
from foretell.protos.arrays import unpack_doubles
from foretell.protos.v1 import translator_pb2 as wire

_FORMULAS = {
    "power": wire.LengthFormula.LENGTH_FORMULA_POWER,
    "gnmt": wire.LengthFormula.LENGTH_FORMULA_GNMT,
}
_FINISH_REASONS: dict[int, FinishReason] = {
    wire.FinishReason.FINISH_REASON_EOS: "eos",
    wire.FinishReason.FINISH_REASON_LENGTH: "length",
}


class _Placed(Protocol):
    position: int


Answer = TypeVar("Answer")
Message = TypeVar("Message", bound=_Placed)


def write_sentences(
    sentences: Sequence[str],
    options: Sequence[TranslateOptions],
    span: Span,
    model: ModelInfo,
    first_place: int = 0,
) -> wire.TranslateRequest:
    """Pack a span of sentences.

    Args:
        sentences: All sentences of the call.
        options: One a sentence.
        span: Which sentences.
        model: Of whom; its version is asked for, so that one call is never answered by two
            versions.
        first_place: Place of the first of all sentences.
    """
    chosen = options[span.start : span.stop]
    if all(one == chosen[0] for one in chosen):
        chosen = chosen[:1]
    return wire.TranslateRequest(
        model=model.name,
        version=model.version,
        sentences=[sendable(text) for text in sentences[span.start : span.stop]],
        options=[write_options(one) for one in chosen],
        first_place=first_place + span.start,
        raw_answer=True,
    )


def write_pairs(
    pairs: Sequence[tuple[str, str]], span: Span, model: ModelInfo
) -> wire.ScoreRequest:
    """Pack a span of pairs; see `write_sentences`."""
    return wire.ScoreRequest(
        model=model.name,
        version=model.version,
        pairs=[
            wire.SentencePair(source=sendable(source), target=sendable(target))
            for source, target in pairs[span.start : span.stop]
        ],
    )


def write_options(options: TranslateOptions) -> wire.TranslateOptions:
    """Pack options, all of them: the server's defaults may be others some day."""
    values: dict[str, Any] = {field.name: getattr(options, field.name) for field in fields(options)}
    values["length_formula"] = _FORMULAS[options.length_formula]
    values["banned"] = [sendable(text) for text in options.banned]
    values["prefix"] = sendable(options.prefix)
    return wire.TranslateOptions(**values)


def read_translations(
    response: wire.TranslateResponse, span: Span, target: str
) -> tuple[dict[int, Translation], list[SentenceRefusal]]:
    """Unpack the answer to the request of a span, by position in the whole call.

    Raises:
        RemoteError: The response doesn't fit the request.
    """
    return _read_all(response.translations, response.errors, _read_translation, span, target)


def read_scores(
    response: wire.ScoreResponse, span: Span, target: str
) -> tuple[dict[int, PairScore], list[SentenceRefusal]]:
    """Unpack the answer to the request of a span; see `read_translations`."""
    return _read_all(response.scores, response.errors, _read_score, span, target)


def read_event(
    response: wire.TranslateStreamResponse, target: str
) -> TranslationPart | Translation:
    """Unpack one message of a stream.

    Raises:
        RefusedSentencesError: The sentence was refused.
        RemoteError: The message is none that this client knows.
    """
    event = response.WhichOneof("event")
    if event == "part":
        return TranslationPart(text=response.part.text, tokens=tuple(response.part.tokens))
    if event == "translation":
        problems: list[str] = []
        translation = _read_translation(response.translation, problems)
        _check(problems, target)
        return translation
    if event == "error":
        raise RefusedSentencesError([SentenceRefusal(0, response.error.reason)], [None])
    raise _mismatch(["a message of the stream brings nothing that this client knows."], target)


def check_complete(last: TranslationPart | Translation | None, target: str) -> None:
    """Check that a stream that ended has brought its translation.

    Raises:
        RemoteError: It hasn't.
    """
    if not isinstance(last, Translation):
        raise _mismatch(["the stream ended without a translation."], target)


def sendable(text: str) -> str:
    """Pairs of surrogates become their character, lone ones U+FFFD, as a tokenizer reads them."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _read_all(
    messages: Sequence[Message],
    errors: Iterable[wire.SentenceError],
    read: Callable[[Message, list[str]], Answer],
    span: Span,
    target: str,
) -> tuple[dict[int, Answer], list[SentenceRefusal]]:
    problems: list[str] = []
    answers = {span.start + one.position: read(one, problems) for one in messages}
    refusals = [SentenceRefusal(span.start + one.position, one.reason) for one in errors]
    places = [one.position for one in messages]
    everything = sorted([*places, *(one.position - span.start for one in refusals)])
    if everything != list(range(span.stop - span.start)) or places != sorted(places):
        problems.append("it has not one answer for each question.")
    _check(problems, target)
    return answers, refusals


def _read_translation(message: wire.Translation, problems: list[str]) -> Translation:
    if not message.hypotheses:
        problems.append("a translation has no hypothesis.")
    num_sources = len(message.source_tokens)
    return Translation(
        hypotheses=tuple(
            _read_hypothesis(one, num_sources, problems) for one in message.hypotheses
        ),
        source_tokens=tuple(message.source_tokens),
        truncated=message.truncated,
        copied=message.copied,
    )


def _read_hypothesis(message: wire.Hypothesis, num_sources: int, problems: list[str]) -> Hypothesis:
    tokens = tuple(message.tokens)
    finish_reason = _FINISH_REASONS.get(message.finish_reason)
    if finish_reason is None:
        problems.append("a hypothesis has a finish_reason that this client doesn't know.")
    attention = None
    if message.HasField("attention"):
        weights = unpack_doubles(message.attention, "attention", problems)
        if weights.size == len(tokens) * num_sources:
            attention = weights.astype(np.float32).reshape(len(tokens), num_sources)
        else:
            problems.append("attention has not one weight for each pair of tokens.")
    return Hypothesis(
        text=message.text,
        tokens=tokens,
        token_log_probs=tuple(message.token_log_probs),
        log_prob=message.log_prob,
        score=message.score,
        finish_reason=finish_reason or "eos",
        attention=attention,
    )


def _read_score(message: wire.PairScore, problems: list[str]) -> PairScore:
    if len(message.token_log_probs) != len(message.tokens) + 1:
        problems.append("a score has not one probability for each token and the end.")
    return PairScore(
        tokens=tuple(message.tokens),
        token_log_probs=tuple(message.token_log_probs),
        log_prob=message.log_prob,
        score=message.score,
    )


def _check(problems: list[str], target: str) -> None:
    if problems:
        raise _mismatch(problems, target)


def _mismatch(problems: Iterable[str], target: str) -> RemoteError:
    told = " ".join(["the answer doesn't fit the request:", *dict.fromkeys(problems)])
    return RemoteError("DATA_LOSS", target, told)
