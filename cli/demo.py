"""`foretell demo`: the whole way from data to answers over gRPC, in under three minutes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from foretell.cli import demo_forecaster, demo_translator
from foretell.cli.messages import say
from foretell.data.errors import ForetellError

EXAMPLE = "Example: foretell demo --output demo"


def demo(
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for everything the demo makes.")
    ] = Path("demo"),
    steps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Training steps of the forecaster.")
    ] = 600,
    translator_steps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Training steps of the translator.")
    ] = 400,
) -> None:
    """Take the tour: train, export, serve, ask over gRPC, draw.

    A forecaster learns the monthly airline passengers of 1949 to 1960, the last year held out; a
    translator learns numbers in English and German words. What an earlier demo left in the folder
    is replaced. Needs the extras [train,plot].
    """
    from foretell.client import Client
    from foretell.jobs.output import check_stdout
    from foretell.jobs.pictures.plot import check_plot

    pictures = output / "forecast.png", output / "attention.png"
    check_plot(pictures[0])
    check_stdout()
    output.mkdir(parents=True, exist_ok=True)
    _use_one_thread()
    past, actual = demo_forecaster.passengers()
    known, unknown = demo_translator.number_words()
    say(f"1/5 training a forecaster on {len(past)} months; the {len(actual)} after are held out")
    demo_forecaster.train_forecaster(past, actual, output / "runs" / "forecaster", steps)
    say(f"2/5 training a translator on {len(known):,} numbers in English and German words")
    demo_translator.train_translator(known, output / "runs" / "translator", translator_steps)
    say("3/5 exporting both to ONNX, and comparing with torch")
    models = output / "models"
    passengers, numbers = models / demo_forecaster.MODEL, models / demo_translator.MODEL
    _export(output / "runs" / "forecaster", passengers / "1")
    _export(output / "runs" / "translator", numbers / "1")
    say("4/5 serving both, and asking over gRPC")
    with _server(models) as address, Client(address) as client:
        forecast = demo_forecaster.ask_forecaster(client, passengers, past)
        translations = demo_translator.ask_translator(client, numbers, unknown)
    say(f"    {address} answered; in this process the answers are the same to the last bit")
    forecast.to_csv(output / "forecast.csv", index=False, lineterminator="\n")
    say(f"5/5 drawing {pictures[0]} and {pictures[1]}")
    demo_forecaster.draw_forecast(past, forecast, actual, pictures[0])
    demo_translator.draw_translations(unknown, translations, pictures[1])
    typer.echo(demo_forecaster.forecast_report(past, actual, forecast))
    typer.echo("\n" + demo_translator.translation_report(unknown, translations))


def _use_one_thread() -> None:
    """Models so small are trained faster by one thread than by several that wait for each other."""
    import torch

    torch.set_num_threads(1)


def _export(run: Path, bundle: Path) -> None:
    from foretell.export.build import export_run

    report = export_run(run, bundle, overwrite=True)
    say(f"    parity holds: {report}")


@contextmanager
def _server(models: Path) -> Iterator[str]:
    """Run `foretell serve` on a free port; hand out its address."""
    command = [sys.executable, "-m", "foretell.cli.main", "serve", str(models)]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            log = ""
            while "listening on " not in log:
                line = process.stderr.readline() if process.stderr else ""
                if not line:
                    raise ForetellError(f"the server did not start: {log}")
                log += line
            yield log.split("listening on ")[1].strip()
        finally:
            process.terminate()
