"""How every service gets its answers, whatever the wire: one way in, one way out.

Services read requests and write responses; what lies between is here. A request is let in or
refused, waits for its model with those of others, is computed in batches with them, and leaves at
once when its call ends.
"""

import asyncio
import threading
import time
import weakref
from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from foretell.data.errors import ForetellError
from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import PanelForecast, Rows
from foretell.data.text.translation import PairScore, TranslateOptions, Translation, TranslationPart
from foretell.runtime.answers import Answers
from foretell.runtime.queues.scheduler import BatchReport, QueueLimits, Scheduler
from foretell.runtime.queues.work import (
    Batch,
    BatchTimeError,
    DeadlineError,
    Plan,
    QueueFullError,
    Request,
    Row,
)
from foretell.runtime.search.stopping import StoppedError
from foretell.server.calls.awaiting import in_time, result_of
from foretell.server.calls.call import Call, Caller
from foretell.server.calls.readers import LARGE_BYTES, Readers
from foretell.server.calls.task import Task
from foretell.server.calls.turnstile import Turnstile
from foretell.server.models.served import Model, Served
from foretell.server.options import ServerOptions
from foretell.server.telemetry.call_notes import current_notes, note_phase
from foretell.server.telemetry.durations import NOTHING, split
from foretell.server.telemetry.observing import Observer
from foretell.server.telemetry.tracing import Tracing

Answer = TypeVar("Answer")
Found = TypeVar("Found")

