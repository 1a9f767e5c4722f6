"""The demo's forecaster: airline passengers of 1949 to 1960, the last year held out."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from foretell.data.errors import ForetellError
from foretell.data.series.options import Columns

if TYPE_CHECKING:
    import pandas as pd

    from foretell.client import Client

MODEL = "air_passengers"
HORIZON = 12

_INTERVALS = (50.0, 80.0, 90.0)


def passengers() -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Read the months before the horizon, and those in it."""
    import pandas as pd

    table = pd.read_csv(
        str(files("foretell.data.series") / "air_passengers.csv"), parse_dates=["ds"]
    )
    return table.iloc[:-HORIZON], table.iloc[-HORIZON:]


def train_forecaster(past: "pd.DataFrame", actual: "pd.DataFrame", run: Path, steps: int) -> None:
    """Train on the past; the horizon is there to be held out."""
    import pandas as pd

    from foretell.cli.progress import training_progress
    from foretell.model.config import ForecasterConfig, TrainingConfig
    from foretell.model.fit import fit_forecaster

    with training_progress() as progress:
        fit_forecaster(
            pd.concat([past, actual]),
            columns=Columns(),
            freq="MS",
            horizon=HORIZON,
            holdout=HORIZON,
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


def ask_forecaster(client: "Client", bundle: Path, past: "pd.DataFrame") -> "pd.DataFrame":
    """Forecast over gRPC and in this process; both answers must be the same.

    Raises:
        ForetellError: They are not.
    """
    from foretell.runtime import load_forecaster

    answer = client.forecast(past, HORIZON, model=MODEL, level=_INTERVALS)
    here = load_forecaster(bundle).forecast(past, HORIZON, level=_INTERVALS)
    if not answer.equals(here):
        raise ForetellError("the server and this process gave different numbers; please report it.")
    return answer


def draw_forecast(
    past: "pd.DataFrame", answer: "pd.DataFrame", actual: "pd.DataFrame", picture: Path
) -> None:
    """Draw the past, the forecast with its intervals, and what happened."""
    from foretell.jobs.pictures.history import pictures
    from foretell.jobs.pictures.plot import draw

    draw(pictures(past, answer, columns=Columns(), actual=actual), picture)


def forecast_report(past: "pd.DataFrame", actual: "pd.DataFrame", answer: "pd.DataFrame") -> str:
    """Lay out the forecast beside what happened, and beside SeasonalNaive."""
    import numpy as np

    from foretell.data.measures.baselines import seasonal_naive
    from foretell.data.measures.metrics import mase, seasonal_scale

    y = past["y"].to_numpy(np.float64)
    truth = actual["y"].to_numpy(np.float64)
    indptr = np.array([0, y.size])
    naive = seasonal_naive(y, indptr, 12, HORIZON).mean[0]
    scale = seasonal_scale(y, indptr, 12)
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
