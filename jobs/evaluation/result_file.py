"""All numbers of an evaluation as JSON."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from foretell.jobs.evaluation.backtest import Evaluation, SeriesScores
from foretell.jobs.output import replacing


def evaluation_json(found: Evaluation) -> str:
    """Write an evaluation as JSON text.

    A measure that isn't defined is null, since JSON has no NaN; levels and percents are keys.
    Ids are text.
    """
    facts = {
        field.name: getattr(found, field.name)
        for field in dataclasses.fields(found)
        if field.name not in ("scores", "series", "refusals")
    }
    facts["windows"] = [dataclasses.asdict(window) for window in found.windows]
    facts |= {"num_series": found.num_series, "num_windows": found.num_windows}
    refusals = [
        {**dataclasses.asdict(refusal), "unique_id": str(refusal.unique_id)}
        for refusal in found.refusals
    ]
    return json.dumps(
        _plain(
            {
                **facts,
                "refusals": refusals,
                "scores": [dataclasses.asdict(scores) for scores in found.scores],
                "series": _series(found.series, [scores.name for scores in found.scores]),
            }
        ),
        indent=1,
        ensure_ascii=False,
        allow_nan=False,
    )


def write_evaluation(found: Evaluation, target: Path) -> None:
    """Write an evaluation's JSON to a file, whole or not at all."""
    with replacing(target, ".json") as partial:
        partial.write_text(evaluation_json(found) + "\n", encoding="utf-8")


def _series(series: SeriesScores, names: list[str]) -> list[dict[str, Any]]:
    columns = zip(
        series.ids, series.num_windows.tolist(), series.mase.T, series.smape.T, strict=True
    )
    return [
        {
            "unique_id": str(unique_id),
            "num_windows": num_windows,
            "mase": dict(zip(names, mase.tolist(), strict=True)),
            "smape": dict(zip(names, smape.tolist(), strict=True)),
        }
        for unique_id, num_windows, mase, smape in columns
    ]


def _plain(value: object) -> object:
    """Keys of text, null for NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
