"""`foretell translate`: a line in, its translation out, computed here or by a server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretell.cli import parameters
from foretell.cli.job_progress import job_progress
from foretell.cli.messages import say, say_refused_lines
from foretell.cli.ray_options import RayChoice, absolute
from foretell.data.errors import OptionError
from foretell.jobs.amounts import counted

if TYPE_CHECKING:
    from foretell.jobs.lines.translate import TranslateJob, TranslatePlan, TranslateResult

EXAMPLE = "Example: foretell translate in.txt --model models/ende --beam-size 4 --output out.txt"
_FAILED, _SOME_REFUSED = 1, 3


def translate(
    text: Annotated[
        str, typer.Argument(metavar="FILE", help="Text, a sentence a line, or - for stdin.")
    ],
    model: parameters.Model = None,
    server: parameters.Server = None,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="A line for every line; - is stdout.")
    ] = "-",
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="text|jsonl",
            help="The hypotheses of a line with tabs between, or all that is known as JSON.",
        ),
    ] = "text",
    scores: Annotated[
        bool, typer.Option("--scores", help="Put the score and a tab before each hypothesis.")
    ] = False,
    n_best: Annotated[
        int, typer.Option(metavar="N", help="Hypotheses of each line, the beam's size at most.")
    ] = 1,
    beam_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Hypotheses that are followed; 1 is greedy search. [5; with --sample 1]",
        ),
    ] = None,
    length_penalty: parameters.LengthPenalty = 1.0,
    length_formula: parameters.LengthFormula = "power",
    min_length: Annotated[
        int, typer.Option(metavar="N", help="Least tokens, the end token counted.")
    ] = 0,
    max_length: Annotated[
        int | None,
        typer.Option(metavar="N", help="Most tokens, the end token counted. [from the ratio]"),
    ] = None,
    max_length_ratio: Annotated[
        float, typer.Option(metavar="X", help="Most tokens for each piece of the source ...")
    ] = 2.0,
    max_length_margin: Annotated[int, typer.Option(metavar="N", help="... and besides.")] = 20,
    patience: Annotated[
        float,
        typer.Option(
            metavar="X", help="Stop when X times the beam have ended and none leads; inf: none can."
        ),
    ] = 1.0,
    no_repeat_ngram_size: Annotated[
        int, typer.Option(metavar="N", help="No N tokens in a row come twice; 0 allows all.")
    ] = 0,
    repetition_penalty: Annotated[
        float, typer.Option(metavar="X", help="Factor on log P of tokens that were there already.")
    ] = 1.0,
    ban: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="What may not come; may be given several times."),
    ] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="What every translation starts with.")
    ] = "",
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw at random instead of searching.")
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Of --sample: below 1 keeps closer to the probable, above 1 wider. [1]",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(metavar="K", help="Of --sample: among the K likeliest. [0, all]"),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(metavar="P", help="Of --sample: among the likeliest that hold share P. [1]"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Of --sample: fixes what is drawn. [0]")
    ] = None,
    replace_unknowns: Annotated[
        bool, typer.Option("--replace-unknowns", help="Copy source words for unknown tokens.")
    ] = False,
    truncate: parameters.Truncate = False,
    attention: Annotated[
        bool,
        typer.Option("--attention", help="Put the attention into the JSON; needs --format jsonl."),
    ] = False,
    plot_attention: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw it for the first four sentences: .png, .svg, .pdf."
        ),
    ] = None,
    chunk_lines: Annotated[
        int, typer.Option(metavar="N", min=1, help="Lines translated together.")
    ] = 1024,
    device: parameters.Device = "auto",
    threads: parameters.Threads = None,
    in_flight: parameters.InFlight = None,
    ray: parameters.Ray = None,
    num_workers: parameters.NumWorkers = None,
    resume: parameters.Resume = False,
    overwrite: parameters.Overwrite = False,
    dry_run: parameters.DryRun = False,
) -> None:
    """Translate a text line by line: as many lines out as in, in their order.

    Text is UTF-8. Blank lines stay blank. Lines that can't be translated are left empty and named
    with their reasons on standard error and in OUTPUT.refused.csv; the exit code is then 3. A job
    from a file to a file that was ended in any way goes on with --resume. With --ray many processes
    share the work; text and model stand at the same path on every node.
    """
    from foretell.data.text.translation import TranslateOptions
    from foretell.jobs.lines.translate import TranslateJob, plan_translate_job, run_translate_job

    choice: Any = form
    formula: Any = length_formula
    if attention and form == "text":
        raise OptionError("--attention is an option of --format jsonl; give both, or neither.")
    on_ray = RayChoice.of(ray, num_workers, output=output, source=text)
    job = TranslateJob(
        source=absolute(text, on_ray),
        options=TranslateOptions(
            n_best=n_best,
            length_penalty=length_penalty,
            length_formula=formula,
            min_length=min_length,
            max_length=max_length,
            max_length_ratio=max_length_ratio,
            max_length_margin=max_length_margin,
            patience=patience,
            no_repeat_ngram_size=no_repeat_ngram_size,
            repetition_penalty=repetition_penalty,
            banned=tuple(ban or ()),
            prefix=prefix,
            replace_unknowns=replace_unknowns,
            attention=attention,
            truncate_source=truncate,
            **_drawing(
                sample,
                beam_size=beam_size,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                seed=seed,
            ),
        ),
        output=None if output == "-" else Path(absolute(output, on_ray)),
        form=choice,
        scores=scores,
        plot=plot_attention,
        chunk_lines=chunk_lines,
        resume=resume,
        overwrite=overwrite,
    )
    open_door = parameters.translator_door(model, server, device, threads, in_flight, on_ray)
    if dry_run:
        _preview(job, plan_translate_job(job, open_door))
        return
    with job_progress("lines", on_stdout=job.output is None) as progress:
        result = run_translate_job(job, open_door, tell=progress)
    _report(job, result)


def _drawing(sample: bool, *, beam_size: int | None, **own: Any) -> dict[str, Any]:
    """Take what was given (not None) of the options that belong to drawing at random.

    Raises:
        OptionError: Some were given without --sample.
    """
    given = {name: value for name, value in own.items() if value is not None}
    if given and not sample:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        belong = "is an option" if len(given) == 1 else "are options"
        raise OptionError(f"{names} {belong} of --sample; give that too, or leave it out.")
    return given | {
        "sample": sample,
        "beam_size": (1 if sample else 5) if beam_size is None else beam_size,
    }


def _preview(job: "TranslateJob", plan: "TranslatePlan") -> None:
    """Tell what the job would do."""
    where = "standard output" if job.output is None else job.output
    if plan.was_complete:
        say(f"{where} is complete; nothing would be done.")
        return
    text = "the lines of a text that can be read only once"
    if plan.num_lines is not None:
        left = plan.num_lines - plan.num_done
        chunks = counted(-(-left // job.chunk_lines), "chunk")
        text = f"{counted(left, 'line')} in {chunks} of at most {job.chunk_lines:,}"
    say(f"would translate {text}, by {plan.where} -> {where}")
    if plan.num_done:
        say(f"{counted(plan.num_done, 'line')} more done already.")


def _report(job: "TranslateJob", result: "TranslateResult") -> None:
    """Tell what became of the job, and set the exit code."""
    done = result.done
    num_answered = done.num_lines - done.num_refused
    if result.was_complete:
        told = f"{job.output} is complete already: {counted(done.num_lines, 'line')}"
        if done.num_refused and not num_answered:
            told = "an earlier run has refused every line"
        say(f"{told}; nothing done.")
    elif num_answered or not done.num_refused:
        say(_success(job, result, num_answered))
    if done.num_truncated:
        lines = counted(done.num_truncated, "line")
        named = ", ".join(f"{number:,}" for number in done.truncated)
        more = done.num_truncated - len(done.truncated)
        say(
            f"{lines} cut, not translated to the end: "
            f"{named}{f' and {more:,} more; --format jsonl marks them all' if more else ''}"
        )
    if job.plot is not None and not (result.num_drawn or result.was_complete):
        say(f"warning: {job.plot} is not drawn: no line with words in it was translated")
    if done.num_refused:
        say_refused_lines(done, job.refused_file)
        raise typer.Exit(_SOME_REFUSED if num_answered else _FAILED)


def _success(job: "TranslateJob", result: "TranslateResult", num_answered: int) -> str:
    summary = result.done.summary
    earlier = result.done.num_lines - summary.num_items
    told = f"{counted(num_answered, 'line')} translated by {result.where}"
    told += f" in {summary.text('lines')}"
    told += f", {earlier:,} of them in earlier runs" if earlier else ""
    written = [job.output, job.plot if result.num_drawn else None]
    names = [str(path) for path in written if path is not None]
    return told + (f" -> {', '.join(names)}" if names else "")
