"""A panel of series through the forecaster's graph.

Axes: N steps of all series together, n series, B batch, b series of a part of it, L context length,
C columns, H horizon, Q quantile levels asked for, R those trained.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float64, Int64

from foretell.data.bundles.bundle import ForecasterSpec
from foretell.data.series.panel import Panel
from foretell.runtime.batching import (
    Batch,
    fill_rows,
    gather_context,
    largest_batch,
    plan_batches,
)
from foretell.runtime.devices import CPU_PROVIDER
from foretell.runtime.quantiles import at_levels
from foretell.runtime.search.stopping import Stop
from foretell.runtime.session import Session

# Tokens of a batch: on a CPU what its caches hold, on a GPU what fills it.
_MAX_TOKENS = 2_048
_MAX_TOKENS_GPU = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Series of one panel that run with others.

    Attributes:
        panel: The series, and more.
        series: Their positions in it.
    """

    panel: Panel
    series: Int64[np.ndarray, " b"]


@dataclass(frozen=True, slots=True, eq=False)
class Quantiles:
    """What is found for the series of a panel.

    Attributes:
        levels: Quantile levels inside the trained range.
        values: Quantiles in data units.
        seen: Whether the model saw any observed value of a series: it looks at the last
            `spec.context_length` steps only.
    """

    levels: tuple[float, ...]
    values: Float64[np.ndarray, "n H Q"]
    seen: Bool[np.ndarray, " n"]

    @classmethod
    def empty(cls, panel: Panel, horizon: int, levels: Sequence[float]) -> "Quantiles":
        """Make room for the answers to a panel."""
        count = len(panel.ids)
        return cls(
            tuple(levels),
            np.empty((count, horizon, len(levels))),
            np.empty(count, dtype=bool),
        )

    def put(
        self,
        series: Int64[np.ndarray, " b"],
        trained: Float64[np.ndarray, "b H R"],
        seen: Bool[np.ndarray, " b"],
        spec: ForecasterSpec,
    ) -> None:
        """Note the answers for some series, given at the trained levels."""
        self.values[series] = at_levels(trained, spec.quantile_levels, self.levels)
        self.seen[series] = seen


def input_names(spec: ForecasterSpec) -> list[str]:
    """Name the inputs of a forecaster's graph in their order; covariates only where it has them."""
    names = ["context", "horizon_placeholder"]
    if spec.future_covariates or spec.past_covariates:
        names.append("context_covariates")
    if spec.future_covariates:
        names.append("horizon_covariates")
    if spec.static:
        names.append("static")
    return names


def forecast_quantiles(
    session: Session,
    spec: ForecasterSpec,
    panel: Panel,
    horizon: int,
    levels: Sequence[float],
    *,
    stop: Stop | None = None,
) -> tuple[Float64[np.ndarray, "n H Q"], Bool[np.ndarray, " n"]]:
    """Forecast every series of a panel, each as if it were alone.

    Args:
        session: The forecaster's graph.
        spec: What the forecaster was trained for.
        panel: The series.
        horizon: Steps ahead, H.
        levels: Quantile levels inside the trained range.
        stop: Ends the runs when set.

    Returns:
        The quantiles in data units, and what the model saw; as in `Quantiles`.

    Raises:
        StoppedError: `stop` was set before the end.
    """
    found = Quantiles.empty(panel, horizon, levels)

    def answer(batch: Batch) -> None:
        part = Part(panel, batch.series)
        ((trained, seen),) = run_parts(
            session, spec, [part], batch.context_length, horizon, stop=stop
        )
        found.put(batch.series, trained, seen, spec)

    session.for_each(answer, plan_panel(session, spec, panel, horizon))
    return found.values, found.seen


def plan_panel(
    session: Session, spec: ForecasterSpec, panel: Panel, horizon: int
) -> Iterator[Batch]:
    """Sort the series of a panel into batches."""
    return plan_batches(
        np.diff(panel.indptr),
        horizon,
        context_length=spec.context_length,
        patch_length=spec.patch_length,
        max_tokens=_max_tokens(session),
        parts=session.threads,
    )


def series_room(session: Session, spec: ForecasterSpec, context_length: int, horizon: int) -> int:
    """How many series of a context length a batch has room for."""
    return largest_batch(context_length, horizon, spec.patch_length, _max_tokens(session))


def run_parts(
    session: Session,
    spec: ForecasterSpec,
    parts: Sequence[Part],
    context_length: int,
    horizon: int,
    *,
    stop: Stop | None = None,
) -> list[tuple[Float64[np.ndarray, "_b _H _R"], Bool[np.ndarray, " _b"]]]:
    """Run the graph once on the series of several panels.

    Args:
        session: The forecaster's graph.
        spec: What the forecaster was trained for.
        parts: The series, at least one.
        context_length: Steps that each is cut or padded to.
        horizon: Steps ahead.
        stop: Ends the run when set.

    Returns:
        For each part, quantiles at the trained levels, and whether anything was seen of a series.

    Raises:
        StoppedError: `stop` was set before the end.
    """
    each = [_inputs(spec, part, context_length, horizon) for part in parts]
    seen = [~np.isnan(inputs["context"]).all(axis=1) for inputs in each]
    inputs = each[0]
    if len(each) > 1:  # a panel alone, as in a job, is copied for nothing
        inputs = {name: np.concatenate([one[name] for one in each]) for name in inputs}
    count = sum(map(len, seen))
    rows = fill_rows(np.arange(count), spec.patch_length)
    if len(rows) > count:
        inputs = {name: array[rows] for name, array in inputs.items()}
    # Quantiles rise by construction; a rounding in the last bit must not make them fall.
    trained = np.maximum.accumulate(session.run(inputs, stop=stop)["quantiles"], axis=-1)
    ends = np.cumsum([len(one) for one in seen])
    return [
        (trained[end - len(one) : end], one) for end, one in zip(ends.tolist(), seen, strict=True)
    ]


def _max_tokens(session: Session) -> int:
    return _MAX_TOKENS if session.provider == CPU_PROVIDER else _MAX_TOKENS_GPU


def _inputs(
    spec: ForecasterSpec, part: Part, context_length: int, horizon: int
) -> dict[str, np.ndarray]:
    panel, series = part.panel, part.series
    past = partial(
        gather_context, indptr=panel.indptr, series=series, context_length=context_length
    )
    inputs = {
        "context": past(panel.target[:, None])[..., 0],
        # Nothing is known of the horizon; its length travels as this input's shape.
        "horizon_placeholder": np.full((len(series), horizon), np.nan),
        "context_covariates": past(panel.context_covariates),
        "horizon_covariates": panel.horizon_covariates[series],
        "static": panel.static[series],
    }
    return {name: inputs[name] for name in input_names(spec)}
