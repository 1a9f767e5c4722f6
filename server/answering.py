"""How every service gets its answers, whatever the wire: one way in, one way out.

Services read requests and write responses; what lies between, from a task to its answer, is here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from foretell.data.options import ForecastOptions
from foretell.data.panel import PanelForecast, Rows
from foretell.data.translation import (
    PairScore,
    RefusedSentencesError,
    TranslateOptions,
    Translation,
    TranslationPart,
)
from foretell.server.call import Call
from foretell.server.served import Model
from foretell.server.translation_codec import Task
from foretell.server.working import stream_from_worker

Answer = TypeVar("Answer")
Found = TypeVar("Found")

_READERS = 2  # threads that read requests and write responses: work of this process's own cores


@dataclass(frozen=True, slots=True)
class Answered(Generic[Answer]):
    """The answers to a task's items.

    Attributes:
        answers: By position; those that are missing were refused.
        reasons: Why the others were refused, by position, rising.
    """

    answers: dict[int, Answer]
    reasons: dict[int, str]


class Answering:
    """Gets answers from models for calls; what nobody waits for any more is stopped.

    All methods belong to the server's event loop; what they are given to compute runs off it.
    """

    def __init__(self, workers: Executor) -> None:
        self._workers = workers
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="wire")

    async def compute(self, work: Callable[[], Found]) -> Found:
        """Read a request or write a response, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def translate(
        self, model: Model, task: Task[str], call: Call, *, first_place: int = 0
    ) -> Answered[Translation]:
        """Translate the sentences of a task.

        Args:
            model: On a lease that lasts.
            task: The sentences with their options.
            call: Which waits for them.
            first_place: Place of the first sentence in the caller's whole list.

        Raises:
            ModelKindError: The model is no translator.
            OptionError: The options don't fit this model.
        """
        translator, _ = model.translator
        options = task.options if len(task.options) > 1 else task.options[0]
        return await self._answer_all(
            task,
            partial(
                translator.translate,
                task.items,
                options,
                first_place=first_place,
                on_step=call.check,
            ),
        )

    async def score(
        self, model: Model, task: Task[tuple[str, str]], call: Call
    ) -> Answered[PairScore]:
        """Score the pairs of a task; else as `translate`."""
        translator, _ = model.translator
        return await self._answer_all(
            task, partial(translator.score, task.items, on_step=call.check)
        )

    async def translate_stream(
        self, model: Model, sentence: str, options: TranslateOptions, call: Call
    ) -> AsyncIterator[TranslationPart | Translation]:
        """Translate one sentence; yield what is found while it is being found.

        Parts that hold nothing are left out.

        Raises:
            ModelKindError: The model is no translator.
            OptionError: The options don't fit this model.
            RefusedSentencesError: The sentence can't be translated.
        """
        translator, _ = model.translator

        def steps() -> Generator[TranslationPart | Translation | None, None, None]:
            with closing(translator.translate_stream(sentence, options)) as events:
                for event in events:
                    yield None if event == TranslationPart() else event

        async for event in stream_from_worker(steps, self._workers, call):
            yield event

    async def forecast(
        self, model: Model, rows: Rows, future: Rows | None, options: ForecastOptions, call: Call
    ) -> PanelForecast:
        """Forecast the series of a request.

        Raises:
            ModelKindError: The model is no forecaster.
            OptionError: The options don't fit this model.
            TableError: The known-future covariates don't fit the rows.
        """
        forecaster, _ = model.forecaster
        return await self._in_worker(partial(forecaster.forecast_rows, rows, future, options))

    async def run_graph(
        self,
        model: Model,
        graph: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None,
        call: Call,
    ) -> dict[str, np.ndarray]:
        """Run one graph of a model on arrays that fit the graph's signature.

        Args:
            model: On a lease that lasts.
            graph: "forecaster", "encoder" or "decoder".
            inputs: An array for each input, by name.
            outputs: Names of the outputs to return; None returns all.
            call: Which waits for them.
        """
        return await self._in_worker(partial(model.served.run_graph, graph, inputs, outputs))

    async def _answer_all(
        self, task: Task[Found], ask: Callable[[], Sequence[Answer]]
    ) -> Answered[Answer]:
        reasons: dict[int, str] = {}
        try:
            answers: Sequence[Answer | None] = await self._in_worker(ask)
        except RefusedSentencesError as error:
            answers = error.answers
            reasons = {refusal.position: refusal.reason for refusal in error.refusals}
        reasons |= task.refusals
        return Answered(
            {
                at: answer
                for at, answer in enumerate(answers)
                if answer is not None and at not in reasons
            },
            dict(sorted(reasons.items())),
        )

    async def _in_worker(self, work: Callable[[], Found]) -> Found:
        """Compute in a worker; what waits for a worker when the call ends is never begun."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)
