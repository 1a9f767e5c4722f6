"""`foretell token`: a new bearer token for a server that asks for them."""

from pathlib import Path
from typing import Annotated

import typer

from foretell.cli.messages import say

EXAMPLE = "Example: foretell token billing --tokens tokens.txt > billing.token"


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom the token is for.")],
    tokens: Annotated[
        Path, typer.Option(metavar="FILE", help="File that `foretell serve --tokens` reads.")
    ],
    groups: Annotated[
        str,
        typer.Option(
            metavar="GROUPS", help="What it may do: inference, metadata, repository, by commas."
        ),
    ] = "inference",
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="When it ends, such as 2027-01-31T00:00:00Z. [never]"),
    ] = None,
) -> None:
    """Make a token for callers of a server.

    The token goes to standard output and stands nowhere else; the file gets its hash. A server that
    runs takes it over within a second. To revoke one, delete its line.
    """
    from foretell.server.access.tokens import add_token

    made = add_token(tokens, name, groups, until)
    typer.echo(made)
    say(f"{tokens} has a token for {name} now: {groups}, {f'until {until}' if until else 'no end'}")
