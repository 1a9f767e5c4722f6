"""How far a job is: a bar on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foretell.cli.messages import SECONDS_BETWEEN_LINES, say

if TYPE_CHECKING:
    from foretell.jobs.summary import JobProgress

_MINUTE_S, _HOUR_S = 60, 3600


@contextmanager
def job_progress(
    unit: str, *, on_stdout: bool = False
) -> "Iterator[Callable[[JobProgress], None]]":
    """Hand out what is to be called whenever a part of a job is done.

    Args:
        unit: What a job counts, in the plural.
        on_stdout: The data go to standard output; on a terminal they would run through a bar.
    """
    if sys.stderr.isatty() and not (on_stdout and sys.stdout.isatty()):
        with _bar(unit) as show:
            yield show
    else:
        yield _lines(unit)


def facts(progress: "JobProgress", unit: str) -> str:
    """Tell rate and time left, as far as they are known: "1,950 lines/s, 2 min left"."""
    from foretell.jobs.summary import rate_text

    told = f"{rate_text(progress.rate)} {'MB' if progress.reading else unit}/s"
    if progress.left_s is not None:
        told += f", {_duration(progress.left_s)} left"
    return told


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{round(seconds)} s"
    if seconds < 90 * _MINUTE_S:
        return f"{round(seconds / _MINUTE_S)} min"
    return f"{seconds / _HOUR_S:.1f} h"


def _lines(unit: str) -> "Callable[[JobProgress], None]":
    """Say nothing of a job that is over in ten seconds; its end is told anyway."""
    last = time.monotonic()

    def show(progress: "JobProgress") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            of = "" if progress.total is None else f" of {progress.total:,}"
            done = f"MB of {progress.reading}" if progress.reading else f"{unit} done"
            say(f"{progress.done:,}{of} {done} ({facts(progress, unit)})")

    return show


@contextmanager
def _bar(unit: str) -> "Iterator[Callable[[JobProgress], None]]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}"),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # what belongs there would come to the terminal
    )
    with bar:
        task = bar.add_task(unit, facts="", total=None)

        def show(progress: "JobProgress") -> None:
            bar.update(
                task,
                description=f"MB of {progress.reading}" if progress.reading else unit,
                completed=progress.done,
                total=progress.total,
                facts=facts(progress, unit),
            )

        yield show
