"""`foretell evaluate translator`: BLEU and chrF, with the signatures that make them comparable."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretell.cli import parameters
from foretell.cli.messages import at_times, say
from foretell.data.errors import OptionError, TextError
from foretell.jobs.amounts import counted

if TYPE_CHECKING:
    from foretell.jobs.evaluation.translation_quality import Quality

EXAMPLE = (
    "Example: foretell evaluate translator --src test.en --ref test.de --model models/ende "
    "--beam-size 1,5"
)
_FAILED, _SOME_REFUSED = 1, 3


def translator(
    src: Annotated[
        str, typer.Option(metavar="FILE", help="Text, a sentence a line, or - for stdin.")
    ],
    ref: Annotated[
        list[str],
        typer.Option(metavar="FILE", help="Its translation by people; may be given several times."),
    ],
    model: parameters.Model = None,
    server: parameters.Server = None,
    beam_size: Annotated[
        str,
        typer.Option(metavar="N,N,...", help="Sizes to compare; 1 is greedy search."),
    ] = "5",
    length_penalty: parameters.LengthPenalty = 1.0,
    length_formula: parameters.LengthFormula = "power",
    truncate: parameters.Truncate = False,
    device: parameters.Device = "auto",
    threads: parameters.Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Translate a text, and compare with how people translated it.

    BLEU and chrF are sacreBLEU's; scores are comparable where their signatures are the same. exact
    is the share of translations equal to a reference. Needs the extra [evaluate].
    """
    from foretell.data.text.lines import check_sources, read_parallel, source_name
    from foretell.data.text.translation import TranslateOptions
    from foretell.jobs.evaluation.translation_quality import check_sacrebleu, evaluate_translator
    from foretell.jobs.output import check_stdout

    check_stdout()
    check_sacrebleu()
    formula: Any = length_formula
    options = [
        TranslateOptions(
            beam_size=size,
            length_penalty=length_penalty,
            length_formula=formula,
            truncate_source=truncate,
        )
        for size in _sizes(beam_size)
    ]
    open_door = parameters.translator_door(model, server, device, threads)
    check_sources(src, *ref)
    pairs = list(read_parallel([src, *ref]))
    if not pairs:
        raise TextError(f"{source_name(src)} has no lines; give sentences and their translations.")
    texts, *references = zip(*pairs, strict=True)
    with open_door() as door:
        found = evaluate_translator(
            texts, references, door, options, tell=at_times(say, at_once=False)
        )
    typer.echo(json.dumps(dataclasses.asdict(found), indent=2) if as_json else quality_table(found))
    if found.num_refused:
        lines = counted(found.num_sentences, "line")
        say(f"{found.num_refused:,} of {lines} refused, so left empty:")
        for line in found.refused:
            say(f"  {line}")
        raise typer.Exit(_SOME_REFUSED if found.num_refused < found.num_sentences else _FAILED)


def quality_table(found: "Quality") -> str:
    """Lay out the scores for people."""
    sentences = counted(found.num_sentences, "sentence")
    references = counted(found.num_references, "reference")
    lines = [
        f"{sentences}, {references} each, translated by {found.where}",
        f"{'':<10}{'BLEU lc':>9}{'BLEU mixed':>12}{'chrF':>8}{'exact':>9}{'sentences/s':>13}",
    ]
    lines += [
        f"{scores.name:<10}{scores.bleu_lc:>9.2f}{scores.bleu_mixed:>12.2f}{scores.chrf:>8.2f}"
        f"{scores.exact:>9.1%}{scores.sentences_per_s:>13.1f}"
        for scores in found.scores
    ]
    lines += [f"{name:<12}{signature}" for name, signature in found.signatures.items()]
    return "\n".join(lines)


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(
            f"--beam-size is {text!r}; give whole numbers, separated by commas, such as 1,5."
        ) from None
