"""Calls of a client to a translator, whatever carries the messages: requests out, answers back."""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from foretell.client.chunks import spans
from foretell.client.codec import Span
from foretell.client.models import ModelInfo, describe_request, translator_of
from foretell.client.options import ClientOptions
from foretell.client.translation_codec import (
    read_scores,
    read_translations,
    sendable,
    write_options,
    write_pairs,
    write_sentences,
)
from foretell.data.bundles.bundle import TranslatorSpec
from foretell.data.errors import OptionError
from foretell.data.text.sentences import check_sentences
from foretell.data.text.translation import (
    PairScore,
    RefusedSentencesError,
    SentenceRefusal,
    TranslateOptions,
    Translation,
)
from foretell.protos.sizes import pair_score_bytes, translation_bytes
from foretell.protos.v1 import translator_pb2 as wire

# A request has to be answered within its time limit, and a server can work on several at a time.
_MOST_SENTENCES = 128
_TEXT_BYTES = 16  # tags and lengths
_MOST_PLACES = 2**62  # as many sentences as a call holds still have places of 64 bits

Answer = TypeVar("Answer")


class _Answers(Generic[Answer]):
    """The answers of one call so far, by position."""

    def __init__(self, count: int) -> None:
        self._answers: list[Answer | None] = [None] * count
        self._refusals: list[SentenceRefusal] = []

    def add(self, answers: dict[int, Answer], refusals: Sequence[SentenceRefusal]) -> None:
        for position, answer in answers.items():
            self._answers[position] = answer
        self._refusals += refusals

    def all(self) -> list[Answer]:
        if self._refusals:
            refusals = sorted(self._refusals, key=lambda refusal: refusal.position)
            raise RefusedSentencesError(refusals, self._answers)
        return [answer for answer in self._answers if answer is not None]


class TranslateCall:
    """Makes the requests of many sentences, and one list of their answers.

    Raises:
        OptionError: The first place is out of its range.
        RemoteError: The model is no translator.
    """

    def __init__(
        self,
        sentences: Sequence[str],
        settings: Sequence[TranslateOptions],
        model: ModelInfo,
        options: ClientOptions,
        target: str,
        first_place: int = 0,
    ) -> None:
        if not 0 <= first_place < _MOST_PLACES:
            raise OptionError(
                f"first_place is {first_place}; it must be 0 or more, and below {_MOST_PLACES:,}."
            )
        self._first_place = first_place
        self._sentences = sentences
        self._settings = settings
        self._model = model
        self._target = target
        self._answers: _Answers[Translation] = _Answers(len(sentences))
        spec = translator_of(model, target)
        options_bytes = {one: write_options(one).ByteSize() for one in set(settings)}
        items = list(zip(sentences, settings, strict=True))
        sent = [_text_bytes(text) + options_bytes[one] for text, one in items]
        answered = [_answer_bytes(text, one, spec) for text, one in items]
        self._spans = _cut(sent, answered, model, options)

    def requests(self) -> Iterator[tuple[Span, wire.TranslateRequest]]:
        """Make the requests one by one, in the order of the sentences."""
        for span in self._spans:
            yield (
                span,
                write_sentences(
                    self._sentences, self._settings, span, self._model, self._first_place
                ),
            )

    def add(self, span: Span, response: wire.TranslateResponse) -> None:
        """Take the answer to the request of a span.

        Raises:
            RemoteError: The answer doesn't fit the request.
        """
        self._answers.add(*read_translations(response, span, self._target))

    def answers(self) -> list[Translation]:
        """Return the answers in the order of the sentences.

        Raises:
            RefusedSentencesError: Some sentences were refused; it carries the others' answers.
        """
        return self._answers.all()


class ScoreCall:
    """Makes the requests of many pairs, and one list of their answers.

    Raises:
        RemoteError: The model is no translator.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]],
        model: ModelInfo,
        options: ClientOptions,
        target: str,
    ) -> None:
        translator_of(model, target)
        self._pairs = pairs
        self._model = model
        self._target = target
        self._answers: _Answers[PairScore] = _Answers(len(pairs))
        sent = [_text_bytes(source) + _text_bytes(target) for source, target in pairs]
        answered = [pair_score_bytes(len(target)) for _, target in pairs]
        self._spans = _cut(sent, answered, model, options)

    def requests(self) -> Iterator[tuple[Span, wire.ScoreRequest]]:
        """Make the requests one by one, in the order of the pairs."""
        for span in self._spans:
            yield span, write_pairs(self._pairs, span, self._model)

    def add(self, span: Span, response: wire.ScoreResponse) -> None:
        """Take the answer to the request of a span; see `TranslateCall.add`."""
        self._answers.add(*read_scores(response, span, self._target))

    def answers(self) -> list[PairScore]:
        """Return the answers in the order of the pairs; see `TranslateCall.answers`."""
        return self._answers.all()


def stream_request(
    sentence: str, options: TranslateOptions, model: str | None, version: int | None
) -> wire.TranslateStreamRequest:
    """Ask for one sentence as a stream.

    Raises:
        OptionError: The sentence is no text, the options are none, or the model can't be one.
    """
    check_sentences([sentence], [options])
    asked = describe_request(model, version)
    return wire.TranslateStreamRequest(
        model=asked.model,
        version=asked.version,
        sentence=sendable(sentence),
        options=write_options(options),
        raw_answer=True,
    )


def _cut(
    sent: Sequence[int], answered: Sequence[int], model: ModelInfo, options: ClientOptions
) -> list[Span]:
    found = spans(
        np.array(sent, np.int64),
        np.array(answered, np.int64),
        options.chunk_bytes_for(model.max_message_bytes),
        most=min(_MOST_SENTENCES, model.max_sentences or _MOST_SENTENCES),
    )
    return list(found)


def _text_bytes(text: str) -> int:
    return len(sendable(text).encode()) + _TEXT_BYTES


def _answer_bytes(text: str, options: TranslateOptions, spec: TranslatorSpec) -> int:
    return translation_bytes(
        len(text),
        max_source_length=spec.max_source_length,
        max_target_length=spec.max_target_length,
        n_best=options.n_best,
        max_length=options.max_length,
        max_length_ratio=options.max_length_ratio,
        max_length_margin=options.max_length_margin,
        attention=options.attention and spec.has_attention,
    )
