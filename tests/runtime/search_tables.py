"""A decoder made of a table, for tests of the search; it checks each call against the contract.

What follows depends on the source and on the last two tokens of a hypothesis. The token before the
last is the decoder's own state, so a state that does not follow the parents gives other answers.

Log probabilities are multiples of 1/8, so that float32 and float64 add them without rounding and
equal sums are equal in both; a search doesn't care whether their exponentials add up to 1.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from foretell.data.text.tokenizer import BOS, EOS
from foretell.runtime.search.decoding import StepAnswer, StepRequest

DEAD = 99  # no token

Row = Sequence[float]
Table = Callable[[tuple[int, ...], tuple[int, ...]], Row]  # source, tokens so far: log P of each


def random_table(seed: int, vocab_size: int, *, none: float = 0.2, levels: int = 24) -> Table:
    """Log probabilities at random; with the chance `none` a token can't follow."""

    def table(source: tuple[int, ...], tokens: tuple[int, ...]) -> Row:
        return after(source, (BOS, *tokens)[-2:])

    @cache
    def after(source: tuple[int, ...], last_two: tuple[int, ...]) -> Row:
        random = np.random.default_rng([seed, *source, 99, *last_two])
        row = -random.integers(1, levels + 1, vocab_size) / 8
        row[random.random(vocab_size) < none] = -math.inf
        row[:EOS] = -math.inf  # pad and bos
        return row.tolist()

    return table


def fixed_table(rows: dict[tuple[int, ...], dict[int, float]], vocab_size: int) -> Table:
    """Probabilities by the last tokens of a hypothesis, the longest ending that is listed."""

    def table(_source: tuple[int, ...], tokens: tuple[int, ...]) -> Row:
        endings = [(BOS, *tokens)[start:] for start in range(len(tokens) + 1)]
        row = next(rows[ending] for ending in endings if ending in rows)
        return [
            math.log(row[token]) if row.get(token) else -math.inf for token in range(vocab_size)
        ]

    return table


def weights(source: tuple[int, ...], tokens: tuple[int, ...], length: int) -> np.ndarray:
    """Attention of a step: some row that depends on all that went before it, zero on pads."""
    random = np.random.default_rng([7, *source, 99, *tokens])
    row = random.random(len(source))
    return np.pad(row / row.sum(), (0, length - len(source))).astype(np.float32)


@dataclass(frozen=True)
class TableState:
    length: int
    sources: list[tuple[int, ...]]
    histories: list[list[tuple[int, ...]]]  # of each beam of the step before


class TableDecoder:
    """A decoder whose every answer can be looked up."""

    def __init__(self, table: Table, vocab_size: int, *, has_attention: bool = True) -> None:
        self.table = table
        self.vocab_size = vocab_size
        self.has_attention = has_attention
        self.requests: list[StepRequest] = []

    def start(self, src: np.ndarray, src_mask: np.ndarray) -> TableState:
        sources = [tuple(row[mask].tolist()) for row, mask in zip(src, src_mask, strict=True)]
        return TableState(src.shape[1], sources, [[()] for _ in sources])

    def keep(self, state: TableState, rows: np.ndarray) -> TableState:
        assert len(rows), "a batch of none"
        return TableState(
            state.length,
            [state.sources[row] for row in rows],
            [state.histories[row] for row in rows],
        )

    def step(self, state: TableState, request: StepRequest) -> StepAnswer:
        self.requests.append(request)
        num_rows, num_beams = request.tokens.shape
        assert num_rows == len(state.sources)
        assert 0 <= request.num_candidates <= num_beams * self.vocab_size
        histories = [self._follow(state.histories[row], request, row) for row in range(num_rows)]
        log_probs = np.array(
            [
                [self._row(source, history) for history in beams]
                for source, beams in zip(state.sources, histories, strict=True)
            ],
            dtype=np.float32,
        )
        sums = (request.scores[:, :, None] + log_probs).reshape(num_rows, -1)
        best = np.argsort(-sums, axis=1, kind="stable")[:, : request.num_candidates]
        attention = None
        if request.want_attention:
            attention = np.array(
                [
                    [weights(source, history, state.length) for history in beams]
                    for source, beams in zip(state.sources, histories, strict=True)
                ]
            )
        return StepAnswer(
            state=TableState(state.length, state.sources, histories),
            candidates=best if request.num_candidates else None,
            candidate_log_probs=np.take_along_axis(log_probs.reshape(num_rows, -1), best, axis=1)
            if request.num_candidates
            else None,
            log_probs=log_probs if request.want_log_probs else None,
            attention=attention,
        )

    def _follow(
        self, before: list[tuple[int, ...]], request: StepRequest, row: int
    ) -> list[tuple[int, ...]]:
        """What each beam holds, by this decoder's own account."""
        tokens, parents = request.tokens[row].tolist(), request.parents[row].tolist()
        position = int(request.positions[row])
        assert not np.isnan(request.scores[row]).any()
        assert request.scores[row].max() > -math.inf, "a sentence without a live beam"
        if position == 0:
            assert (tokens, parents) == ([BOS], [0]), "the first step has one beam"
            return [()]
        assert len(before[0]) == position - 1
        assert all(0 <= token < self.vocab_size for token in tokens)
        return [
            (*before[parent], token) if score > -math.inf else (DEAD,) * position
            for parent, token, score in zip(parents, tokens, request.scores[row], strict=True)
        ]

    def _row(self, source: tuple[int, ...], history: tuple[int, ...]) -> Row:
        """What may follow; after a dead beam the most tempting tokens of all."""
        return [0.0] * self.vocab_size if DEAD in history else self.table(source, history)


def batch(sources: Sequence[Sequence[int]], length: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sources side by side, padded on the right."""
    length = max(length, *map(len, sources))
    src = np.array([[*source, *[0] * (length - len(source))] for source in sources])
    mask = np.array([[place < len(source) for place in range(length)] for source in sources])
    return src, mask
