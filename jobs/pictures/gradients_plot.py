"""A picture of gradients through time: norms by lag above, singular values below.

Axes: L lags, H hidden width.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from foretell.jobs.output import replacing

MAX_PANELS = 12
_ACROSS = 3
_MOST_DOTS = 40
_INK, _MUTED, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_NORM, _BAND, _BOUND = "#0b69a3", "#cfe3f1", "#d64545"
_GATES = ("#0b69a3", "#e8833a", "#3a9188", "#8c5fb2")
_LEAST = 1e-16  # what lies below is lost in a sum with 1
_LEAST_ROOM = 2.0  # decades for a bound above the norms
_MOST_POWERS, _MOST_COUNTS = 7, 8  # names on an axis


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NormCurves:
    """Norms of ∂h_t/∂h_k by lag, over sentences.

    Attributes:
        lags: t - k, from 1.
        mean: Geometric mean.
        low: Lower end of the band.
        high: Upper end of the band.
        bound: What the singular values allow.
        line: The fitted rate.
    """

    lags: Float64[np.ndarray, " L"]
    mean: Float64[np.ndarray, " L"]
    low: Float64[np.ndarray, " L"]
    high: Float64[np.ndarray, " L"]
    bound: Float64[np.ndarray, " L"]
    line: Float64[np.ndarray, " L"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GradientPicture:
    """What is drawn of one recurrent layer.

    Attributes:
        title: Which layer it is.
        note: What the curves say, in a few words.
        norms: None where nothing was measured.
        singular_values: Of each gate's recurrent weights, falling.
    """

    title: str
    note: str
    norms: NormCurves | None
    singular_values: Mapping[str, Float64[np.ndarray, " H"]]


def draw_gradients(pictures: Sequence[GradientPicture], target: Path) -> None:
    """Draw layers side by side, and write the picture whole or not at all."""
    figure = gradients_figure(pictures)
    with replacing(target, target.suffix) as partial:
        figure.savefig(partial, dpi=160, facecolor="white")


def gradients_figure(pictures: Sequence[GradientPicture]) -> Any:
    """Lay out the panels of the first layers in a figure of matplotlib."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (the extra [plot])
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    pictures = pictures[:MAX_PANELS]
    measured = any(picture.norms is not None for picture in pictures)
    across = min(_ACROSS, len(pictures))
    bands = -(-len(pictures) // across)
    heights = [3.0, 2.4] if measured else [2.8]
    figure = Figure(
        figsize=(0.6 + 3.9 * across, 0.7 + bands * sum(heights) * 1.08),
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1),
    )
    axes = figure.subplots(
        bands * len(heights), across, squeeze=False, height_ratios=heights * bands
    )
    limits = _limits([picture.norms for picture in pictures if picture.norms is not None])
    for place in range(bands * across):
        row, column = place // across * len(heights), place % across
        panels = [axes[row + i, column] for i in range(len(heights))]
        if place >= len(pictures):
            for panel in panels:
                panel.set_axis_off()
            continue
        picture = pictures[place]
        if measured:
            _draw_norms(panels[0], picture, limits)
        _draw_singular_values(panels[-1], picture, titled=not measured)
    if measured:
        first = next(i for i, picture in enumerate(pictures) if picture.norms is not None)
        panel = axes[first // across * len(heights), first % across]
        _add_legend(figure, panel, most_columns=5 if across == _ACROSS else 3)
    return figure


def _limits(curves: Sequence[NormCurves]) -> tuple[float, float]:
    """One scale for all panels: 1, the norms, and as much for bounds, which may grow beyond all."""
    low = min((float(curve.low.min()) for curve in curves), default=0.1)
    high = max((float(curve.high.max()) for curve in curves), default=1.0)
    low, high = min(max(low, _LEAST), 1.0), min(max(high, 1.0), 1 / _LEAST)
    room = max(_LEAST_ROOM, 1.3 * math.log10(high / low))
    bound = max((float(curve.bound.max()) for curve in curves), default=1.0)
    return low / 3, 3 * max(high, min(bound, high * 10**room))


def _draw_norms(panel: Any, picture: GradientPicture, limits: tuple[float, float]) -> None:
    _style(panel, picture.title, picture.note)
    if picture.norms is None:
        panel.set_axis_off()
        return
    curves = picture.norms
    panel.set_yscale("log")
    panel.set_ylim(*limits)
    _name_powers(panel, limits)
    panel.axhline(1.0, color=_MUTED, lw=0.8, zorder=1, label="1, size is kept")
    label = "10 % to 90 % of the sentences"
    panel.fill_between(curves.lags, curves.low, curves.high, color=_BAND, lw=0, label=label)
    label = "bound by λ₁, the largest singular value"
    panel.plot(curves.lags, curves.bound, color=_BOUND, lw=1.3, ls=(0, (1, 1.2)), label=label)
    panel.plot(curves.lags, curves.line, color=_INK, lw=1.0, ls=(0, (5, 3)), label="fitted rate")
    dots = "o" if len(curves.lags) <= _MOST_DOTS else None
    panel.plot(
        curves.lags, curves.mean, color=_NORM, lw=2, marker=dots, ms=3.2, label="geometric mean"
    )
    _tell_end(panel, curves.bound, limits, _BOUND, least_left=0.74)
    _tell_end(panel, curves.mean, limits, _NORM, least_left=0.3)
    panel.set_xlabel("lag  t − k", color=_MUTED, fontsize=9)
    panel.set_ylabel("‖∂hₜ / ∂hₖ‖", color=_MUTED, fontsize=9)
    _name_counts(panel, len(curves.lags))


def _tell_end(
    panel: Any,
    values: Float64[np.ndarray, " L"],
    limits: tuple[float, float],
    color: str,
    *,
    least_left: float,
) -> None:
    """Say where a curve that leaves the panel ends.

    Args:
        panel: Where the curve is drawn.
        values: The curve.
        limits: Of the panel.
        color: Of the curve.
        least_left: Share of the width from which on the words stand left of the place, not right.
    """
    outside = np.flatnonzero((values < limits[0]) | (values > limits[1]))
    if not len(outside):
        return
    above = bool(values[outside[0]] > limits[1])
    left = outside[0] > least_left * len(values)
    panel.annotate(
        f"ends at {_power(float(values[-1]))}",
        (1.0 + outside[0], limits[above]),
        xytext=(-18 if left else 4, -3 if above else 3),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top" if above else "bottom",
        color=color,
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )


def _power(value: float) -> str:
    """Round to a power of ten, as mathematics writes it."""
    return f"$10^{{{round(math.log10(value))}}}$" if value > 0 else "0"


def _name_powers(panel: Any, limits: tuple[float, float]) -> None:
    """Name powers of ten, 1 among them, at even distances."""
    first, last = math.ceil(math.log10(limits[0])), math.floor(math.log10(limits[1]))
    step = max(1, -(-(last - first) // (_MOST_POWERS - 1)))
    powers = [power for power in range(first, last + 1) if power % step == 0]
    plain = min(powers) >= -2 and max(powers) <= 2
    names = [f"{10.0**power:g}" if plain or power == 0 else f"$10^{{{power}}}$" for power in powers]
    panel.set_yticks([10.0**power for power in powers], names)
    panel.minorticks_off()


def _name_counts(panel: Any, count: int) -> None:
    """Name 1 and round numbers up to the last on an axis that counts from 1."""
    steps = (step * 10**power for power in range(9) for step in (1, 2, 5))
    step = next(step for step in steps if count <= step * _MOST_COUNTS)
    counts = [1, *range(step, count + 1, step)] if step > 2 else range(1, count + 1, step)
    panel.set_xticks(sorted(set(counts)))
    margin = 0.02 * max(1, count - 1)
    panel.set_xlim(1 - margin, count + margin)


def _draw_singular_values(panel: Any, picture: GradientPicture, *, titled: bool) -> None:
    _style(panel, picture.title if titled else "", "", pad=30)
    panel.axhline(1.0, color=_MUTED, lw=0.8, zorder=1)
    for (gate, values), color in zip(picture.singular_values.items(), _GATES, strict=False):
        ranks = np.arange(1, len(values) + 1)
        label = f"{gate}, λ₁ = {values[0]:.2f}"
        panel.plot(ranks, values, color=color, lw=1.6, marker="o", ms=4, markevery=[0], label=label)
    count = max(len(values) for values in picture.singular_values.values())
    largest = max(float(values[0]) for values in picture.singular_values.values())
    panel.set_ylim(0, 1.08 * max(1.25, largest))
    panel.set_xlabel("rank of the singular value, λ₁ first", color=_MUTED, fontsize=9)
    panel.set_ylabel("singular values of W", color=_MUTED, fontsize=9)
    panel.yaxis.get_major_locator().set_params(nbins=5)
    _name_counts(panel, count)
    panel.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=2,
        frameon=False,
        fontsize=8,
        labelcolor=_INK,
        handlelength=1.2,
        columnspacing=1.2,
        borderaxespad=0.2,
        borderpad=0,
    )


def _style(panel: Any, title: str, note: str, *, pad: int = 22) -> None:
    if title:
        panel.set_title(title, loc="left", color=_INK, fontsize=11, fontweight="bold", pad=pad)
        noted = panel.annotate(
            note,
            (0, 1),
            xytext=(0, 7),
            xycoords="axes fraction",
            textcoords="offset points",
            color=_MUTED,
            fontsize=9,
        )
        noted.set_in_layout(False)  # or a long note would make its panel narrow
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.spines["bottom"].set_color(_GRID)
    panel.grid(axis="y", color=_GRID, lw=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(colors=_MUTED, labelsize=9, length=0, which="both")


def _add_legend(figure: Any, panel: Any, *, most_columns: int) -> None:
    """Explain the curves once for all panels."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(most_columns, len(labels)),
        frameon=False,
        labelcolor=_INK,
        fontsize=9,
    )
