"""`foretell export`: from a training run to a bundle that is proven to compute the same."""

from pathlib import Path
from typing import Annotated

import typer

from foretell.cli import parameters
from foretell.cli.messages import by_stage, say
from foretell.data.errors import OptionError

EXAMPLE = "Example: foretell export runs/demand --output models/demand/1"


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that foretell train wrote.")],
    output: Annotated[
        Path,
        typer.Option(metavar="PATH", help="Where the bundle shall stand: models/NAME/VERSION."),
    ],
    precision: Annotated[
        str, typer.Option(metavar="fp32|int8", help="Precision of the weights.")
    ] = "fp32",
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="int8: series whose last steps the run was not given."),
    ] = None,
    valid_src: Annotated[
        str | None, typer.Option(metavar="FILE", help="int8: text that the run did not learn from.")
    ] = None,
    valid_tgt: Annotated[
        str | None, typer.Option(metavar="FILE", help="int8: its translation, line for line.")
    ] = None,
    id_col: parameters.IdCol = "unique_id",
    time_col: parameters.TimeCol = "ds",
    target_col: parameters.TargetCol = "y",
    overwrite: parameters.Overwrite = False,
) -> None:
    """Export a trained model to ONNX, and prove parity.

    The graphs and the runtime around them are compared with torch over a grid of batches, lengths,
    gaps and scales, or of sentences and searches; without that proof no bundle is written. int8
    weights (a quarter of the size, faster on a CPU) are written only if float32 and int8, both
    measured on held-out data, are all but equally good. Needs the extra [train]; int8 translators
    need [evaluate], too.
    """
    from foretell.cli.export_gate import forecaster_gate, translator_gate
    from foretell.data.series.options import Columns
    from foretell.export.build import export_run
    from foretell.model.run import TranslatorRun, read_run

    gate = None
    if precision == "int8":
        trained = read_run(run)
        if isinstance(trained, TranslatorRun):
            gate = translator_gate(data, valid_src, valid_tgt)
        else:
            columns = Columns(unique_id=id_col, ds=time_col, y=target_col)
            gate = forecaster_gate(trained, data, valid_src or valid_tgt, columns)
    elif data or valid_src or valid_tgt:
        raise OptionError("--data, --valid-src and --valid-tgt are for --precision int8.")
    report = export_run(
        run, output, precision=precision, gate=gate, overwrite=overwrite, progress=by_stage(say)
    )
    if gate is not None:
        for line in gate.lines():
            say(line)
        say(f"int8 holds: {gate}")
    say(f"parity holds: {report} -> {output}")
