"""What a server's models did, in numbers: the one account that all who tell of it read.

Counts of models and versions that aren't loaded are never made: whatever a client writes into a
request, no number appears under its name.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from operator import add
from typing import Any

from foretell.server.telemetry.durations import NOTHING, BatchSums, Computing, Duration, Spent, Sum
from foretell.server.telemetry.histograms import SECONDS, SHARES, SIZES, Histogram, Recorder

OTHER = ("other", 0)
"""Stands for every model that isn't loaded."""
Held = Callable[[], tuple[int, int]]
"""What a queue holds: requests that wait, and the bytes of all that aren't over."""


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """What one version of a model did since it was loaded.

    Durations add up over requests, as in Triton's message of this name: divided by its count, each
    is a request's mean, also where a batch held many requests.

    Attributes:
        name: Of the model; "other" for all that aren't loaded.
        version: Of the model.
        last_inference_ms: When the last batch was done, in milliseconds since 1970; 0 before it.
        inference_count: Requests in batches that were computed; one that took several batches
            counts in each.
        execution_count: Batches that were computed.
        success: Requests that got their answer, from admission to end.
        fail: Those let in that didn't.
        queue: Of those that did, how long they waited before their first batch began.
        compute_input: Of them, too: making of a request what a graph takes (reading it, tokens,
            grids), and laying out and padding batches, the whole of which each request has.
        compute_infer: Running graphs, and what a search does between two of them; so, too.
        compute_output: Making the answer of what graphs gave, until it is ready to be sent.
        batches: Executions by their number of requests, once a batch; without reading requests
            and writing answers, which no batch does.
        failures: Requests without an answer by Triton's reasons: REJECTED (the queue was full, or
            their time was over), CANCELED, BACKEND (an error), OTHER (a mistake of the caller's).
        in_work: Requests let in and not yet over.
        waiting: Those of them that no batch has taken up.
        held_bytes: Of all of them.
        items: Real items computed, in whatever batches are padded: tokens, steps.
        padded_items: All that were computed, padding too.
        tokens: Written by a translator.
        load_s: Seconds that loading and warming took.
        request_seconds: From admission to end, however it ended.
        queue_seconds: Waiting, by request.
        compute_seconds: Computing, by batch.
        batch_requests: Requests of a batch.
        padding: Share of a batch that was padding.
    """

    name: str
    version: int
    last_inference_ms: int
    inference_count: int
    execution_count: int
    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    batches: dict[int, Computing]
    failures: dict[str, int]
    in_work: int
    waiting: int
    held_bytes: int
    items: int
    padded_items: int
    tokens: int
    load_s: float
    request_seconds: Histogram
    queue_seconds: Histogram
    compute_seconds: Histogram
    batch_requests: Histogram
    padding: Histogram


class Statistics:
    """The account of a server; all methods may be called from any thread.

    Attributes:
        read_peers: Makes the accounts of other processes of the same server, which `of` and `all`
            add to this one's.
    """

    def __init__(self) -> None:
        self.read_peers: Callable[[], Iterable[ModelStatistics]] = tuple
        self._lock = threading.Lock()
        self._tallies = {OTHER: _Tally()}

    def of(self, model: str, version: int) -> ModelStatistics:
        """What one version did; of one that isn't loaded, what is counted under "other"."""
        with self._lock:
            key = (model, version) if (model, version) in self._tallies else OTHER
            own = self._tallies[key].read(*key)
        peers = [one for one in self.read_peers() if (one.name, one.version) == key]
        return add_by_version([own, *peers])[0]

    @staticmethod
    def empty(model: str, version: int) -> ModelStatistics:
        """What a version has that did nothing yet."""
        return _Tally().read(model, version)

    def all(self) -> list[ModelStatistics]:
        """What each loaded version did, by name and version; "other" last, if it has anything."""
        return add_by_version([*self.own(), *self.read_peers()])

    def own(self) -> list[ModelStatistics]:
        """What `all` tells, of this process alone."""
        with self._lock:
            loaded = sorted(key for key in self._tallies if key != OTHER)
            others = [OTHER] if self._tallies[OTHER].is_used else []
            return [self._tallies[key].read(*key) for key in [*loaded, *others]]

    def watch(self, model: str, version: int, held: Held) -> None:
        """Ask a queue for what it holds, from now on."""
        with self._lock:
            tally = self._tallies.get((model, version))
            if tally is not None:
                tally.held = held

    def begin(self, model: str, version: int, load_s: float) -> None:
        """Begin to count for a version; one that is loaded anew keeps what it has."""
        with self._lock:
            tally = self._tallies.setdefault((model, version), _Tally())
            tally.load_s = load_s
            tally.loads += 1

    def end(self, model: str, version: int) -> None:
        """Forget a version, unless it was loaded anew; what still happens to it is "other"."""
        with self._lock:
            tally = self._tallies.get((model, version))
            if tally is not None:
                tally.loads -= 1
                if not tally.loads:
                    del self._tallies[model, version]

    def admit(self, model: str, version: int) -> None:
        """Count a request that was let in."""
        with self._lock:
            self._tally(model, version).in_work += 1

    def reject(self, model: str, version: int) -> None:
        """Count a request that was not let in."""
        with self._lock:
            self._tally(model, version).failures["REJECTED"] += 1

    def finish(
        self,
        model: str,
        version: int,
        failure: str | None,
        seconds: float,
        *,
        read_s: float = 0.0,
        queue_s: float = 0.0,
        write_s: float = 0.0,
        spent: Spent = NOTHING,
    ) -> None:
        """Count the end of a request that was let in.

        Args:
            model: Whose.
            version: Of the model.
            failure: Triton's reason; None for success.
            seconds: From its admission.
            read_s: Of these, until it was queued.
            queue_s: From there until its first batch began.
            write_s: And from its last batch on.
            spent: By all batches that it had a part in.
        """
        with self._lock:
            tally = self._tally(model, version)
            tally.in_work = max(0, tally.in_work - 1)  # it may have been let in by a version gone
            tally.request_seconds.add(seconds)
            if failure is None:
                tally.success.add(seconds)
                tally.queue.add(queue_s)  # of the same requests, or it could be the longer one
                tally.compute_input.add(read_s + spent.input_s)
                tally.compute_infer.add(spent.infer_s)
                tally.compute_output.add(spent.output_s + write_s)
            else:
                tally.fail.add(seconds)
                tally.failures[failure] += 1

    def compute(
        self,
        model: str,
        version: int,
        requests: int,
        items: int,
        padded_items: int,
        queue_s: Sequence[float],
        spent: Spent,
    ) -> None:
        """Count a batch; the arguments are those of `Observer.on_batch`."""
        with self._lock:
            tally = self._tally(model, version)
            tally.last_inference_ms = time.time_ns() // 1_000_000
            for waited_s in queue_s:
                tally.queue_seconds.add(waited_s)
            tally.inference_count += requests
            tally.compute_seconds.add(spent.input_s + spent.infer_s + spent.output_s)
            tally.batches.setdefault(requests, BatchSums()).add(spent)
            tally.batch_requests.add(requests)
            tally.items += items
            tally.padded_items += padded_items
            if padded_items:
                tally.padding.add(1 - items / padded_items)

    def write(self, model: str, version: int, tokens: int) -> None:
        """Count tokens that a translator wrote."""
        with self._lock:
            self._tally(model, version).tokens += tokens

    def _tally(self, model: str, version: int) -> "_Tally":
        tally = self._tallies.get((model, version)) or self._tallies[OTHER]
        tally.is_used = True
        return tally


