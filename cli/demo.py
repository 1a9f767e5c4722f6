"""`foretell demo`: the whole way from a table to an answer over gRPC, in under two minutes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretell.cli.export import parity_line
from foretell.cli.messages import say
from foretell.data.errors import ForetellError
from foretell.data.options import Columns

if TYPE_CHECKING:
    import pandas as pd

EXAMPLE = "Example: foretell demo --output demo"

_HORIZON = 12
_INTERVALS = (50.0, 80.0, 90.0)
_MODEL = "air_passengers"


def demo(
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for everything the demo makes.")
    ] = Path("demo"),
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Training steps.")] = 600,
) -> None:
    """Take the tour: train, export, serve, ask over gRPC, draw.

    The series are the monthly airline passengers of 1949 to 1960; the last year is held out. What
    an earlier demo left in the folder is replaced. Needs the extras [train,plot].
    """
    import pandas as pd

    from foretell.jobs.output import check_stdout
    from foretell.jobs.plot import check_plot

    picture = output / "forecast.png"
    check_plot(picture)
    check_stdout()
    output.mkdir(parents=True, exist_ok=True)
    table = pd.read_csv(
        str(files("foretell.data.series") / "air_passengers.csv"), parse_dates=["ds"]
    )
    past, actual = table.iloc[:-_HORIZON], table.iloc[-_HORIZON:]
    say(f"1/4 training on {len(past)} months; the {_HORIZON} after them are held out")
    _train(table, output / "run", steps)
    say("2/4 exporting to ONNX, and comparing with torch")
    _export(output / "run", output / "models" / _MODEL / "1")
    say("3/4 serving, and asking over gRPC")
    answer = _ask(output / "models", past)
    answer.to_csv(output / "forecast.csv", index=False, lineterminator="\n")
    say(f"4/4 drawing {picture}")
    _draw(past, answer, actual, picture)
    typer.echo(_report(past, actual, answer))


def _train(table: "pd.DataFrame", run: Path, steps: int) -> None:
    import torch

    from foretell.cli.progress import training_progress
    from foretell.model.config import ForecasterConfig, TrainingConfig
    from foretell.model.fit import fit_forecaster

    # So small a model is trained faster by one thread than by several that wait for each other.
    torch.set_num_threads(1)
    with training_progress() as progress:
        fit_forecaster(
            table,
            columns=Columns(),
            freq="MS",
            horizon=_HORIZON,
            holdout=_HORIZON,
            model=ForecasterConfig(
                patch_length=12, context_length=96, d_model=64, num_layers=3, num_heads=4, d_ff=128
            ),
            training=TrainingConfig(
                steps=steps, batch_size=32, warmup_steps=min(50, steps), validation=False
            ),
            run=run,
            overwrite=True,
            progress=progress,
        )


def _export(run: Path, bundle: Path) -> None:
    from foretell.export.build import export_run

    report = export_run(run, bundle, overwrite=True)
    say(f"    parity holds: {parity_line(report)}")


def _ask(models: Path, past: "pd.DataFrame") -> "pd.DataFrame":
    from foretell.client import Client
    from foretell.runtime import load_forecaster

    with _server(models) as address, Client(address) as client:
        answer = client.forecast(past, _HORIZON, level=_INTERVALS)
    here = load_forecaster(models / _MODEL).forecast(past, _HORIZON, level=_INTERVALS)
    if not answer.equals(here):
        raise ForetellError("the server and this process gave different numbers; please report it.")
    say(f"    {address} answered; in this process the numbers are the same to the last bit")
    return answer


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


def _draw(
    past: "pd.DataFrame", answer: "pd.DataFrame", actual: "pd.DataFrame", picture: Path
) -> None:
    from foretell.jobs.history import pictures
    from foretell.jobs.plot import draw

    draw(pictures(past, answer, columns=Columns(), actual=actual), picture)


def _report(past: "pd.DataFrame", actual: "pd.DataFrame", answer: "pd.DataFrame") -> str:
    import numpy as np

    from foretell.data.baselines import seasonal_naive
    from foretell.data.metrics import mase, seasonal_scale

    y = past["y"].to_numpy(np.float64)
    truth = actual["y"].to_numpy(np.float64)
    naive = seasonal_naive(y, 12, _HORIZON)
    scale = seasonal_scale(y, np.array([0, y.size]), 12)
    lines = [f"{'month':<9}{'actual':>8}{'forecast':>10}{'q0.1':>8}{'q0.9':>8}{'naive':>8}"]
    for step, row in enumerate(answer.itertuples(index=False)):
        low, high = answer["q0.1"].iloc[step], answer["q0.9"].iloc[step]
        lines.append(
            f"{row.ds:%Y-%m}  {truth[step]:>8.0f}{row.forecast:>10.1f}{low:>8.1f}{high:>8.1f}"
            f"{naive[step]:>8.0f}"
        )
    ours = mase(truth[None], answer["forecast"].to_numpy()[None], scale)[0]
    theirs = mase(truth[None], naive[None], scale)[0]
    lines.append(f"MASE: foretell {ours:.3f}, SeasonalNaive {theirs:.3f}")
    return "\n".join(lines)
