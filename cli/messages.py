"""What people read goes to standard error; standard output belongs to the data."""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foretell.data.errors import Refusal

if TYPE_CHECKING:
    from foretell.jobs.line_job import LinesDone

MOST_REASONS_SHOWN = 20
SECONDS_BETWEEN_LINES = 10.0

_ARGUMENTS = (
    *("id_col", "time_col", "target_col", "time_zone", "freq", "future", "date_format"),
    *("separator", "decimal", "allow_other_frequency", "skip_refused", "device", "threads"),
    *("resume", "overwrite"),
)
_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _ARGUMENTS}
_OPTIONS["truncate_source"] = "--truncate"


def say(text: str) -> None:
    """Write a message to standard error."""
    typer.echo(as_options(text), err=True)


def as_options(text: str) -> str:
    """Name options as they are typed here where the library names arguments, in parentheses.

    "give the frequency (freq)" becomes "give the frequency (--freq)".
    """

    def typed(match: re.Match[str]) -> str:
        names = match[1].split(", ")
        if not _OPTIONS.keys() >= set(names):
            return match[0]
        return f"({', '.join(_OPTIONS[name] for name in names)})"

    return re.sub(r"\(([a-z_]+(?:, [a-z_]+)*)\)", typed, text)


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


def say_refused(refusals: Sequence[Refusal], num_series: int) -> None:
    """Count the refused series, and name the first ones, together where their reason is one."""
    say(f"{len(refusals):,} of {num_series:,} series refused:")
    reasons: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        reasons.setdefault(refusal.reason, []).append(refusal)
    for reason, alike in list(reasons.items())[:MOST_REASONS_SHOWN]:
        names = ", ".join(str(refusal.unique_id) for refusal in alike[:MOST_REASONS_SHOWN])
        more = len(alike) - MOST_REASONS_SHOWN
        say(f"  {names}{f' and {more:,} more' if more > 0 else ''}: {reason}")
    if len(reasons) > MOST_REASONS_SHOWN:
        rest = list(reasons.values())[MOST_REASONS_SHOWN:]
        say(f"  and {sum(map(len, rest)):,} more.")


def say_refused_lines(done: "LinesDone", target: Path | None) -> None:
    """Count the refused lines, name the first ones, and tell where all reasons are."""
    say(f"{done.num_refused:,} of {done.num_lines:,} lines refused:")
    for line in done.refused:
        say(f"  {line}")
    if done.num_refused > len(done.refused):
        say(f"  and {done.num_refused - len(done.refused):,} more.")
    if target is not None:
        say(f"all reasons: {target}")
    elif done.num_refused > len(done.refused):
        say("give --output FILE to have all reasons in a file.")
