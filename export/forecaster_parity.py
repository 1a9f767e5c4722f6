"""The forecaster's proof: torch and onnxruntime on a grid of hard inputs, compared.

Differences are measured against each series' own scale, so that a series of 1e12 and one of 1e-12
are held to the same.

Axes: B batch, T context steps, H horizon, Q quantiles.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64

from foretell.export.forecaster import forecaster_inputs
from foretell.export.parity import (
    CaseProgress,
    Difference,
    ParityReport,
    Progress,
    largest_ratio,
    summary,
)
from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster

Run = Callable[[dict[str, np.ndarray]], Float64[np.ndarray, "B H Q"]]

# Written tolerances for float32 weights: `atol` times the series' scale, plus `rtol` times the
# answer's distance from the series' level. A constant series has scale 0: it is met exactly.
ATOL = 1e-4
RTOL = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class ParityCase:
    """One point of the grid.

    Attributes:
        name: What is special about it.
        context: Past values.
        horizon: Steps ahead.
    """

    name: str
    context: Float64[np.ndarray, "B T"]
    horizon: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecasterReport(ParityReport):
    """The proof of a forecaster.

    `atol` is in units of a series' scale, `rtol` relative to the answer's distance from its level.

    Attributes:
        series: Number of series compared.
    """

    series: int

    def _compared(self) -> str:
        return f"{self.comparisons} comparisons of {self.series} series"


def parity_cases(config: ForecasterConfig) -> Iterator[ParityCase]:
    """Yield the grid: batch sizes, context lengths, horizons, gaps, levels and scales."""
    patch, longest = config.patch_length, config.context_length
    lengths = {
        "one step": 1,
        "shorter than a patch": max(1, patch - 1),
        "one patch": patch,
        "odd": patch + patch // 2 + 1,
        "longest": longest,
    }
    rng = np.random.default_rng(20)
    for batch in (1, 2, 7):
        for length_name, length in lengths.items():
            for horizon in (1, patch, 3 * patch + 1):
                yield ParityCase(
                    name=f"batch {batch}, context {length_name}, horizon {horizon}",
                    context=_walks(rng, batch, length),
                    horizon=horizon,
                )
    horizon = patch + 1
    for name, context in _hard_contexts(rng, min(longest, 4 * patch + 1), patch):
        yield ParityCase(name=name, context=context, horizon=horizon)


def _hard_contexts(
    rng: np.random.Generator, length: int, patch: int
) -> Iterator[tuple[str, Float64[np.ndarray, "B T"]]]:
    plain = _walks(rng, 3, length)
    leading, inner, trailing, sparse = (plain.copy() for _ in range(4))
    leading[:, : length // 2] = np.nan
    inner[:, patch : min(length - 1, 3 * patch)] = np.nan
    trailing[:, -patch - 1 :] = np.nan
    sparse[rng.random(sparse.shape) < 0.5] = np.nan
    yield "leading gap", leading
    yield "inner gap", inner
    yield "trailing gap", trailing
    yield "half of the steps missing", sparse
    yield "nothing observed", np.full_like(plain, np.nan)
    yield "constant", np.full_like(plain, 7.25)
    yield "zero", np.zeros_like(plain)
    yield "scale 1e-12", plain * 1e-12
    yield "scale 1e12", plain * 1e12
    yield "scale 1e-90", plain * 1e-90
    yield "scale 1e39", plain * 1e39
    yield "scale 1e90", plain * 1e90
    yield "level 1e9", plain + 1e9
    spike = plain.copy()
    spike[:, length // 2] = 1e6
    yield "spike", spike


def _walks(rng: np.random.Generator, batch: int, length: int) -> Float64[np.ndarray, "B T"]:
    season = np.sin(2 * np.pi * np.arange(length) / 12)
    return 10 + 3 * season + np.cumsum(rng.normal(size=(batch, length)), axis=1)


def compare(
    model: Forecaster,
    runners: Mapping[str, Run],
    *,
    provider: str,
    tool_versions: dict[str, str],
    progress: Progress | None = None,
) -> ForecasterReport:
    """Compare a model with runners of its graph over the whole grid.

    Args:
        model: The trained model.
        runners: Ways from all inputs by name to quantiles, by name.
        provider: Name of the onnxruntime provider that the runners use.
        tool_versions: For the report.
        progress: Called as each case begins.
    """
    found: list[Difference] = []
    series = 0
    cases = list(parity_cases(model.config))
    told = CaseProgress(progress or (lambda _: None), len(cases))
    for number, case in enumerate(cases):
        told.begin(case.name)
        inputs = forecaster_inputs(model.config, case.context, case.horizon, seed=number)
        expected = _torch_answer(model, inputs)
        for name, run in runners.items():
            where = f"{case.name} ({name}), in units of the series' scale"
            found.append(_difference(where, case.context, expected, run(inputs)))
            series += len(case.context)
    return ForecasterReport(
        atol=ATOL,
        rtol=RTOL,
        series=series,
        provider=provider,
        tool_versions=tool_versions,
        **summary(found),
    )


def _torch_answer(model: Forecaster, inputs: dict[str, np.ndarray]) -> Float64[np.ndarray, "B H Q"]:
    with torch.inference_mode():
        answer: np.ndarray = model(**{k: torch.from_numpy(x) for k, x in inputs.items()}).numpy()
    return answer


def _difference(
    where: str,
    context: Float64[np.ndarray, "B T"],
    expected: Float64[np.ndarray, "B H Q"],
    found: Float64[np.ndarray, "B H Q"],
) -> Difference:
    if found.shape != expected.shape or not np.isfinite(found).all():
        return Difference(where, np.inf, np.inf, np.inf)
    observed = ~np.isnan(context)
    count = np.maximum(observed.sum(axis=1), 1)
    level = np.where(observed, context, 0.0).sum(axis=1) / count
    spread = np.where(observed, context - level[:, None], 0.0)
    scale = np.sqrt((spread * spread).sum(axis=1) / count)
    # The mean of a constant series may miss it by a rounding.
    scale = np.where(scale > 1e-12 * np.abs(level), scale, 0.0)[:, None, None]
    difference = np.abs(found - expected)
    distance = np.abs(expected - level[:, None, None])
    allowed = ATOL * scale + RTOL * np.where(scale > 0, distance, 0.0)
    return Difference(
        where,
        largest_ratio(difference, np.broadcast_to(scale, difference.shape)),
        largest_ratio(difference, np.where(scale > 0, distance, 0.0)),
        largest_ratio(difference, allowed),
    )
