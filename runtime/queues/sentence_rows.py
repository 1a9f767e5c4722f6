"""Sentences and pairs as rows of a model's queue: searched and scored beside those of others.

A row's answer is the same whatever batch it runs in; see `foretell.runtime.packing`.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from foretell.data.text.tokenizer import Tokenizer
from foretell.data.text.translation import PairScore, Translation
from foretell.runtime.answers import Answers, write_score, write_translation
from foretell.runtime.packing import pad_sources, source_ladder, source_room
from foretell.runtime.queues.work import Batch, Row
from foretell.runtime.search.constraints import needs_log_probs
from foretell.runtime.search.decoder import OnnxDecoder
from foretell.runtime.search.scoring import score_targets
from foretell.runtime.search.search import Search, search
from foretell.runtime.sources import PairTask, SentenceTask, Source

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Asked(Generic[Task, Answer]):
    """What is asked, and where the answer goes."""

    task: Task
    answers: Answers[Answer]
    source_length: int


class SentenceRows:
    """Makes rows for one translator's queue, and runs batches of them."""

    def __init__(self, decoder: OnnxDecoder, tokenizer: Tokenizer, *, max_tokens: int) -> None:
        """Keep what batches need.

        Args:
            decoder: The model.
            tokenizer: The model's.
            max_tokens: Most padded tokens of a batch; see `plan_batches`.
        """
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._ladder = source_ladder(decoder.spec.max_source_length)

    def translations(
        self, tasks: Sequence[SentenceTask], answers: Answers[Translation]
    ) -> list[Row]:
        """Make a row of each sentence; its answer goes to `answers`."""
        return [
            self._row(
                self._search,
                # Those that choose among all words would slow the others' steps down.
                (task.request.options.beam_size, needs_log_probs(task.request, 0)),
                task,
                answers,
                source=task.source,
                beam_size=task.request.options.beam_size,
                max_length=task.request.max_length,
            )
            for task in tasks
        ]

    def scores(self, tasks: Sequence[PairTask], answers: Answers[PairScore]) -> list[Row]:
        """Make a row of each pair; its answer goes to `answers`."""
        return [
            self._row(
                self._score,
                None,
                task,
                answers,
                source=task.source,
                beam_size=1,
                max_length=len(task.target),
            )
            for task in tasks
        ]

    def _row(
        self,
        run: Callable[[Batch], None],
        key: Hashable,
        task: Task,
        answers: Answers[Answer],
        *,
        source: Source,
        beam_size: int,
        max_length: int,
    ) -> Row:
        length = int(self._ladder[np.searchsorted(self._ladder, len(source.ids))])
        room = source_room(length, beam_size, max_length)
        return Row(
            run,
            (length, key),
            _Asked(task, answers, length),
            share=room / self._max_tokens,
            items=len(source.ids),
            padded_items=length,
        )

    def _search(self, batch: Batch) -> None:
        asked: tuple[_Asked[SentenceTask, Translation], ...] = batch.tasks

        def on_step(running: Search) -> list[int]:
            for row in running.completed:
                task, found = asked[row].task, running.answers[row]
                asked[row].answers.put(
                    task.position, partial(write_translation, task, found, self._tokenizer)
                )
                batch.put(row)
            return batch.given_up()

        sources = [one.task.source.ids for one in asked]
        src, src_mask = pad_sources(sources, asked[0].source_length)
        decoder = self._decoder.until(batch.stop)
        search(decoder, src, src_mask, [one.task.request for one in asked], on_step)

    def _score(self, batch: Batch) -> None:
        asked: tuple[_Asked[PairTask, PairScore], ...] = batch.tasks
        sources = [one.task.source.ids for one in asked]
        src, src_mask = pad_sources(sources, asked[0].source_length)
        targets = [one.task.target for one in asked]

        def on_step() -> None:
            batch.given_up()

        decoder = self._decoder.until(batch.stop)
        found = score_targets(decoder, src, src_mask, targets, on_step)
        for place, (one, log_probs) in enumerate(zip(asked, found, strict=True)):
            one.answers.put(
                one.task.position, partial(write_score, one.task, log_probs, self._tokenizer)
            )
            batch.put(place)
