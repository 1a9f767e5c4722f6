"""What `foretell export --precision int8` measures on: held-out data, read before any work."""

from typing import TYPE_CHECKING

from foretell.cli.messages import say
from foretell.data.errors import OptionError

if TYPE_CHECKING:
    from foretell.data.bundles.bundle import Bundle
    from foretell.data.series.options import Columns
    from foretell.export.gate import Gate, Measured
    from foretell.model.run import ForecasterRun


def translator_gate(data: str | None, valid_src: str | None, valid_tgt: str | None) -> "Gate":
    """Read the text on which a translator is measured.

    Raises:
        OptionError: Other data was given, or none, or too little.
        TextError: The files can't be read, or don't belong together.
    """
    from foretell.data.text.lines import check_sources, read_parallel
    from foretell.export.gate import Gate, Measured, check_held_out
    from foretell.jobs.evaluation.held_out import translator_values
    from foretell.jobs.evaluation.translation_quality import check_sacrebleu

    if data or not (valid_src and valid_tgt):
        raise OptionError(
            "a translator in int8 is measured on text that it has not learned from: give "
            "--valid-src FILE and --valid-tgt FILE, 200 lines or more, and no --data."
        )
    check_sacrebleu()
    check_sources(valid_src, valid_tgt)
    pairs = list(read_parallel([valid_src, valid_tgt]))
    src, tgt = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    check_held_out(sum(1 for text in src if text.strip()))

    def measure(bundle: "Bundle") -> "Measured":
        count, values = translator_values(bundle, src, tgt)
        return Measured(num_held_out=count, values=values)

    return Gate(measure)


def forecaster_gate(
    run: "ForecasterRun", data: str | None, text: str | None, columns: "Columns"
) -> "Gate":
    """Read the series on whose last steps a forecaster is measured.

    Raises:
        OptionError: Other data was given, or none, or too little.
        TableError: The table can't be read.
    """
    from foretell.data.tables.reading import read_table
    from foretell.export.gate import Gate, Measured, check_held_out
    from foretell.jobs.evaluation.held_out import forecaster_values

    if text or not data:
        raise OptionError(
            "a forecaster in int8 is measured on series whose ends it has not seen: give --data "
            "DATA with 200 series or more, and no text; their last horizon is forecast."
        )
    table = read_table(data, columns=columns)
    if columns.unique_id in table:  # else the measuring says what is missing
        check_held_out(table[columns.unique_id].nunique())
    if run.training.get("holdout", 0) < run.spec.horizon:
        say(
            f"warning: the run held out fewer steps (train --holdout) than its horizon of "
            f"{run.spec.horizon}; unless DATA goes on after what it was trained on, both float32 "
            "and int8 are measured on steps that it has seen."
        )

    def measure(bundle: "Bundle") -> "Measured":
        count, values = forecaster_values(bundle, table, columns)
        return Measured(num_held_out=count, values=values)

    return Gate(measure)
