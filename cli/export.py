"""`foretell export`: from a training run to a bundle that is proven to compute the same."""

from pathlib import Path
from typing import Annotated

import typer

from foretell.cli import parameters
from foretell.cli.messages import by_stage, say

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

    The graphs and the runtime around them are compared with torch over a grid of batches, lengths,
    gaps and scales, or of sentences and searches; without that proof no bundle is written. Needs
    the extra [train].
    """
    from foretell.export.build import export_run

    report = export_run(
        run, output, precision=precision, overwrite=overwrite, progress=by_stage(say)
    )
    say(f"parity holds: {report} -> {output}")
