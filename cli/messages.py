"""What people read goes to standard error; standard output belongs to the data."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foretell.data.errors import Refusal
from foretell.jobs.amounts import counted
from foretell.jobs.lines.option_names import as_options
from foretell.jobs.tables.refused_series import RefusedSeries
from foretell.model.ranks import is_first, rank

if TYPE_CHECKING:
    from foretell.jobs.lines.job import LinesDone

SECONDS_BETWEEN_LINES = 10.0


def say(text: str) -> None:
    """Write a message to standard error; options are named as they are typed.

    Of several processes of a training the first speaks.
    """
    if is_first():
        typer.echo(as_options(text), err=True)


def say_error(text: str) -> None:
    """Say what ends this process; those of a training that aren't the first tell their number."""
    of_rank = "" if is_first() else f"rank {rank()}: "
    typer.echo(f"{of_rank}error: {as_options(text)}", err=True)


def at_times(tell: Callable[[str], None], *, at_once: bool = True) -> Callable[[str], None]:
    """Pass on at most one message every ten seconds, the first at once or after ten seconds."""
    last = -SECONDS_BETWEEN_LINES if at_once else time.monotonic()

    def pass_on(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            tell(text)

    return pass_on


def by_stage(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Pass on the first message of every stage, and after it at most one every ten seconds.

    A stage's name is what stands before the colon.
    """
    stage: str | None = None
    pass_on = tell

    def pass_on_of_stage(text: str) -> None:
        nonlocal stage, pass_on
        name = text.partition(":")[0]
        if name != stage:
            stage, pass_on = name, at_times(tell)
        pass_on(text)

    return pass_on_of_stage


def say_refused(refusals: Sequence[Refusal] | RefusedSeries, num_series: int) -> None:
    """Count the refused series, and name the first ones, together where their reason is one."""
    if not isinstance(refusals, RefusedSeries):
        refusals = RefusedSeries.of((one.unique_id, one.reason) for one in refusals)
    say(f"{refusals.count:,} of {num_series:,} series refused:")
    for reason, names, count in refusals.by_reason():
        more = count - len(names)
        say(f"  {', '.join(names)}{f' and {more:,} more' if more else ''}: {reason}")
    if rest := refusals.count - refusals.num_shown:
        say(f"  and {rest:,} more.")


def say_refused_lines(done: "LinesDone", target: Path | None) -> None:
    """Count the refused lines, name the first ones, and tell where all reasons are."""
    say(f"{done.num_refused:,} of {counted(done.num_lines, 'line')} refused:")
    for line in done.refused:
        say(f"  {line}")
    if done.num_refused > len(done.refused):
        say(f"  and {done.num_refused - len(done.refused):,} more.")
    if target is not None:
        say(f"all reasons: {target}")
    elif done.num_refused > len(done.refused):
        say("give --output FILE to have all reasons in a file.")
