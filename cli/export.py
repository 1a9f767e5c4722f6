"""`foretell export`: from a training run to a bundle that is proven to compute the same."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretell.cli import parameters
from foretell.cli.messages import at_times, say

if TYPE_CHECKING:
    from foretell.export.parity import ParityReport

EXAMPLE = "Example: foretell export runs/demand --output models/demand/1"


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that foretell train wrote.")],
    output: Annotated[
        Path,
        typer.Option(metavar="PATH", help="Where the bundle shall stand: models/NAME/VERSION."),
    ],
    precision: Annotated[
        str, typer.Option(metavar="fp32", help="Precision of the weights: fp32.")
    ] = "fp32",
    overwrite: parameters.Overwrite = False,
) -> None:
    """Export a trained model to ONNX, and prove parity.

    The graph and the runtime around it are compared with torch over a grid of batches, lengths,
    gaps and scales; without that proof no bundle is written. Needs the extra [train].
    """
    from foretell.export.build import export_run

    report = export_run(
        run, output, precision=precision, overwrite=overwrite, progress=at_times(say)
    )
    say(f"parity holds: {parity_line(report)} -> {output}")


def parity_line(report: "ParityReport") -> str:
    """Sum up a proof that holds."""
    return (
        f"{report.comparisons} comparisons of {report.series} series use at most "
        f"{report.used:.1%} of what is allowed (rtol {report.rtol:g}, atol {report.atol:g})"
    )
