"""How a server serves: address, instances, and the limits that protect it."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from foretell.data.errors import OptionError
from foretell.data.series.options import MAX_HORIZON
from foretell.data.text.translation import LARGEST_BEAM
from foretell.server.listen import is_unix
from foretell.server.security import SecurityOptions

MIB = 1024 * 1024
_LARGEST = 2**31 - 1
_LARGEST_BYTES = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """How a server serves.

    Attributes:
        listen: HOST:PORT, where port 0 takes a free one; or unix:PATH.
        metrics: HOST:PORT of the HTTP port with metrics, health and the status page, where port 0
            takes a free one; empty for none.
        trace_endpoint: Of the collector that spans go to, http://HOST:PORT; empty for no spans.
        security: Who may reach and ask it.
        workers: Processes that share the address, each with models of its own.
        worker: Number of this process among them, from 0.
        counts_folder: Where these processes tell each other what they counted; None where there is
            but one.
        instances: Batches of one model that are computed at a time; more wait. None takes as many
            as the model has threads.
        batching: Requests of several callers may share a batch; else each runs in its own.
        max_queue: Most requests that wait for one model; more are refused.
        max_queue_bytes: Most bytes of all requests for one model, waiting or computed; a single one
            is always let in.
        max_batch_s: Seconds after which a batch is stopped, and its callers get an error.
        max_message_bytes: Largest request and largest answer. Memory for messages is at most about
            this times twice the number of requests in work.
        max_series: Most series of one request.
        max_steps: Most rows of one series, and of its known future.
        max_horizon: Most steps ahead.
        max_sentences: Most sentences, or pairs to be scored, of one request.
        max_characters: Most characters of one sentence, and of all texts of one set of options.
        max_beam_size: Largest beam.
        max_connection_age_s: Seconds after which a client is asked to connect anew, by and by; 0
            for never.
        drain_delay_s: Seconds after SIGTERM in which new requests are still answered, while health
            tells everybody to send them elsewhere.
        grace_s: Seconds that requests in work get to finish when the server stops.
        max_hang_s: Seconds after which one of several workers is killed and replaced whose event
            loop stands still; 0 for never.
    """

    listen: str = "127.0.0.1:8001"
    metrics: str = ""
    trace_endpoint: str = ""
    security: SecurityOptions = field(default_factory=SecurityOptions)
    workers: int = 1
    worker: int = 0
    counts_folder: Path | None = None
    instances: int | None = None
    batching: bool = True
    max_queue: int = 256
    max_queue_bytes: int = 256 * MIB
    max_batch_s: float = 300.0
    max_message_bytes: int = 64 * MIB
    max_series: int = 10_000
    max_steps: int = 1_000_000
    max_horizon: int = MAX_HORIZON
    max_sentences: int = 1024
    max_characters: int = 100_000
    max_beam_size: int = LARGEST_BEAM
    max_connection_age_s: float = 0.0
    drain_delay_s: float = 5.0
    grace_s: float = 30.0
    max_hang_s: float = 60.0

    def __post_init__(self) -> None:
        problems = []
        if self.instances is not None and self.instances < 1:
            problems.append(f"instances is {self.instances}; it must be at least 1.")
        if not 1024 <= self.max_message_bytes < 2048 * MIB:
            problems.append(
                f"max_message_bytes is {self.max_message_bytes:,}; it must be 1,024 to "
                f"{2048 * MIB - 1:,}."
            )
        limits = {
            "max_queue": (self.max_queue, _LARGEST),
            "max_queue_bytes": (self.max_queue_bytes, _LARGEST_BYTES),
            "max_series": (self.max_series, _LARGEST),
            "max_steps": (self.max_steps, _LARGEST),
            "max_horizon": (self.max_horizon, MAX_HORIZON),
            "max_sentences": (self.max_sentences, _LARGEST),
            "max_characters": (self.max_characters, _LARGEST),
            "max_beam_size": (self.max_beam_size, LARGEST_BEAM),
        }
        problems += [
            f"{name} is {value:,}; it must be 1 to {most:,}."
            for name, (value, most) in limits.items()
            if not 1 <= value <= most
        ]
        if not 0 < self.max_batch_s < float("inf"):
            problems.append(f"max_batch_s is {self.max_batch_s}; it must be above 0 seconds.")
        for name in ("max_connection_age_s", "drain_delay_s", "grace_s", "max_hang_s"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                problems.append(f"{name} is {value}; it must be 0 or more seconds.")
        if self.workers < 1:
            problems.append(f"workers is {self.workers}; it must be at least 1.")
        if self.workers > 1 and is_unix(self.listen):
            problems.append(
                f"workers is {self.workers}, but processes can't share {self.listen}; listen on "
                "HOST:PORT, or take one worker."
            )
        if problems:
            raise OptionError(problems)

    @property
    def connection_age_ms(self) -> int:
        """`max_connection_age_s` in gRPC's unit and bounds; the largest means never."""
        return min(math.ceil(self.max_connection_age_s * 1000), _LARGEST) or _LARGEST

    @property
    def max_held_bytes(self) -> int:
        """Most bytes of all requests in work: two full queues, or eight of the largest requests."""
        return 2 * max(self.max_queue_bytes, 4 * self.max_message_bytes)

    @property
    def max_streams(self) -> int:
        """Most calls of one connection; more wait at the client.

        More than wait for a model, so that who sends too many is told so.
        """
        return min(max(256, 2 * self.max_queue), _LARGEST)

    @property
    def max_fields(self) -> int:
        """Most fields of one request: some for each series and sentence, and for its tensors."""
        return 100_000 + 8 * (self.max_series + self.max_sentences)
