"""A translator as a whole over the Open Inference Protocol: sentences in, translations out."""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

import numpy as np
from google.protobuf.descriptor import (  # type: ignore[import-untyped]  # has no types
    FieldDescriptor,
)

from foretell.data.quoting import quoted
from foretell.data.text.translation import RefusedSentencesError, Translation, TranslationPart
from foretell.protos.v1 import translator_pb2 as wire
from foretell.server.calls.answer_sizes import check_answer_size, translations_bytes
from foretell.server.calls.answering import Answered, Answering
from foretell.server.calls.call import Call
from foretell.server.calls.task import Task
from foretell.server.errors import RequestError
from foretell.server.inference.parameters import Value
from foretell.server.inference.signature import Kind, Limit, Signature, Tensor
from foretell.server.inference.tensors import bytes_array, texts_of
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions
from foretell.server.services.translator_codec import (
    LENGTH_FORMULAS,
    answer_bytes,
    read_sentences,
)

ERRORS = "errors"
STREAM = "stream"
PARTS = (Tensor("text", "BYTES", (1,)), Tensor("tokens", "BYTES", ("tokens",)))
"""What the answers of a stream hold before the last one."""

_NONE = -np.inf  # log probability of a translation that there isn't
_FORMULAS = {name: formula for formula, name in LENGTH_FORMULAS.items()}
_MOST_BANNED_CHARACTERS = 1_000_000  # of the parameter; --max-characters is lower by default
# Attention is an array of another size for each translation, and has no place in a tensor.
_FIELDS = {
    field.name: field
    for field in wire.TranslateOptions.DESCRIPTOR.fields
    if field.name != "attention"
}


def _kind(field: FieldDescriptor) -> Kind:
    kinds: dict[int, Kind] = {
        field.CPPTYPE_BOOL: "bool",
        field.CPPTYPE_INT32: "int",
        field.CPPTYPE_INT64: "int",
        field.CPPTYPE_DOUBLE: "float",
    }
    return kinds.get(field.cpp_type, "text")


@dataclass(frozen=True, slots=True)
class TranslationTask:
    """What a request asks of a translator.

    Attributes:
        sentences: With their options.
        first_place: Place of the first one in the caller's whole list.
    """

    sentences: Task[str]
    first_place: int


class TranslationInference:
    """Translations for the Open Inference Protocol.

    Attributes:
        model: Which answers.
        signature: What it takes and gives.
    """

    def __init__(self, model: Model, options: ServerOptions) -> None:
        self.model = model
        self._options = options
        _, self._spec = model.translator
        best = ("sentences", "n_best")
        limit = Limit(options.max_sentences, "on this server (--max-sentences)")
        self.signature = Signature(
            model=model.name,
            inputs=(Tensor("sentences", "BYTES", ("sentences",)),),
            outputs=(
                Tensor("translations", "BYTES", best),
                Tensor("scores", "FP64", best),
                Tensor("log_probs", "FP64", best),
                Tensor("num_translations", "INT64", ("sentences",)),
                Tensor("truncated", "BOOL", ("sentences",)),
                Tensor("copied", "BOOL", ("sentences",)),
                Tensor(ERRORS, "BYTES", ("sentences",)),
            ),
            limits={"sentences": limit},
            parameters={
                "first_place": "int",
                STREAM: "bool",
                **{name: _kind(field) for name, field in _FIELDS.items()},
            },
            facts={
                "arch": self._spec.arch,
                "src_language": self._spec.src_language,
                "tgt_language": self._spec.tgt_language,
                "max_source_length": str(self._spec.max_source_length),
                "max_target_length": str(self._spec.max_target_length),
            },
        )

    def read(self, arrays: Mapping[str, np.ndarray], own: Mapping[str, Value]) -> TranslationTask:
        """Check what is asked.

        It is said again as a request of foretell's own protocol, whose checks and limits hold.

        Args:
            arrays: The inputs.
            own: The parameters of the model.

        Raises:
            RequestError: Something doesn't fit; all of it is listed.
            MessageSizeError: No answer could hold so much.
        """
        problems: list[str] = []
        options = wire.TranslateOptions()
        for name, value in own.items():
            if name in _FIELDS:
                _set_option(options, name, value, problems)
        first_place = own.get("first_place", 0)
        if not isinstance(first_place, int) or not 0 <= first_place < 2**63:
            problems.append(f"parameter 'first_place' is {first_place}; it must be 0 or more.")
        elif first_place and own.get(STREAM):
            problems.append(
                f"parameter 'first_place' has no meaning with {STREAM!r}; leave one of them out."
            )
        if own.get(STREAM) and arrays["sentences"].size != 1:
            problems.append(
                f"sentences has {arrays['sentences'].size} elements; a stream translates one, so "
                f"send each in a request of its own, or leave out the parameter {STREAM!r}."
            )
        if problems:
            raise RequestError(problems)
        request = wire.TranslateRequest(
            sentences=texts_of(arrays["sentences"], "sentences"),
            options=[options],
            first_place=int(first_place),
        )
        task = read_sentences(request, self._options)
        check_answer_size(
            answer_bytes(task, self._spec), self._options, "fewer rows", has="may have"
        )
        return TranslationTask(task, request.first_place)

    async def ask(
        self, answering: Answering, task: TranslationTask, _outputs: tuple[str, ...], call: Call
    ) -> Answered[Translation]:
        """Translate every sentence."""
        return await answering.translate(
            self.model, task.sentences, call, first_place=task.first_place
        )

    def answer_bytes(self, answer: Answered[Translation]) -> int:
        """What the translations take."""
        return translations_bytes(answer.answers.values())

    def write(
        self, task: TranslationTask, answer: Answered[Translation], *, asks_errors: bool
    ) -> dict[str, np.ndarray]:
        """Lay the answers out as all the outputs.

        Args:
            task: What was asked.
            answer: To it.
            asks_errors: The caller looks at `errors`: refused sentences may stand there.

        Raises:
            RequestError: Sentences are refused, and the caller looks at no `errors`.
        """
        if answer.reasons and not asks_errors:
            raise _refused(answer.reasons)
        sentences = task.sentences
        n_best = max(options.n_best for options in sentences.options)
        return _write(answer, len(sentences.items), n_best)

    async def stream(
        self, answering: Answering, task: TranslationTask, call: Call
    ) -> AsyncGenerator[TranslationPart | dict[str, np.ndarray], None]:
        """Translate the one sentence; yield parts as they are decided, and all outputs at the end.

        Raises:
            RequestError: The sentence can't be translated.
        """
        if task.sentences.refusals:
            raise _refused(task.sentences.refusals)
        (sentence,), options = task.sentences.items, task.sentences.options[0]
        events = answering.translate_stream(self.model, sentence, options, call)
        try:
            async for event in events:
                if isinstance(event, Translation):
                    yield _write(Answered({0: event}, {}), 1, options.n_best)
                else:
                    yield event
        except RefusedSentencesError as error:
            raise _refused({one.position: one.reason for one in error.refusals}) from error


