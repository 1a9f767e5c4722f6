"""What is asked of a translator and what it answers: options, hypotheses, refusals.

Axes: n tokens of a hypothesis, S pieces of its source.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from foretell.data.errors import ForetellError, OptionError

LARGEST_BEAM = 64
LARGEST_LENGTH = 100_000  # tokens; the model's own limit is far lower
MOST_BANNED = 1_000  # texts; each costs candidates at every step

LengthFormula = Literal["power", "gnmt"]
FinishReason = Literal["eos", "length"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateOptions:
    """How to search for a translation. Lengths count the end token.

    A hypothesis y with n tokens, its end token among them, has the score

        power:  log P(y|x) / n^a            gnmt:  log P(y|x) / ((5 + n) / 6)^a

    with a = `length_penalty`. The higher a, the longer the best hypothesis; 0 is no normalisation.
    Hypotheses that ended come before those that were cut at the greatest length; among equals the
    higher score comes first, then the one that ended first, then the better beam, then the lower
    token id. Where every token is forbidden to every live hypothesis, they may end all the same.

    Attributes:
        beam_size: Hypotheses kept alive; 1 is greedy search: the most probable token each time,
            until that is the end token, whatever `patience` says.
        n_best: Hypotheses returned, at most `beam_size`, 1 where they are drawn; fewer where fewer
            texts were found.
        length_penalty: a, 0 or more.
        length_formula: "power" or "gnmt".
        min_length: The end token can't come before this many tokens, itself counted. More than a
            sentence's greatest length is refused.
        max_length: Most tokens, the end token counted; None takes
            `max_length_ratio` · pieces of the source + `max_length_margin`. The model's own limit
            holds in any case.
        max_length_ratio: See `max_length`.
        max_length_margin: See `max_length`.
        patience: The search stops once patience · beam_size hypotheses have ended and no live one,
            at its present length, scores above the best of them; or once no live one can ever
            overtake the `n_best` best ended ones. Infinity leaves the second rule alone: nothing
            better can be found with this beam, at about three times the steps.
        no_repeat_ngram_size: No n-gram of this many tokens occurs twice; 0 allows all.
        repetition_penalty: The log probability of a token that the hypothesis holds already is
            multiplied by this, 1 or more. Scores are made of the products; the reported log
            probabilities stay the model's own.
        banned: Texts whose token sequences may not be produced, at most 1,000.
        prefix: Text that the translation starts with; its tokens are scored as any other, and
            nothing is forbidden to them. One without room for the end token is refused.
        sample: Draw the tokens at random instead of searching; needs `beam_size` 1.
        temperature: Log probabilities are divided by it before drawing; above 0.
        top_k: Draw among the k most probable tokens; 0 among all.
        top_p: Draw among the fewest most probable tokens that hold this share, at least one.
        seed: Fixes what is drawn, together with the sentence's place in the call; another one
            draws another translation.
        replace_unknowns: Allow the unknown token, and put the source word in its place that has
            the most attention; else the unknown token is never produced.
        attention: Return the attention weights.
        truncate_source: Cut a source that is longer than the model allows, and say so in the
            answer; else it is refused.
    """

    beam_size: int = 5
    n_best: int = 1
    length_penalty: float = 1.0
    length_formula: LengthFormula = "power"
    min_length: int = 0
    max_length: int | None = None
    max_length_ratio: float = 2.0
    max_length_margin: int = 20
    patience: float = 1.0
    no_repeat_ngram_size: int = 0
    repetition_penalty: float = 1.0
    banned: tuple[str, ...] = ()
    prefix: str = ""
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    replace_unknowns: bool = False
    attention: bool = False
    truncate_source: bool = False

    def __post_init__(self) -> None:
        problems = _whole_problems(
            beam_size=(self.beam_size, 1, LARGEST_BEAM),
            n_best=(self.n_best, 1, LARGEST_BEAM),
            min_length=(self.min_length, 0, LARGEST_LENGTH),
            max_length=(1 if self.max_length is None else self.max_length, 1, LARGEST_LENGTH),
            max_length_margin=(self.max_length_margin, 0, LARGEST_LENGTH),
            no_repeat_ngram_size=(self.no_repeat_ngram_size, 0, LARGEST_LENGTH),
            top_k=(self.top_k, 0, 2**31 - 1),
            seed=(self.seed, 0, 2**63 - 1),
        )
        problems += _number_problems(
            length_penalty=(self.length_penalty, 0.0, 10.0),
            max_length_ratio=(self.max_length_ratio, 0.0, 1000.0),
            repetition_penalty=(self.repetition_penalty, 1.0, 1000.0),
            temperature=(self.temperature, 1e-3, 1000.0),
            top_p=(self.top_p, 1e-9, 1.0),
            patience=(1.0 if _is_infinite(self.patience) else self.patience, 1e-9, 1000.0),
        )
        problems += _truth_problems(
            sample=self.sample,
            replace_unknowns=self.replace_unknowns,
            attention=self.attention,
            truncate_source=self.truncate_source,
        )
        formula: object = self.length_formula
        if not isinstance(formula, str) or formula not in ("power", "gnmt"):
            problems.append(f"length_formula is {_shown(formula)}; expected power or gnmt.")
        problems += _text_problems(self.prefix, self.banned)
        if not problems:
            problems = self._contradictions()
        if problems:
            raise OptionError(problems)

    def _contradictions(self) -> list[str]:
        problems = []
        if self.sample and self.n_best != 1:
            problems.append(
                f"n_best is {self.n_best}, but of each sentence one translation is drawn (sample); "
                "leave it at 1, and ask again with another seed (seed) for another translation."
            )
        elif self.n_best > self.beam_size:
            problems.append(
                f"n_best is {self.n_best}, but beam_size is {self.beam_size}; raise beam_size."
            )
        if self.max_length is not None and self.min_length > self.max_length:
            problems.append(f"min_length is {self.min_length}, above max_length {self.max_length}.")
        if self.sample and self.beam_size != 1:
            problems.append(f"sample needs beam_size 1; beam_size is {self.beam_size}.")
        return problems


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Hypothesis:
    """One translation of a sentence.

    Attributes:
        text: As it reads.
        tokens: Its pieces, the end token not among them.
        token_log_probs: log P of each token given those before it, by the model alone; that of the
            end token comes last where the hypothesis ended.
        log_prob: Their sum, log P(y|x).
        score: `log_prob` normalised by length: what hypotheses are ranked by. With a repetition
            penalty the sum that is normalised is the penalised one.
        finish_reason: "eos" where it ended, "length" where it was cut.
        attention: Weights [n, S] of the source's pieces for each of `tokens`, rows that sum to 1;
            None unless asked for, and where the model has none.
    """

    text: str
    tokens: tuple[str, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    log_prob: float = 0.0
    score: float = 0.0
    finish_reason: FinishReason = "eos"
    attention: np.ndarray | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Translation:
    """The answer to one sentence.

    Attributes:
        hypotheses: The best first, no two with the same text; at least one.
        source_tokens: Pieces of the source that the model read, the end token not among them.
        truncated: The source was longer than the model allows; its end was not read.
        copied: The source holds no letter and no digit; it was not translated but handed on.
    """

    hypotheses: tuple[Hypothesis, ...]
    source_tokens: tuple[str, ...] = ()
    truncated: bool = False
    copied: bool = False

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """Its score."""
        return self.hypotheses[0].score

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationPart:
    """What a stream has decided since the part before; no later part takes it back.

    Attributes:
        text: Follows the texts of the parts before, blanks included; all parts together are the
            text of the best hypothesis.
        tokens: Follow the pieces of the parts before.
    """

    text: str = ""
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PairScore:
    """How probable a given translation is.

    Attributes:
        tokens: Pieces of the target, the end token not among them.
        token_log_probs: log P of each token given those before it, the end token's last.
        log_prob: Their sum, log P(y|x).
        score: The sum divided by the number of tokens, the end token counted.
    """

    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    score: float


@dataclass(frozen=True, slots=True)
class SentenceRefusal:
    """Why one sentence got no answer; the others got theirs.

    Attributes:
        position: Its place in the call, from 0.
        reason: One sentence: what, got, expected, what to do.
    """

    position: int
    reason: str

    def __str__(self) -> str:
        return f"sentence {self.position + 1}: {self.reason}"


class RefusedSentencesError(ForetellError, ValueError):
    """Some sentences were refused; `answers` holds all others, so nothing is lost.

    Attributes:
        refusals: The refused sentences with their reasons.
        answers: The answers in the order of the sentences, None where one was refused.
    """

    def __init__(self, refusals: Sequence[SentenceRefusal], answers: Sequence[Any]) -> None:
        self.refusals = tuple(refusals)
        self.answers = tuple(answers)
        super().__init__([str(refusal) for refusal in self.refusals])

    def __reduce__(self) -> tuple[type, tuple[Sequence[SentenceRefusal], Sequence[Any]]]:
        return type(self), (self.refusals, self.answers)  # pools hand errors on pickled


def _whole_problems(**values: tuple[object, int, int]) -> list[str]:
    return [
        f"{name} is {_shown(value)}; it must be a whole number of {least} to {most:,}."
        for name, (value, least, most) in values.items()
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most
    ]


def _number_problems(**values: tuple[object, float, float]) -> list[str]:
    return [
        f"{name} is {_shown(value)}; it must be a number of {least:g} to {most:g}."
        for name, (value, least, most) in values.items()
        if isinstance(value, bool)
        or not isinstance(value, int | float)
        or not least <= value <= most  # nor is NaN between them
    ]


def _truth_problems(**values: object) -> list[str]:
    return [
        f"{name} is {_shown(value)}; it must be True or False."
        for name, value in values.items()
        if not isinstance(value, bool)
    ]


def _text_problems(prefix: object, banned: object) -> list[str]:
    problems = []
    if not isinstance(prefix, str):
        problems.append(f"prefix is {_shown(prefix)}; it must be a text.")
    if not isinstance(banned, tuple) or not all(isinstance(text, str) and text for text in banned):
        problems.append(
            f"banned is {_shown(banned)}; it must be a tuple of texts, none of them empty."
        )
    elif len(banned) > MOST_BANNED:
        problems.append(
            f"banned has {len(banned):,} texts; at most {MOST_BANNED:,} can be banned. Ban fewer."
        )
    return problems


def _is_infinite(value: object) -> bool:
    return isinstance(value, float) and value == math.inf


def _shown(value: object) -> str:
    """Write a value so that a message stays short, whatever it is."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no integers of thousands of digits
        return f"a {type(value).__name__} that can't be shown"
    return text if len(text) <= 80 else f"{text[:80]}..."
