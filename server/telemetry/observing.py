"""What is told of the server's work, by those who do it: counted, and never in their way."""

from collections.abc import Callable, Sequence

from foretell.server.telemetry.call_statistics import CallStatistics, Method
from foretell.server.telemetry.durations import NOTHING, Spent, split
from foretell.server.telemetry.statistics import Held, Statistics

# Triton's reasons, which dashboards know.
_FAILURES = {"ok": None, "cancelled": "CANCELED", "deadline": "REJECTED", "refused": "OTHER"}


class Observer:
    """Hears what happens to models and their requests.

    Every method may be called from any thread, returns at once and never raises. A model is named
    as the repository names it, with the version that is at work; one that `on_loaded` hasn't
    announced counts as "other". A request is either rejected, or admitted and later done, once.

    Attributes:
        statistics: What came of it, in numbers.
        calls: What happened to calls, whatever they asked.
        read_restarts: Tells how many workers took the place of one that died.
    """

    def __init__(self) -> None:
        self.statistics = Statistics()
        self.calls = CallStatistics()
        self.read_restarts: Callable[[], int] = int

    def on_call_started(self, method: Method) -> None:
        """A call came."""
        self.calls.start(method)

    def on_call_done(self, method: Method, code: str, seconds: float) -> None:
        """A call ended, with the code of this name."""
        self.calls.finish(method, code, seconds)

    def on_admitted(self, model: str, version: int) -> None:
        """A request was let in; it waits from now on."""
        self.statistics.admit(model, version)

    def on_rejected(self, model: str, version: int, reason: str) -> None:
        """A request was not let in.

        Args:
            model: Whose request.
            version: Of the model.
            reason: In one word: "full", "bytes".
        """
        self.statistics.reject(model, version)

    def on_batch(
        self,
        model: str,
        version: int,
        requests: int,
        items: int,
        padded_items: int,
        queue_s: Sequence[float],
        compute_s: float,
        *,
        input_s: float = 0.0,
        output_s: float = 0.0,
    ) -> None:
        """A batch was computed.

        Args:
            model: Whose.
            version: Of the model.
            requests: That had a part in it.
            items: Real ones, in whatever the batch is padded (tokens, steps).
            padded_items: All that was computed, padding too; at least `items`.
            queue_s: Seconds each request waited for it.
            compute_s: Seconds the batch took.
            input_s: Of these, until the first of its graphs ran.
            output_s: And after the last one.
        """
        spent = split(compute_s, input_s, output_s)
        self.statistics.compute(model, version, requests, items, padded_items, queue_s, spent)

    def on_done(
        self,
        model: str,
        version: int,
        outcome: str,
        seconds: float,
        *,
        read_s: float = 0.0,
        queue_s: float = 0.0,
        write_s: float = 0.0,
        spent: Spent = NOTHING,
    ) -> None:
        """A request that was let in is over.

        Args:
            model: Whose.
            version: Of the model.
            outcome: "ok", "error", "cancelled", "deadline", or "refused" where the caller was at
                fault.
            seconds: From its admission to its end.
            read_s: Of these, until it was queued: the request became what the model takes.
            queue_s: From there until its first batch began.
            write_s: And from its last batch on: what the model gave became the answer.
            spent: By all batches that it had a part in.
        """
        failure = _FAILURES.get(outcome, "BACKEND")
        self.statistics.finish(
            model,
            version,
            failure,
            seconds,
            read_s=read_s,
            queue_s=queue_s,
            write_s=write_s,
            spent=spent,
        )

    def on_tokens(self, model: str, version: int, n: int) -> None:
        """A translator wrote so many tokens."""
        self.statistics.write(model, version, n)

    def on_queue(self, model: str, version: int, held: Held) -> None:
        """A queue was made; ask it from now on for what it holds."""
        self.statistics.watch(model, version, held)

    def on_loaded(self, model: str, version: int, seconds: float) -> None:
        """A version is loaded and warm; it took so long."""
        self.statistics.begin(model, version, seconds)

    def on_unloaded(self, model: str, version: int) -> None:
        """A version is gone."""
        self.statistics.end(model, version)