def parts_of(part: TranslationPart) -> dict[str, np.ndarray]:
    """Lay a part out as the tensors of `PARTS`."""
    return {
        "text": bytes_array([part.text], (1,)),
        "tokens": bytes_array(part.tokens, (len(part.tokens),)),
    }


def _set_option(
    options: wire.TranslateOptions, name: str, value: Value, problems: list[str]
) -> None:
    if name == "length_formula":
        if value not in _FORMULAS:
            problems.append(
                f"parameter {name!r} is {quoted(str(value))}; send {' or '.join(_FORMULAS)}."
            )
        else:
            options.length_formula = _FORMULAS[str(value)]
    elif name == "banned":
        texts = _texts(str(value))
        if texts is None:
            problems.append(
                f"parameter {name!r} is {quoted(str(value))}; send a JSON list of texts, such as "
                '["one", "another one"].'
            )
        else:
            options.banned.extend(texts)
    else:
        try:
            setattr(options, name, value)
        except ValueError:  # more than the field's 32 or 64 bits
            problems.append(f"parameter {name!r} is {value}; send a smaller number.")


def _texts(text: str) -> list[str] | None:
    """Read a JSON list of texts; None where it is none."""
    if len(text) > _MOST_BANNED_CHARACTERS:
        return None
    try:
        texts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        return None
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:  # JSON can write halves of characters
        return None
    return texts


def _refused(reasons: Mapping[int, str]) -> RequestError:
    return RequestError(
        [f"sentences[{at}]: {reason}" for at, reason in reasons.items()]
        + [f"Ask ModelInfer for the output {ERRORS!r} by name to have the others answered."]
    )


def _write(
    answered: Answered[Translation], num_sentences: int, n_best: int
) -> dict[str, np.ndarray]:
    """Put the answers into their places; what there is no translation for is empty, with -inf."""
    shape = (num_sentences, n_best)
    scores, log_probs = np.full(shape, _NONE), np.full(shape, _NONE)
    counts = np.zeros(num_sentences, dtype=np.int64)
    truncated, copied = np.zeros((2, num_sentences), dtype=bool)
    texts = [""] * (num_sentences * n_best)
    for at, translation in answered.answers.items():
        counts[at] = len(translation.hypotheses)
        truncated[at], copied[at] = translation.truncated, translation.copied
        for rank, hypothesis in enumerate(translation.hypotheses):
            texts[at * n_best + rank] = hypothesis.text
            scores[at, rank], log_probs[at, rank] = hypothesis.score, hypothesis.log_prob
    reasons = [answered.reasons.get(at, "") for at in range(num_sentences)]
    return {
        "translations": bytes_array(texts, shape),
        "scores": scores,
        "log_probs": log_probs,
        "num_translations": counts,
        "truncated": truncated,
        "copied": copied,
        ERRORS: bytes_array(reasons, (num_sentences,)),
    }
