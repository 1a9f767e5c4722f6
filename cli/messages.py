"""What people read goes to standard error; standard output belongs to the data."""

import re
from collections.abc import Sequence

import typer

from foretell.data.errors import Refusal

MOST_REASONS_SHOWN = 20

_ARGUMENTS = {
    *("id_col", "time_col", "target_col", "time_zone", "freq", "future", "date_format"),
    *("separator", "decimal", "allow_other_frequency", "skip_refused", "device", "threads"),
}


def say(text: str) -> None:
    """Write a message to standard error."""
    typer.echo(as_options(text), err=True)


def as_options(text: str) -> str:
    """Name options as they are typed here where the library names arguments, in parentheses.

    "give the frequency (freq)" becomes "give the frequency (--freq)".
    """

    def typed(match: re.Match[str]) -> str:
        names = match[1].split(", ")
        if not _ARGUMENTS.issuperset(names):
            return match[0]
        return f"({', '.join('--' + name.replace('_', '-') for name in names)})"

    return re.sub(r"\(([a-z_]+(?:, [a-z_]+)*)\)", typed, text)


def say_refused(refusals: Sequence[Refusal], num_series: int) -> None:
    """Count the refused series, and name the first ones with their reasons."""
    say(f"{len(refusals):,} of {num_series:,} series refused:")
    for refusal in refusals[:MOST_REASONS_SHOWN]:
        say(f"  {refusal}")
    if len(refusals) > MOST_REASONS_SHOWN:
        say(f"  and {len(refusals) - MOST_REASONS_SHOWN:,} more.")
