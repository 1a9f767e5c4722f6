"""How good a translator is on a text: BLEU and chrF by sacreBLEU, with the signatures that count.

Scores may be compared only where their signatures are the same: tokenisation alone moves BLEU by
more than most improvements do.
"""

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from foretell.data.errors import ForetellError
from foretell.data.text.lines import Line
from foretell.data.text.normalising import normalise
from foretell.data.text.translation import TranslateOptions, Translation
from foretell.jobs.journals.journal import MOST_KEPT
from foretell.jobs.lines.answered_lines import RefusedLine
from foretell.jobs.lines.chunks import in_chunks
from foretell.jobs.lines.doors import TranslatorDoor
from foretell.jobs.lines.job import ask

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

MEASURES = ("BLEU lc", "BLEU mixed", "chrF")
_CHUNK_LINES = 1024
_WARM_UP = 8  # sentences; the first ones of a session take longer, which is nobody's fault


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityScores:
    """The measures of one way to search.

    Attributes:
        name: The way: "greedy", or "beam 5".
        bleu_lc: BLEU without case (sacreBLEU, 13a), 0 to 100.
        bleu_mixed: BLEU with case.
        chrf: Of character n-grams, 0 to 100.
        exact: Share of the translations that are, in normal form, one of their references.
        sentences_per_s: Translated in a second, the time of the call over all sentences.
    """

    name: str
    bleu_lc: float
    bleu_mixed: float
    chrf: float
    exact: float
    sentences_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """What an evaluation found.

    Attributes:
        scores: Of each way to search.
        signatures: Of BLEU lc, BLEU mixed and chrF.
        num_sentences: Sentences, refused ones among them.
        num_references: References of each.
        num_refused: Sentences without a translation; they count as empty ones.
        refused: The first of them, with their reasons.
        where: What computed the translations, for people to read.
    """

    scores: tuple[QualityScores, ...]
    signatures: dict[str, str]
    num_sentences: int
    num_references: int
    num_refused: int
    refused: tuple[RefusedLine, ...]
    where: str


def check_sacrebleu() -> None:
    """Refuse an evaluation without sacreBLEU, before any work is done.

    Raises:
        ForetellError: It is not installed.
    """
    if importlib.util.find_spec("sacrebleu") is None:
        raise ForetellError(
            "BLEU needs sacrebleu, which is not installed; pip install 'foretell[evaluate]'."
        )


def evaluate_translator(
    src: Sequence[str],
    references: Sequence[Sequence[str]],
    door: TranslatorDoor,
    options: Sequence[TranslateOptions],
    *,
    tell: Callable[[str], None] | None = None,
) -> Quality:
    """Translate sentences in several ways, and compare with what people wrote.

    Args:
        src: The sentences, at least one.
        references: Their translations, a list of as many; several are several of each sentence.
        door: The model.
        options: The ways to search; the scores come in this order.
        tell: Called with what has been done.
    """
    metrics = _metrics()
    _translate(src[:_WARM_UP], door, options[0], None)
    scores = []
    refused: list[RefusedLine] = []
    for way in options:
        start = time.perf_counter()
        answers = _translate(src, door, way, tell)
        seconds = time.perf_counter() - start
        refused = [answer for answer in answers if isinstance(answer, RefusedLine)]
        found = ["" if isinstance(answer, RefusedLine) else answer.text for answer in answers]
        values = {
            name: metric.corpus_score(found, references).score for name, metric in metrics.items()
        }
        scores.append(
            QualityScores(
                name="greedy" if way.beam_size == 1 else f"beam {way.beam_size}",
                bleu_lc=values["BLEU lc"],
                bleu_mixed=values["BLEU mixed"],
                chrf=values["chrF"],
                exact=_exact(found, references),
                sentences_per_s=len(src) / max(seconds, 1e-9),
            )
        )
    return Quality(
        scores=tuple(scores),
        signatures={name: str(metric.get_signature()) for name, metric in metrics.items()},
        num_sentences=len(src),
        num_references=len(references),
        num_refused=len(refused),
        refused=tuple(refused[:MOST_KEPT]),
        where=door.where,
    )


def _metrics() -> "dict[str, Metric]":
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  (the extra [evaluate])
    from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415

    return dict(zip(MEASURES, (BLEU(lowercase=True), BLEU(), CHRF()), strict=True))


def _translate(
    src: Sequence[str],
    door: TranslatorDoor,
    options: TranslateOptions,
    tell: Callable[[str], None] | None,
) -> list[Translation | RefusedLine]:
    answers: list[Translation | RefusedLine] = []
    all_lines = (Line(number, text) for number, text in enumerate(src, start=1))
    for lines in in_chunks(all_lines, _CHUNK_LINES, lambda line: len(line.text)):
        texts = [line.text for line in lines]
        answers += ask(lines, partial(door.translate, texts, options, first_place=len(answers)))
        if tell is not None:
            tell(f"{len(answers):,} of {len(src):,} sentences translated")
    return answers


def _exact(found: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Share of the translations that are one of their references."""
    right = [
        normalise(text) in map(normalise, known)
        for text, *known in zip(found, *references, strict=True)
    ]
    return sum(right) / len(right)
