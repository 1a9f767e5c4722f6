"""Requests to sentences and options, translations to responses.

What comes over the wire is checked here, all of it, before any of it is used. A text that is too
long refuses its own sentence alone.
"""

from collections.abc import Iterable, Sequence

from google.protobuf.unknown_fields import (  # type: ignore[import-untyped]  # has no types
    UnknownFieldSet,
)

from foretell.data.bundles.bundle import TranslatorSpec
from foretell.data.errors import OptionError
from foretell.data.text.translation import (
    Hypothesis,
    PairScore,
    TranslateOptions,
    Translation,
)
from foretell.protos.arrays import pack_doubles
from foretell.protos.sizes import translation_bytes
from foretell.protos.v1 import translator_pb2 as wire
from foretell.server.calls.task import Task
from foretell.server.errors import RequestError
from foretell.server.options import ServerOptions

_SHOWN = 5  # fields that a message lists before it says "..."
LENGTH_FORMULAS = {
    wire.LengthFormula.LENGTH_FORMULA_POWER: "power",
    wire.LengthFormula.LENGTH_FORMULA_GNMT: "gnmt",
}
_FINISH_REASONS = {
    "eos": wire.FinishReason.FINISH_REASON_EOS,
    "length": wire.FinishReason.FINISH_REASON_LENGTH,
}


def read_sentences(request: wire.TranslateRequest, limits: ServerOptions) -> Task[str]:
    """Check a request for translations whole.

    Raises:
        RequestError: Something doesn't fit; all of it is listed.
    """
    problems = _count_problems(len(request.sentences), "sentences", limits)
    if len(request.options) not in {0, 1, len(request.sentences)}:
        problems.append(
            f"options has {len(request.options):,} entries, but there are "
            f"{len(request.sentences):,} sentences; send none, one for all, or one a sentence."
        )
    if request.first_place < 0:
        problems.append(f"first_place is {request.first_place}; it must be 0 or more.")
    options = [
        _read_options(one, f"options[{at}]", limits, problems)
        for at, one in enumerate(request.options)
    ]
    if problems:
        raise RequestError(problems)
    refusals = _too_long(request.sentences, limits)
    sentences = ["" if at in refusals else text for at, text in enumerate(request.sentences)]
    return Task(sentences, tuple(options) or (TranslateOptions(),), refusals)


def read_sentence(request: wire.TranslateStreamRequest, limits: ServerOptions) -> Task[str]:
    """Check a request for one translation whole.

    Raises:
        RequestError: Something doesn't fit; all of it is listed.
    """
    problems: list[str] = []
    options = _read_options(request.options, "options", limits, problems)
    if problems:
        raise RequestError(problems)
    return Task([request.sentence], (options,), _too_long([request.sentence], limits))


def read_pairs(request: wire.ScoreRequest, limits: ServerOptions) -> Task[tuple[str, str]]:
    """Check a request for scores whole.

    Raises:
        RequestError: Something doesn't fit; all of it is listed.
    """
    problems = _count_problems(len(request.pairs), "pairs", limits)
    if problems:
        raise RequestError(problems)
    pairs = [(pair.source, pair.target) for pair in request.pairs]
    refusals = _too_long([max(pair, key=len) for pair in pairs], limits)
    return Task([("", "") if at in refusals else p for at, p in enumerate(pairs)], (), refusals)


def answer_bytes(task: Task[str], spec: TranslatorSpec) -> int:
    """Reckon the size of an answer before anything is computed for it."""
    chosen = ((text, task.option_of(at)) for at, text in enumerate(task.items))
    return sum(
        translation_bytes(
            len(text),
            max_source_length=spec.max_source_length,
            max_target_length=spec.max_target_length,
            n_best=options.n_best,
            max_length=options.max_length,
            max_length_ratio=options.max_length_ratio,
            max_length_margin=options.max_length_margin,
            attention=options.attention and spec.has_attention,
        )
        for text, options in chosen
    )


def write_translation(position: int, translation: Translation, *, raw: bool) -> wire.Translation:
    """Pack the answer to a sentence.

    Args:
        position: Of the sentence.
        translation: The translator's answer.
        raw: Pack attention as bytes.
    """
    return wire.Translation(
        position=position,
        hypotheses=[_write_hypothesis(one, raw=raw) for one in translation.hypotheses],
        source_tokens=translation.source_tokens,
        truncated=translation.truncated,
        copied=translation.copied,
    )


def write_pair_score(position: int, score: PairScore) -> wire.PairScore:
    """Pack the score of a pair."""
    return wire.PairScore(
        position=position,
        tokens=score.tokens,
        token_log_probs=score.token_log_probs,
        log_prob=score.log_prob,
        score=score.score,
    )


def _write_hypothesis(hypothesis: Hypothesis, *, raw: bool) -> wire.Hypothesis:
    attention = hypothesis.attention
    return wire.Hypothesis(
        text=hypothesis.text,
        tokens=hypothesis.tokens,
        token_log_probs=hypothesis.token_log_probs,
        log_prob=hypothesis.log_prob,
        score=hypothesis.score,
        finish_reason=_FINISH_REASONS[hypothesis.finish_reason],
        attention=None if attention is None else pack_doubles(attention, raw=raw),
    )


def _read_options(
    message: wire.TranslateOptions, name: str, limits: ServerOptions, problems: list[str]
) -> TranslateOptions:
    """Read the options that are set; the defaults where there is a problem."""
    found: list[str] = []
    given = {field.name: value for field, value in message.ListFields()}
    given["banned"] = tuple(message.banned)
    if "length_formula" in given:
        formula = LENGTH_FORMULAS.get(given.pop("length_formula"))
        if formula is None:
            found.append(
                f"length_formula is {message.length_formula}, which this server doesn't know; "
                f"send {' or '.join(map(wire.LengthFormula.Name, LENGTH_FORMULAS))}."
            )
        else:
            given["length_formula"] = formula
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    if unknown:
        found.append(
            f"it has fields that this server doesn't know, number {_some(unknown)}; leave them out."
        )
    options = TranslateOptions()
    try:
        options = TranslateOptions(**given)
    except OptionError as error:
        found += error.problems
    found += _limit_problems(options, limits)
    problems += [f"{name}: {problem}" for problem in found]
    return options


def _limit_problems(options: TranslateOptions, limits: ServerOptions) -> list[str]:
    problems = []
    if options.beam_size > limits.max_beam_size:
        problems.append(
            f"beam_size is {options.beam_size}; this server takes at most {limits.max_beam_size} "
            "(--max-beam-size). Ask for a smaller beam."
        )
    num_characters = len(options.prefix) + sum(map(len, options.banned))
    if num_characters > limits.max_characters:
        problems.append(
            f"prefix and banned have {num_characters:,} characters; this server takes at most "
            f"{limits.max_characters:,} (--max-characters). Send shorter or fewer texts."
        )
    return problems


def _count_problems(count: int, name: str, limits: ServerOptions) -> list[str]:
    if not count:
        return [f"{name} is empty; send at least one."]
    if count > limits.max_sentences:
        return [
            f"{name} has {count:,} entries; this server takes at most {limits.max_sentences:,} "
            "(--max-sentences). Send several requests."
        ]
    return []


def _too_long(texts: Iterable[str], limits: ServerOptions) -> dict[int, str]:
    return {
        at: f"it has {len(text):,} characters; this server takes at most "
        f"{limits.max_characters:,} (--max-characters). Split it."
        for at, text in enumerate(texts)
        if len(text) > limits.max_characters
    }


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return shown if len(numbers) <= _SHOWN else f"{shown}, ... ({len(numbers)} in all)"
