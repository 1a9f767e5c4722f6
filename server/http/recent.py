"""What happened lately: rates and percentiles of the last minute, out of counts that only grow."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foretell.server.http.model_states import ModelState, ReadStates
from foretell.server.telemetry.observing import Observer
from foretell.server.telemetry.statistics import OTHER, ModelStatistics

STEP_S = 5.0
"""Between two readings that are kept."""

WINDOW_S = 60.0
_KEPT = 13  # readings: all of a window
_STEPS = 60  # whose rates are kept: five minutes


@dataclass(frozen=True, slots=True)
class ModelActivity:
    """What a version of a model did lately, beside its state.

    Rates and percentiles are of the last minute, or of the time since the start where that is
    shorter; percentiles are None where nothing ended in it.

    Attributes:
        state: Of the version.
        requests_per_s: That ended.
        failures_per_s: That ended without an answer, or were not let in.
        p50_s: From admission to end, half of the requests took no longer.
        p95_s: The same of 95 %.
        p99_s: The same of 99 %.
        queue_s: Mean waiting.
        compute_s: Mean computing of a batch.
        requests_per_batch: Mean.
        padding: Share of what was computed that was padding.
        tokens_per_s: That a translator wrote.
        in_work: Requests let in and not yet over, now.
        waiting: Those of them that no batch has taken up, now.
        history: Requests a second in each step of the last five minutes, oldest first.
    """

    state: ModelState
    requests_per_s: float
    failures_per_s: float
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    queue_s: float | None
    compute_s: float | None
    requests_per_batch: float | None
    padding: float | None
    tokens_per_s: float
    in_work: int
    waiting: int
    history: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    models: dict[tuple[str, int], ModelStatistics]


class Recent:
    """Keeps readings of the last minute, and rates of the last five; for any thread."""

    def __init__(
        self,
        observer: Observer,
        read_states: ReadStates,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observer = observer
        self._read_states = read_states
        self._clock = clock
        self._lock = threading.Lock()
        self._readings = deque([self._read()], maxlen=_KEPT)
        self._history: dict[tuple[str, int], tuple[float, ...]] = {}

    def keep(self) -> None:
        """Keep a reading of now; to be called every `STEP_S` seconds."""
        with self._lock:
            self._keep(self._read())

    def _keep(self, late: _Reading) -> None:
        early = self._readings[-1]
        self._readings.append(late)
        span_s = max(late.at_s - early.at_s, 1e-9)
        kept = {}
        for key, model in late.models.items():
            before = early.models[key].request_seconds.count if key in early.models else 0
            count = model.request_seconds.count
            rate = (count - before if count >= before else count) / span_s  # loaded anew
            kept[key] = (*self._history.get(key, ()), rate)[-_STEPS:]
        self._history = kept

    def models(self) -> list[ModelActivity]:
        """What each version did lately, and at the end what names none that is loaded, if any."""
        now = self._read()
        with self._lock:
            readings, histories = list(self._readings), self._history
        since = next(
            (one for one in readings if now.at_s - one.at_s <= WINDOW_S + STEP_S / 2),
            readings[-1],
        )
        states = [*self._read_states()]
        if OTHER in now.models:
            states.append(ModelState(*OTHER, state=""))
        return [
            self._activity(state, since, now, histories.get((state.name, state.version), ()))
            for state in states
        ]

    def _activity(
        self, state: ModelState, since: _Reading, now: _Reading, history: tuple[float, ...]
    ) -> ModelActivity:
        key = (state.name, state.version)
        empty = self._observer.statistics.empty(*key)
        late = now.models.get(key, empty)
        early = since.models.get(key, empty)
        if early.request_seconds.count > late.request_seconds.count:  # loaded anew since then
            early = empty
        span_s = max(now.at_s - since.at_s, 1.0)
        ended = late.request_seconds - early.request_seconds
        failed = sum(late.failures.values()) - sum(early.failures.values())
        batches = late.execution_count - early.execution_count
        items, padded = late.items - early.items, late.padded_items - early.padded_items
        waited = late.queue_seconds - early.queue_seconds
        computed = late.compute_seconds - early.compute_seconds
        requests = late.inference_count - early.inference_count
        return ModelActivity(
            state=state,
            requests_per_s=ended.count / span_s,
            failures_per_s=failed / span_s,
            p50_s=ended.percentile(50),
            p95_s=ended.percentile(95),
            p99_s=ended.percentile(99),
            queue_s=_ratio(waited.total, waited.count),
            compute_s=_ratio(computed.total, computed.count),
            requests_per_batch=_ratio(requests, batches),
            padding=_ratio(padded - items, padded),
            tokens_per_s=(late.tokens - early.tokens) / span_s,
            in_work=late.in_work,
            waiting=late.waiting,
            history=history,
        )

    def _read(self) -> _Reading:
        models = {(one.name, one.version): one for one in self._observer.statistics.all()}
        return _Reading(self._clock(), models)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def total(models: Sequence[ModelActivity]) -> tuple[float, float, int]:
    """Requests a second, failures a second, and requests in work, of all models."""
    return (
        sum(model.requests_per_s for model in models),
        sum(model.failures_per_s for model in models),
        sum(model.in_work for model in models),
    )
