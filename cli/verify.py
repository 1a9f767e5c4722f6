"""`foretell verify`: whether a bundle is whole and computes what it should, on this machine."""

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from foretell.cli import parameters
from foretell.cli.export import parity_line
from foretell.cli.messages import at_times, say

EXAMPLE = "Example: foretell verify models/demand/1"


def verify(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="Bundle, or model folder (its newest version).")
    ],
    device: parameters.Device = "auto",
    threads: parameters.Threads = None,
) -> None:
    """Check a bundle: hashes, loading, self-check, parity.

    Parity compares with torch and is checked where torch is installed.
    """
    from foretell.data.bundle import read_bundle, resolve_bundle
    from foretell.jobs.output import check_stdout
    from foretell.runtime.forecaster import GRAPH_FILE
    from foretell.runtime.selfcheck import check_sample
    from foretell.runtime.session import Session

    check_stdout()
    found = read_bundle(resolve_bundle(bundle))
    typer.echo(f"hashes      {len(found.manifest.files)} files are whole")
    session = Session(found, GRAPH_FILE, device=device, threads=threads)
    difference = check_sample(found, session)
    typer.echo(
        f"self-check  the answer to the sample holds on {session.provider} "
        f"(largest difference {difference:.1e})"
    )
    if importlib.util.find_spec("torch") is None:
        typer.echo("parity      not checked: torch is not installed (extra [train])")
        return
    from foretell.export.build import prove_bundle

    report = prove_bundle(found.path, device=device, progress=at_times(say))
    report.check()
    typer.echo(f"parity      {parity_line(report)}")
