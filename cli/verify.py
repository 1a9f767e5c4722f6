"""`foretell verify`: whether a bundle is whole and computes what it should, on this machine."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretell.cli import parameters
from foretell.cli.messages import at_times, say

if TYPE_CHECKING:
    from foretell.data.bundles.bundle import Bundle

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
    from foretell.data.bundles.bundle import read_bundle, resolve_bundle
    from foretell.jobs.output import check_stdout

    check_stdout()
    found = read_bundle(resolve_bundle(bundle))
    typer.echo(f"hashes      {len(found.manifest.files)} files are whole")
    provider, difference = _check_sample(found, device, threads)
    typer.echo(
        f"self-check  the answer to the sample holds on {provider} "
        f"(largest difference {difference:.1e})"
    )
    if found.manifest.precision != "fp32":
        typer.echo(
            f"parity      not checked: the graphs were proven in fp32, before they became "
            f"{found.manifest.precision}; what that cost stands in the manifest (training)"
        )
        return
    if importlib.util.find_spec("torch") is None:
        typer.echo("parity      not checked: torch is not installed (extra [train])")
        return
    from foretell.export.build import prove_bundle

    report = prove_bundle(found.path, device=device, progress=at_times(say))
    report.check()
    typer.echo(f"parity      {report}")


def _check_sample(bundle: "Bundle", device: str, threads: int | None) -> tuple[str, float]:
    """Return what computes, and the largest difference to the stored answer."""
    from foretell.runtime import Translator
    from foretell.runtime.forecaster import GRAPH_FILE
    from foretell.runtime.selfcheck import check_sample, check_translator_sample
    from foretell.runtime.session import Session

    if bundle.manifest.translator is not None:
        translator = Translator(bundle, device=device, threads=threads)
        return translator.provider, check_translator_sample(bundle, translator)
    session = Session(bundle, GRAPH_FILE, device=device, threads=threads)
    return session.provider, check_sample(bundle, session)