def add_by_version(parts: Iterable[ModelStatistics]) -> list[ModelStatistics]:
    """Add up what several processes tell, in the order of `Statistics.all`."""
    found: dict[tuple[str, int], list[ModelStatistics]] = {}
    for one in parts:
        found.setdefault((one.name, one.version), []).append(one)
    keys = sorted(found, key=lambda key: (key == OTHER, key))
    return [_add_all(found[key]) for key in keys]


def _add_all(parts: Sequence[ModelStatistics]) -> ModelStatistics:
    if len(parts) == 1:
        return parts[0]
    sums: dict[str, object] = {}
    for one in fields(ModelStatistics):
        values = [getattr(part, one.name) for part in parts]
        if isinstance(values[0], dict):
            keys = sorted({key for value in values for key in value})
            sums[one.name] = {
                key: reduce(add, (value[key] for value in values if key in value)) for key in keys
            }
        else:
            sums[one.name] = reduce(_HOW.get(one.name, add), values)
    return ModelStatistics(**sums)  # type: ignore[arg-type]  # each is what its parts are


# Of all that isn't added up, the first or the largest says what is to be said of several.
_HOW: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda first, _: first,
    "version": lambda first, _: first,
    "last_inference_ms": max,
    "load_s": max,
}


class _Tally:
    """A `ModelStatistics` that grows."""

    def __init__(self) -> None:
        self.is_used = False
        self.loads = 0
        self.last_inference_ms = 0
        self.success, self.fail, self.queue = Sum(), Sum(), Sum()
        self.compute_input, self.compute_infer, self.compute_output = Sum(), Sum(), Sum()
        self.batches: dict[int, BatchSums] = {}
        self.failures: Counter[str] = Counter()
        self.held: Held = lambda: (0, 0)
        self.inference_count = 0
        self.in_work = self.items = self.padded_items = self.tokens = 0
        self.load_s = 0.0
        self.request_seconds = Recorder(SECONDS)
        self.queue_seconds = Recorder(SECONDS)
        self.compute_seconds = Recorder(SECONDS)
        self.batch_requests = Recorder(SIZES)
        self.padding = Recorder(SHARES)

    def read(self, name: str, version: int) -> ModelStatistics:
        waiting, held_bytes = self.held()
        return ModelStatistics(
            name=name,
            version=version,
            last_inference_ms=self.last_inference_ms,
            inference_count=self.inference_count,
            execution_count=sum(each.infer.count for each in self.batches.values()),
            success=self.success.read(),
            fail=self.fail.read(),
            queue=self.queue.read(),
            compute_input=self.compute_input.read(),
            compute_infer=self.compute_infer.read(),
            compute_output=self.compute_output.read(),
            batches={size: each.read() for size, each in sorted(self.batches.items())},
            failures=dict(sorted(self.failures.items())),
            in_work=self.in_work,
            waiting=waiting,
            held_bytes=held_bytes,
            items=self.items,
            padded_items=self.padded_items,
            tokens=self.tokens,
            load_s=self.load_s,
            request_seconds=self.request_seconds.read(),
            queue_seconds=self.queue_seconds.read(),
            compute_seconds=self.compute_seconds.read(),
            batch_requests=self.batch_requests.read(),
            padding=self.padding.read(),
        )
