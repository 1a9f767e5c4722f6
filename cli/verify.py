"""`foretell verify`: whether a bundle is whole and computes what it should, on this machine."""

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from foretell.cli import parameters
from foretell.cli.export import parity_line
from foretell.cli.messages import say

EXAMPLE = "Example: foretell verify models/demand/1"


def verify(
    bundle: Annotated[Path, typer.Argument(help="Bundle, or model folder (its newest version).")],
    device: parameters.Device = "auto",
    threads: parameters.Threads = None,
) -> None:
    """Check a bundle: hashes, loading, self-check, parity.

    Parity compares with torch and is checked where torch is installed.
    """
    from foretell.data.bundle import read_bundle, resolve_bundle
    from foretell.jobs.selfcheck import self_check

    found = read_bundle(resolve_bundle(bundle))
    typer.echo(f"hashes      {len(found.manifest.files)} files are whole")
    check = self_check(found, device=device, threads=threads)
    typer.echo(
        f"self-check  the sample's answer holds on {check.provider} "
        f"(difference {check.largest_difference:.1e})"
    )
    if importlib.util.find_spec("torch") is None:
        typer.echo("parity      not checked: torch is not installed (extra [train])")
        return
    from foretell.export.build import prove_bundle

    report = prove_bundle(found.path, device=device, progress=say)
    report.check()
    typer.echo(f"parity      {parity_line(report)}")