# Are read or written in a millisecond or so; where others wait, only a part of that is little.
_SMALL_BYTES, _TINY_BYTES, _TINY_ITEMS = 16_384, 4096, 32
_PHASES = ("read", "queue", "compute", "write")


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

    All methods belong to the server's event loop; what they are given to compute runs off it. They
    raise `QueueFullError` where a model has too much before it, and `DeadlineError` where a
    request's time was over before its answer was there.
    """

    def __init__(
        self, options: ServerOptions, observer: Observer, tracing: Tracing | None = None
    ) -> None:
        self._instances = options.instances
        self._merges = options.batching
        self._limits = QueueLimits(
            max_requests=options.max_queue,
            max_bytes=options.max_queue_bytes,
            max_batch_s=options.max_batch_s,
        )
        self._observer = observer
        self._tracing = tracing or Tracing()
        self._schedulers: WeakKeyDictionary[Served, Scheduler] = WeakKeyDictionary()
        self._readers = Readers()
        self._turnstile = Turnstile()
        self._num_admitted = 0

    async def compute(self, work: Callable[[], Found], call: Call, *, size_bytes: int) -> Found:
        """Read a request or write a response, off the event loop unless it is tiny.

        A thread would wait for Python's lock, under load for longer than a tiny one takes. Of a
        call that is the only one, what is small stays here, too: nobody waits for it meanwhile.

        Args:
            work: What is to be done.
            call: Which waits for it.
            size_bytes: About how much it goes through.
        """
        is_alone = self._num_admitted <= 1
        most_bytes = _SMALL_BYTES if is_alone else _TINY_BYTES
        if size_bytes <= most_bytes and call.num_items <= _TINY_ITEMS:
            if not is_alone:
                await self._turnstile.pass_through(call)
            return work()
        is_large = max(size_bytes, call.size_bytes) > LARGE_BYTES
        return await in_time(call.deadline, self._readers.run(work, call.caller, is_large=is_large))

    @contextmanager
    def admitted(self, model: Model, call: Call) -> Iterator[Request]:
        """Hold a call's place before a model while the block runs.

        The methods below do so themselves; whoever has something to read before he can ask enters
        here first, so that nothing is read for a call that is refused, and leaves when the answer
        is written, so that all the time it took is counted.
        """
        if call.request is not None:
            yield call.request
            return
        started_at = time.monotonic()
        call.request = request = self._admit(model, call)
        self._num_admitted += 1
        request.caller = Caller(current_notes())
        outcome = "error"
        try:
            yield request
            outcome = "ok"
        except DeadlineError:
            outcome = "deadline"
            raise
        except BatchTimeError:
            raise
        except ForetellError:
            outcome = "refused"
            raise
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "deadline" if call.is_late else "cancelled"
            raise
        finally:
            request.cancel()
            call.request = None
            self._num_admitted -= 1
            ended_at = time.monotonic()
            _note_phases(started_at, request, ended_at)
            self._observer.on_done(
                model.name,
                model.version,
                outcome,
                ended_at - started_at,
                read_s=(request.queued_at or ended_at) - started_at,
                queue_s=request.waited_s,
                write_s=ended_at - (request.done_at or ended_at),
                spent=sum(request.caller.spent, NOTHING),
            )

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
        plan = partial(translator.plan_translations, task.items, options, first_place=first_place)
        answered = _answered(task, await self._ask(model, plan, call))
        self._tell_tokens(model, answered.answers.values())
        return answered

    async def score(
        self, model: Model, task: Task[tuple[str, str]], call: Call
    ) -> Answered[PairScore]:
        """Score the pairs of a task; else as `translate`."""
        translator, _ = model.translator
        plan = partial(translator.plan_scores, task.items)
        return _answered(task, await self._ask(model, plan, call))

    async def translate_stream(
        self, model: Model, sentence: str, options: TranslateOptions, call: Call
    ) -> AsyncIterator[TranslationPart | Translation]:
        """Translate one sentence; yield what is found while it is being found.

        Parts that hold nothing are left out. The search never waits for a slow reader.

        Raises:
            ModelKindError: The model is no translator.
            OptionError: The options don't fit this model.
            RefusedSentencesError: The sentence can't be translated.
        """
        translator, _ = model.translator
        loop = asyncio.get_running_loop()
        found: asyncio.Queue[TranslationPart | Translation | None] = asyncio.Queue()
        nothing = TranslationPart()

        def search(batch: Batch) -> None:
            with closing(translator.translate_stream(sentence, options)) as events:
                for event in events:
                    batch.given_up()
                    if event != nothing:
                        loop.call_soon_threadsafe(found.put_nowait, event)
            batch.put(0)

        with self.admitted(model, call) as request:
            call.leave_at_end(request)
            request.done.add_done_callback(
                lambda _: loop.call_soon_threadsafe(found.put_nowait, None)
            )
            request.begin([Row(search, None, None)])
            while (event := await in_time(call.deadline, found.get())) is not None:
                if isinstance(event, Translation):
                    self._tell_tokens(model, [event])
                yield event
            await result_of(request.done)

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
        plan = partial(forecaster.plan_forecast, rows, future, options)
        return await self._ask(model, plan, call)

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
        found: dict[str, np.ndarray] = {}

        def run(batch: Batch) -> None:
            found.update(model.served.run_graph(graph, inputs, outputs, stop=batch.stop))
            batch.put(0)

        with self.admitted(model, call) as request:
            request.begin([Row(run, None, None)])
            await in_time(call.deadline, result_of(request.done))
            return found

    def close(self, timeout_s: float) -> bool:
        """Wait for what is still being computed, for nobody any more.

        Returns:
            Whether it ended in time.
        """
        end = time.monotonic() + timeout_s
        self._readers.close()
        schedulers = list(self._schedulers.values())
        return not [one for one in schedulers if not one.close(max(0.0, end - time.monotonic()))]

    async def _ask(self, model: Model, plan: Callable[..., Plan[Found]], call: Call) -> Found:
        with self.admitted(model, call) as request:

            def go_on() -> None:
                if request.done.cancelled():
                    raise StoppedError

            planned = await self.compute(
                partial(plan, on_step=go_on), call, size_bytes=call.size_bytes
            )
            request.begin(planned.rows)
            await in_time(call.deadline, result_of(request.done))
            return await self.compute(planned.answer, call, size_bytes=planned.answer_bytes)

    def _admit(self, model: Model, call: Call) -> Request:
        observer, name, version = self._observer, model.name, model.version
        scheduler = self._schedulers.get(model.served) or self._make_scheduler(model)
        try:
            request = scheduler.admit(
                size_bytes=call.size_bytes, priority=call.priority, deadline=call.deadline
            )
        except (QueueFullError, DeadlineError) as error:
            is_full = isinstance(error, QueueFullError)
            observer.on_rejected(name, version, "full" if is_full else "deadline")
            raise
        observer.on_admitted(name, version)
        return request

    def _make_scheduler(self, model: Model) -> Scheduler:
        """Make the queue of a model, which lives as long as the model, and doesn't hold it."""
        observer, name, version = self._observer, model.name, model.version
        of_thread = threading.local()  # it begins a batch, runs it and reports it

        def report(batch: BatchReport) -> None:
            spent = split(batch.compute_s, batch.input_s, batch.output_s)
            for caller in of_thread.callers:
                caller.spent.append(spent)
            observer.on_batch(
                name,
                version,
                batch.requests,
                batch.items,
                batch.padded_items,
                batch.queue_s,
                batch.compute_s,
                input_s=batch.input_s,
                output_s=batch.output_s,
            )

        def begin(batch: Batch) -> Callable[[bool], None] | None:
            requests = dict.fromkeys(queued.request for queued in batch.rows)
            of_thread.callers = callers = [one.caller for one in requests if one.caller is not None]
            notes = [one.notes for one in callers if one.notes is not None]
            begun = self._tracing.begin_batch(notes, name, version)
            if begun is None:
                return None
            span, end = begun
            for caller in callers:
                caller.batches.append(span)
            return end

        scheduler = Scheduler(
            threads=self._instances or model.served.threads,
            limits=self._limits,
            on_batch=report,
            on_begin=begin,
            merges=self._merges,
        )
        self._schedulers[model.served] = scheduler
        weakref.finalize(model.served, scheduler.take_no_more).atexit = False
        observer.on_queue(name, version, lambda: (scheduler.num_waiting, scheduler.held_bytes))
        return scheduler

    def _tell_tokens(self, model: Model, translations: Iterable[Translation]) -> None:
        count = sum(len(one.tokens) for answer in translations for one in answer.hypotheses)
        self._observer.on_tokens(model.name, model.version, count)


def _note_phases(started_at: float, request: Request, ended_at: float) -> None:
    """Note what the time went into: until rows were queued, a batch took one, all were done."""
    written_from = None if request.begun_at is None else request.done_at
    times = [started_at, request.queued_at, request.begun_at, written_from]
    known = [*(at for at in times if at is not None), ended_at]
    for name, (begun_s, ended_s) in zip(_PHASES, pairwise(known), strict=False):
        batches = request.caller.batches if name == "compute" else ()
        note_phase(name, begun_s, ended_s, batches=batches)


def _answered(task: Task[Found], found: Answers[Answer]) -> Answered[Answer]:
    reasons = {refusal.position: refusal.reason for refusal in found.refusals} | task.refusals
    return Answered(
        {
            at: answer
            for at, answer in enumerate(found.answers)
            if answer is not None and at not in reasons
        },
        dict(sorted(reasons.items())),
    )
