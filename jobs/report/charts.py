"""The pictures of a report that are about all series: by step, calibration, distribution."""

from collections.abc import Sequence
from html import escape

import numpy as np
from jaxtyping import Float64, Int64

from foretell.jobs.evaluation.backtest import MODEL, Evaluation
from foretell.jobs.evaluation.rivals import BASELINES, SEASONAL_NAIVE
from foretell.jobs.evaluation.tally import Scores
from foretell.jobs.report.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    across,
    around,
    bottom_axis,
    line,
    marks,
    number_ticks,
    picture,
    tick_text,
    upward,
    value_axis,
    whole_ticks,
)

_STYLES = (MODEL, *BASELINES)
_MARKED_STEPS = 7
_MOST_BINS, _FEWEST_BINS = 24, 8
_SHOWN_SHARE = 0.975  # of the series; the others stand in the last bar


def legend(names: Sequence[str]) -> str:
    """Name the lines of all methods, each with its dashes and its mark."""
    items = []
    for name in names:
        style = _STYLES.index(name)
        sample = line(np.array([2.0, 34.0]), np.array([7.0, 7.0]), f"line m{style}")
        sign = marks(np.array([18.0]), np.array([7.0]), style, f"mark m{style}")
        items.append(legend_item(sample + sign, name))
    return f'<ul class="legend">{"".join(items)}</ul>'


def legend_item(sample: str, name: str) -> str:
    """A sample of a line, 36 by 14 units, and what it is."""
    return (
        f'<li><svg class="key" viewBox="0 0 36 14" aria-hidden="true">{sample}</svg>'
        f"{escape(name)}</li>"
    )


def step_chart(
    name: str,
    title: str,
    found: Evaluation,
    values: Sequence[Sequence[float]],
    *,
    aim: float | None = None,
) -> str:
    """One measure by step ahead, a line a method.

    Args:
        name: Id of the picture.
        title: The measure.
        found: The evaluation.
        values: By method, in the order of the scores, then by step; empty for a method without it.
        aim: What would be ideal, where that isn't 0; the measure is a share then.
    """
    steps = np.arange(1, found.horizon + 1, dtype=np.float64)
    lines = [np.array(of, dtype=np.float64) for of in values]
    if aim is None:
        y_axis = around(lines, with_zero=True)
    else:
        low = min([aim, *(float(np.nanmin(of)) for of in lines if np.isfinite(of).any())])
        y_axis = upward(max(0.0, low - 0.1), 1.0)
    x_axis = across(1, max(found.horizon, 2))
    body = [value_axis(y_axis, as_percent=aim is not None)]
    if aim is not None:
        body.append(_aim(float(y_axis.place(aim))))
    body.append(bottom_axis(x_axis, whole_ticks(1, found.horizon), "steps ahead"))
    chosen = np.unique(np.linspace(0, found.horizon - 1, _MARKED_STEPS).round().astype(np.int64))
    for scores, of in reversed(list(zip(found.scores, lines, strict=True))):
        if of.size:
            x, y_places = x_axis.place(steps), y_axis.place(of)
            body.append(_method(scores.name, x, y_places, chosen))
    told = "; ".join(
        f"{scores.name} from {tick_text(of[0], 1e-3)} to {tick_text(of[-1], 1e-3)}"
        for scores, of in zip(found.scores, lines, strict=True)
        if of.size and np.isfinite(of[[0, -1]]).all()
    )
    return _figure(name, title, f"From the first step ahead to the last: {told}.", body)


def calibration_chart(name: str, found: Evaluation) -> str:
    """How often actual values lie below a quantile, against how often they should."""
    x_axis, y_axis = across(0, 1), upward(0, 1)
    ticks = [(tick / 4, f"{25 * tick} %") for tick in range(5)]
    body = [value_axis(y_axis, as_percent=True), bottom_axis(x_axis, ticks, "quantile level")]
    corner = np.array([0.0, 1.0])
    body.append(line(x_axis.place(corner), y_axis.place(corner), "aim"))
    for scores in reversed(found.scores):
        x = x_axis.place(np.array(list(scores.below)))
        y = y_axis.place(np.array(list(scores.below.values())))
        body.append(_method(scores.name, x, y, np.arange(0, x.size, 2)))
    told = "; ".join(
        f"{100 * share:.0f} % at or below q{level:g}"
        for level, share in found.scores[0].below.items()
    )
    return _figure(
        name,
        "Actual values at or below each quantile",
        f"A method on the diagonal keeps what it promises. The model: {told}.",
        body,
    )


