"""The translator's proof: torch and onnxruntime over batches, lengths, beams and whole searches.

Axes: B batch, S source, T target, K beams.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64

from foretell.data.bundles.manifest import TranslatorSpec
from foretell.data.text.tokenizer import BOS, EOS, PAD, UNK
from foretell.data.text.translation import TranslateOptions
from foretell.export.paired_decoder import PairedDecoder, difference
from foretell.export.parity import Difference, ParityReport
from foretell.model.seq2seq import Seq2Seq
from foretell.runtime.search.decoding import StepRequest
from foretell.runtime.search.hypotheses import FoundHypothesis, SearchRequest

# Scores that are closer than this are a near-tie, in which either hypothesis may come first.
NEAR_SCORE = 1e-4
_FIRST_PIECE = UNK + 1
LONGEST_SEARCH = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorReport(ParityReport):
    """The proof of a translator.

    Attributes:
        searches: Whole searches, one a sentence, that were run on both sides.
        tokens_equal: Those whose best hypotheses have the same tokens; the others are near-ties.
        near_ties: Where two candidates or hypotheses are so nearly equal that rounding decides.
    """

    searches: int
    tokens_equal: int
    near_ties: tuple[str, ...]

    def _compared(self) -> str:
        return (
            f"{self.tokens_equal:,} of {self.searches:,} searches end with the same tokens; "
            f"{self.comparisons:,} comparisons of arrays"
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SourceBatch:
    """One point of the grid.

    Attributes:
        name: What is special about it.
        src: Random pieces, each row ended and padded.
        src_mask: True where a piece is.
    """

    name: str
    src: Int64[np.ndarray, "B S"]
    src_mask: Bool[np.ndarray, "B S"]


def source_batches(
    spec: TranslatorSpec, batch_sizes: Sequence[int], lengths: Sequence[int]
) -> Iterator[SourceBatch]:
    """Yield all batch sizes with all lengths, and with the model's greatest length."""
    rng = np.random.default_rng(21)
    longest = spec.max_source_length
    for length in sorted({longest, *(min(length, longest) for length in lengths)}):
        for batch in batch_sizes:
            counts = rng.integers(1, length + 1, batch)
            counts[0] = length
            src = rng.integers(_FIRST_PIECE, spec.vocab_size, (batch, length))
            src[np.arange(batch), counts - 1] = EOS
            src_mask = np.arange(length) < counts[:, None]
            yield SourceBatch(
                name=f"batch {batch}, source {length}",
                src=np.where(src_mask, src, PAD),
                src_mask=src_mask,
            )


def lead_along(
    decoder: PairedDecoder, model: Seq2Seq, batch: SourceBatch, steps: int
) -> Difference:
    """Lead one beam along random targets; compare with the model that sees them whole.

    Every step is compared with the model's own step by the decoder. What is returned is the
    comparison with the model that has no cache and sees all steps at once.
    """
    rng = np.random.default_rng(22)
    rows = len(batch.src)
    tgt = rng.integers(EOS, decoder.vocab_size, (rows, steps))
    tgt[:, 0] = BOS
    decoder.where = f"{batch.name}, one beam"
    state = decoder.start(batch.src, batch.src_mask)
    stepwise = []
    for t in range(steps):
        answer = decoder.step(
            state,
            StepRequest(
                tokens=tgt[:, t : t + 1],
                scores=np.zeros((rows, 1), dtype=np.float32),
                parents=np.zeros((rows, 1), dtype=np.int64),
                positions=np.full(rows, t),
                want_log_probs=True,
                want_attention=True,
            ),
        )
        assert answer.log_probs is not None
        stepwise.append(answer.log_probs)
        state = answer.state
    with torch.inference_mode():
        hidden = model(*map(torch.from_numpy, (batch.src, batch.src_mask, tgt)))
        whole = model.log_probs(hidden).numpy()
    return difference(
        f"{decoder.where}, all steps at once", whole, np.concatenate(stepwise, axis=1)
    )


def change_beams(decoder: PairedDecoder, batch: SourceBatch) -> None:
    """Lead beams that change order and number, die, and lose sentences on the way."""
    rng = np.random.default_rng(23)
    decoder.where = f"{batch.name}, changing beams"
    state = decoder.start(batch.src, batch.src_mask)
    rows, before = len(batch.src), 1
    for t, beams in enumerate((1, 4, 2, 5, 5, 1, 3)):
        if t == 4 and rows > 1:  # some sentences are complete
            kept = np.sort(rng.choice(rows, rows - 1, replace=False))
            rows, state = len(kept), decoder.keep(state, kept)
        scores = rng.normal(size=(rows, beams)).astype(np.float32)
        scores[:, 1:] = np.where(rng.random((rows, beams - 1)) < 0.2, -np.inf, scores[:, 1:])
        answer = decoder.step(
            state,
            StepRequest(
                tokens=rng.integers(EOS, decoder.vocab_size, (rows, beams)),
                scores=scores,
                parents=rng.integers(0, before, (rows, beams)),
                positions=np.full(rows, t),
                num_candidates=min(2 * beams, beams * (decoder.vocab_size - 2)),
                want_log_probs=True,
                want_attention=True,
            ),
        )
        state, before = answer.state, beams


def search_requests(spec: TranslatorSpec, beam_size: int, count: int) -> list[SearchRequest]:
    """Ask for all hypotheses of a beam."""
    options = TranslateOptions(beam_size=beam_size, n_best=beam_size)
    longest = min(LONGEST_SEARCH, spec.max_target_length)
    return [
        SearchRequest(options=options, max_length=longest, place=place) for place in range(count)
    ]


def compare_hypotheses(
    where: str,
    expected: Sequence[FoundHypothesis],
    found: Sequence[FoundHypothesis],
    *,
    had_near_tie: bool,
) -> Difference | None:
    """Compare the hypotheses of a search, rank by rank.

    Args:
        where: Names the search.
        expected: What torch found.
        found: What onnxruntime found.
        had_near_tie: On the way candidates changed places that are all but equally good; after
            that both ways are right.

    Returns:
        The largest difference of scores at a rank, 0 after a near-tie; None where all have the
        same tokens.
    """
    ids, other_ids = ([x.token_ids for x in side] for side in (expected, found))
    if ids == other_ids:
        return None
    gap = np.inf
    if had_near_tie:
        gap = 0.0
    elif len(ids) == len(other_ids):
        gap = max(abs(a.score - b.score) for a, b in zip(expected, found, strict=True))
    return Difference(where, gap, gap, gap / NEAR_SCORE)
