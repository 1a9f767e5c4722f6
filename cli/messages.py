"""What people read goes to standard error; standard output belongs to the data."""

from collections.abc import Sequence

import typer

from foretell.data.errors import Refusal

MOST_REASONS_SHOWN = 20


def say(text: str) -> None:
    """Write a message to standard error."""
    typer.echo(text, err=True)


def say_refused(refusals: Sequence[Refusal], num_series: int) -> None:
    """Count the refused series, and name the first ones with their reasons."""
    say(f"{len(refusals):,} of {num_series:,} series refused:")
    for refusal in refusals[:MOST_REASONS_SHOWN]:
        say(f"  {refusal}")
    if len(refusals) > MOST_REASONS_SHOWN:
        say(f"  and {len(refusals) - MOST_REASONS_SHOWN:,} more.")
