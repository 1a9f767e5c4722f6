"""`foretell score`: how probable given translations are."""

from pathlib import Path
from typing import Annotated, Any

import typer

from foretell.cli import parameters
from foretell.cli.job_progress import job_progress
from foretell.cli.messages import say, say_refused_lines
from foretell.jobs.amounts import counted

EXAMPLE = "Example: foretell score --src a.en --tgt a.de --model models/ende --output scores.txt"
_FAILED, _SOME_REFUSED = 1, 3


def score(
    src: Annotated[
        str, typer.Option(metavar="FILE", help="Text, a sentence a line, or - for stdin.")
    ],
    tgt: Annotated[str, typer.Option(metavar="FILE", help="Its translations, line for line.")],
    model: parameters.Model = None,
    server: parameters.Server = None,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="A line for every pair; - is stdout.")
    ] = "-",
    form: Annotated[
        str,
        typer.Option("--format", metavar="text|jsonl", help="The number, or all that is known."),
    ] = "text",
    device: parameters.Device = "auto",
    threads: parameters.Threads = None,
    overwrite: parameters.Overwrite = False,
) -> None:
    """Score translations: log P(y|x), a line each, the end of the sentence included.

    Pairs that can't be scored are left empty and named with their reasons on standard error and in
    OUTPUT.refused.csv; the exit code is then 3.
    """
    from foretell.jobs.lines.score import ScoreJob, run_score_job

    choice: Any = form
    job = ScoreJob(
        src=src,
        tgt=tgt,
        output=None if output == "-" else Path(output),
        form=choice,
        overwrite=overwrite,
    )
    open_door = parameters.translator_door(model, server, device, threads)
    with job_progress("pairs", on_stdout=job.output is None) as progress:
        done, where = run_score_job(job, open_door, tell=progress)
    num_answered = done.num_lines - done.num_refused
    if num_answered or not done.num_refused:
        written = "" if job.output is None else f" -> {job.output}"
        took = done.summary.text("pairs")
        say(f"{counted(num_answered, 'pair')} scored by {where} in {took}{written}")
    if done.num_refused:
        say_refused_lines(done, job.refused_file)
        raise typer.Exit(_SOME_REFUSED if num_answered else _FAILED)
