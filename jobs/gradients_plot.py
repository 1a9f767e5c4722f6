"""A picture of gradients through time: norms by lag above, singular values below.

Axes: L lags, H hidden width.
"""

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
_LEAST = 1e-12  # what lies below isn't worth a place


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
    from matplotlib.figure import Figure  # noqa: PLC0415  (the extra [plot])
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    pictures = pictures[:MAX_PANELS]
    measured = any(picture.norms is not None for picture in pictures)
    across = min(_ACROSS, len(pictures))
    bands = -(-len(pictures) // across)
    heights = [3.0, 2.2] if measured else [2.6]
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
        _add_legend(figure, axes[0, 0])
    with replacing(target, target.suffix) as partial:
        figure.savefig(partial, dpi=160, facecolor="white")


def _limits(curves: Sequence[NormCurves]) -> tuple[float, float]:
    """One scale for all panels; bounds may leave it, they grow beyond all paper."""
    low = min((float(curve.low.min()) for curve in curves), default=0.1)
    high = max((float(curve.high.max()) for curve in curves), default=1.0)
    return max(low, _LEAST) / 3, max(high, 1.0) * 10


def _draw_norms(panel: Any, picture: GradientPicture, limits: tuple[float, float]) -> None:
    _style(panel, picture.title, picture.note)
    if picture.norms is None:
        panel.set_axis_off()
        return
    curves = picture.norms
    panel.set_yscale("log")
    panel.set_ylim(*limits)
    panel.axhline(1.0, color=_MUTED, lw=0.8, zorder=1)
    label = "10 % to 90 % of the sentences"
    panel.fill_between(curves.lags, curves.low, curves.high, color=_BAND, lw=0, label=label)
    panel.plot(
        curves.lags, curves.bound, color=_BOUND, lw=1.3, ls=(0, (1, 1.2)), label="bound by λ₁"
    )
    panel.plot(curves.lags, curves.line, color=_INK, lw=1.0, ls=(0, (5, 3)), label="fitted rate")
    dots = "o" if len(curves.lags) <= _MOST_DOTS else None
    panel.plot(
        curves.lags, curves.mean, color=_NORM, lw=2, marker=dots, ms=3.2, label="geometric mean"
    )
    panel.set_xlabel("lag  t − k", color=_MUTED, fontsize=9)
    panel.set_ylabel("‖∂hₜ / ∂hₖ‖", color=_MUTED, fontsize=9)
    panel.margins(x=0.02)


def _draw_singular_values(panel: Any, picture: GradientPicture, *, titled: bool) -> None:
    _style(panel, picture.title if titled else "", picture.note if titled else "")
    panel.axhline(1.0, color=_MUTED, lw=0.8, zorder=1)
    for (gate, values), color in zip(picture.singular_values.items(), _GATES, strict=False):
        ranks = np.arange(1, len(values) + 1)
        panel.plot(ranks, values, color=color, lw=1.6, label=f"{gate}  λ₁ {values[0]:.2f}")
    largest = max(float(values[0]) for values in picture.singular_values.values())
    panel.set_ylim(0, 1.08 * max(1.9, largest))  # room for the legend over flat values
    panel.margins(x=0.02)
    panel.set_xlabel("rank", color=_MUTED, fontsize=9)
    panel.set_ylabel("singular values of W", color=_MUTED, fontsize=9)
    panel.legend(frameon=False, fontsize=8, labelcolor=_INK, handlelength=1.2, loc="upper right")


def _style(panel: Any, title: str, note: str) -> None:
    if title:
        panel.set_title(title, loc="left", color=_INK, fontsize=11, fontweight="bold", pad=22)
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
    panel.xaxis.get_major_locator().set_params(integer=True)


def _add_legend(figure: Any, panel: Any) -> None:
    """Explain the curves once for all panels."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(labels),
        frameon=False,
        labelcolor=_INK,
        fontsize=9,
    )