def hits_chart(name: str, scores: Scores) -> str:
    """How often actual values fall between neighbouring quantiles, over how often they should."""
    edges = np.array([0.0, *scores.below, 1.0])
    shares = np.diff([0.0, *scores.below.values(), 1.0])
    ratio = shares / np.diff(edges)
    finite = np.where(np.isfinite(ratio), ratio, 0.0)
    x_axis, y_axis = across(0, 1), upward(0, max(2.0, float(finite.max()) * 1.08))
    ticks = [(tick / 4, f"{25 * tick} %") for tick in range(5)]
    body = [value_axis(y_axis), bottom_axis(x_axis, ticks, "between these quantiles")]
    for left, right, height in zip(edges[:-1], edges[1:], finite, strict=True):
        body.append(_bar(x_axis.place(left), x_axis.place(right), y_axis.place(height)))
    body.append(_aim(float(y_axis.place(1.0))))
    told = "; ".join(
        f"{100 * low:.0f} to {100 * high:.0f} %: {height:.2f}"
        for low, high, height in zip(edges[:-1], edges[1:], finite, strict=True)
    )
    return _figure(
        name,
        f"Where actual values fall ({scores.name}): 1 is as often as promised",
        f"Share of actual values between neighbouring quantiles over its promised share. {told}.",
        body,
    )


def distribution_chart(name: str, found: Evaluation) -> str:
    """How the model's MASE is spread over the series, beside a baseline's."""
    shown = [0, beside(found)]
    mase = found.series.mase[shown]
    every = mase[np.isfinite(mase)]
    high = float(np.quantile(every, _SHOWN_SHARE)) if every.size else 1.0
    bins = int(np.clip(2 * np.sqrt(every.size / 2), _FEWEST_BINS, _MOST_BINS))
    edges = np.linspace(0.0, high or 1.0, bins + 1)
    counts = [_counts(own[np.isfinite(own)], edges) for own in mase]
    places = np.append(edges, edges[-1] * (bins + 1) / bins)
    x_axis = across(0.0, float(places[-1]))
    # Five at least, so that no tick is a part of a series.
    y_axis = upward(0.0, max(5.0, 1.06 * max(float(own.max()) for own in counts)))
    ticks = number_ticks(across(0.0, float(edges[-1])), 5)
    body = [value_axis(y_axis), bottom_axis(x_axis, ticks, "MASE of a series")]
    for left, right, count in zip(places[:-1], places[1:], counts[0], strict=True):
        body.append(_bar(x_axis.place(left), x_axis.place(right), y_axis.place(count)))
    for own in counts[1:]:
        x, y = np.repeat(x_axis.place(places), 2)[1:-1], np.repeat(y_axis.place(own), 2)
        body.append(line(x, y, f"line m{_STYLES.index(found.scores[shown[1]].name)} whole"))
    told = "; ".join(
        f"{scores.name}: median {np.median(own[np.isfinite(own)]):.3g}"
        for scores, own in zip((found.scores[i] for i in shown), mase, strict=True)
        if np.isfinite(own).any()
    )
    beyond = int(counts[0][-1])
    return _figure(
        name,
        "Number of series by their MASE",
        f"{told}. {beyond:,} series of the model lie beyond {edges[-1]:.3g}, in the last bar.",
        body,
    )


def beside(found: Evaluation) -> int:
    """The method that the model is told beside: SeasonalNaive, or else the first baseline."""
    names = [scores.name for scores in found.scores]
    return names.index(SEASONAL_NAIVE) if SEASONAL_NAIVE in names else 1


def _method(
    name: str,
    x: Float64[np.ndarray, " T"],
    y: Float64[np.ndarray, " T"],
    marked: Int64[np.ndarray, " k"],
) -> str:
    style = _STYLES.index(name)
    drawn = line(x, y, f"line m{style}")
    return drawn + marks(x[marked], y[marked], style, f"mark m{style}")


def _counts(
    values: Float64[np.ndarray, " n"], edges: Float64[np.ndarray, " b"]
) -> Float64[np.ndarray, " b"]:
    """Values a bin; the last bin holds all beyond the edges."""
    inside = np.histogram(values, edges)[0].astype(np.float64)
    return np.append(inside, values.size - inside.sum())


def _aim(y: float) -> str:
    return f'<line class="aim" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _bar(left: object, right: object, top: object) -> str:
    x, end, y = float(np.asarray(left)), float(np.asarray(right)), float(np.asarray(top))
    base = HEIGHT - BOTTOM
    return (
        f'<rect class="bar" x="{x + 0.5:.1f}" y="{max(y, TOP):.1f}" '
        f'width="{max(end - x - 1, 0.5):.1f}" height="{max(base - y, 0):.1f}"/>'
    )


def _figure(name: str, title: str, description: str, body: Sequence[str]) -> str:
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f"{picture(name, title, description, ''.join(body))}</figure>"
    )
