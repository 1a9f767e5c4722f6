"""What a job tells while it works, and when it has ended: rate, time left, memory, busy cores."""

import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class JobProgress:
    """How far a job is.

    Attributes:
        done: Items that are done, those of runs before this one too.
        total: Items that there are; None where nobody knows yet.
        rate: Items a second, of this run.
        left_s: Seconds until the end, at this rate; None where nobody knows.
        reading: What is done with the input before the first item, such as "in.csv read"; the
            items are megabytes of it then. None of the job itself.
    """

    done: int
    total: int | None
    rate: float
    left_s: float | None
    reading: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSummary:
    """What a run of a job took.

    Attributes:
        num_items: Items that were done in this run.
        seconds: How long it took.
        peak_memory_bytes: Most memory that this process has held since it was started.
        busy_share: Share of the time of all compute threads in which a model's graph was running;
            None where something else computed, such as a server.
    """

    num_items: int
    seconds: float
    peak_memory_bytes: int
    busy_share: float | None = None

    def text(self, unit: str) -> str:
        """Tell it in a line, such as "12.3 s (1,950 lines/s, peak memory 312 MiB)".

        Args:
            unit: What an item is, in the plural.
        """
        facts = [
            f"{rate_text(self.num_items / max(self.seconds, 1e-9))} {unit}/s",
            f"peak memory {self.peak_memory_bytes / _MIB:,.0f} MiB",
        ]
        if self.busy_share is not None:
            facts.append(f"compute threads busy {self.busy_share:.0%}")
        return f"{self.seconds:,.1f} s ({', '.join(facts)})"


class Meter:
    """Measures a run of a job from its first item on."""

    def __init__(
        self,
        *,
        done: int = 0,
        total: int | None = None,
        busy_s: Callable[[], float] | None = None,
        threads: int = 1,
    ) -> None:
        """Start the clock.

        Args:
            done: Items that were done before this run.
            total: Items that there are, those included; None where nobody knows.
            busy_s: Seconds in which the model's graphs have been running so far, summed over all
                threads, such as `Translator.busy_s`; None where something else computes.
            threads: Of the model, that can compute at a time.
        """
        self._done, self._total = done, total
        self._busy_s, self._threads = busy_s, threads
        self._busy_before_s = 0.0 if busy_s is None else busy_s()
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.perf_counter() - self._start

    def progress(self, num_items: int) -> JobProgress:
        """Tell how far the job is, when this run has done some items."""
        rate = num_items / max(self.seconds, 1e-9)
        done, left_s = self._done + num_items, None
        if self._total is not None and num_items:
            left_s = max(0, self._total - done) / rate
        return JobProgress(done=done, total=self._total, rate=rate, left_s=left_s)

    def summary(self, num_items: int) -> JobSummary:
        """Tell what this run took, when it has done all its items."""
        seconds = self.seconds
        share = None
        if self._busy_s is not None:
            busy_s = self._busy_s() - self._busy_before_s
            share = min(1.0, busy_s / max(seconds * self._threads, 1e-9))
        return JobSummary(
            num_items=num_items,
            seconds=seconds,
            peak_memory_bytes=peak_memory_bytes(),
            busy_share=share,
        )


def peak_memory_bytes() -> int:
    """Return the most memory that this process has held at a time."""
    # What `getrusage` tells counts from before the program was loaded: a small command that a large
    # process has started would seem to be as large as that.
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rate_text(rate: float) -> str:
    """Write a number of items a second: "0.25", "7.1", "1,950"."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
