"""A picture of forecasts: history, median and intervals, one panel a series."""

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from foretell.data.errors import ForetellError, OptionError
from foretell.jobs.output import replacing

MAX_PANELS = 6
_ENDINGS = (".png", ".svg", ".pdf")
_INK, _MUTED, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_HISTORY, _FORECAST, _ACTUAL = "#3e4c59", "#0b69a3", "#d64545"


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesPicture:
    """What is drawn of one series. Times are datetime64 or whole numbers.

    Attributes:
        title: The series' id.
        past_times: Times of the history.
        past: History, NaN where unobserved.
        times: Times of the horizon.
        quantile_levels: Rising levels.
        quantiles: One column a level.
        forecast: The median.
        actual: What happened over the horizon, if known.
    """

    title: str
    past_times: Shaped[np.ndarray, " T"]
    past: Float64[np.ndarray, " T"]
    times: Shaped[np.ndarray, " H"]
    quantile_levels: tuple[float, ...]
    quantiles: Float64[np.ndarray, "H Q"]
    forecast: Float64[np.ndarray, " H"]
    actual: Float64[np.ndarray, " H"] | None = None


def check_plot(target: Path) -> None:
    """Refuse a picture that can't be drawn, before any work is done.

    Raises:
        OptionError: The ending is none of .png, .svg, .pdf.
        ForetellError: matplotlib is not installed.
    """
    if target.suffix not in _ENDINGS:
        raise OptionError(f"{target}: a picture must end in {', '.join(_ENDINGS)}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise ForetellError(
            "drawing needs matplotlib, which is not installed; pip install 'foretell[plot]'."
        )


def draw(pictures: Sequence[SeriesPicture], target: Path) -> None:
    """Draw up to six series, one panel each, and write the picture whole or not at all."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (the extra [plot])

    shown = pictures[:MAX_PANELS]
    num_columns = 1 if len(shown) == 1 else 2
    num_rows = -(-len(shown) // num_columns)
    figure = Figure(
        figsize=(9.5 if num_columns == 1 else 13, 0.9 + (3.3 if num_rows == 1 else 2.9) * num_rows),
        layout="constrained",
    )
    panels = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    for panel, picture in zip(panels, shown, strict=False):
        _draw_panel(panel, picture)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(labels),
        frameon=False,
        labelcolor=_INK,
        fontsize=9,
    )
    if len(pictures) > MAX_PANELS:
        note = f"the first {MAX_PANELS} of {len(pictures):,} series"
        figure.suptitle(note, color=_MUTED, fontsize=9)
    with replacing(target, target.suffix) as partial, warnings.catch_warnings():
        # An id in a script that the font lacks is drawn as boxes; nobody can do anything about it.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(partial, dpi=160, facecolor="white")


def _draw_panel(panel: Any, picture: SeriesPicture) -> None:
    panel.axvline(picture.times[0], color=_GRID, lw=1, zorder=0)
    panel.plot(picture.past_times, picture.past, color=_HISTORY, lw=1.3, label="history")
    # The lines and bands start at the last known value, so that no gap stands at the boundary.
    known = np.flatnonzero(~np.isnan(picture.past))[-1:]
    times = np.concatenate([picture.past_times[known], picture.times])
    start = picture.past[known]
    for lower, upper, percent in _intervals(picture):
        # Opaque tints, so that a band looks the same in the legend as over a wider one.
        strength = 0.1 + 0.55 * (1 - percent / 100)
        panel.fill_between(
            times,
            np.concatenate([start, lower]),
            np.concatenate([start, upper]),
            color=_tint(_FORECAST, strength),
            lw=0,
            label=f"{percent:g} % interval",
        )
    median = np.concatenate([start, picture.forecast])
    panel.plot(times, median, color=_FORECAST, lw=1.9, label="median forecast")
    if picture.actual is not None:
        panel.plot(
            picture.times, picture.actual, color=_ACTUAL, lw=0, marker="o", ms=3.2, label="actual"
        )
    _style(panel, picture)


def _tint(color: str, strength: float) -> tuple[float, ...]:
    """Mix a colour with white."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return tuple(1 - strength * (1 - part) for part in parts)


def _intervals(
    picture: SeriesPicture,
) -> list[tuple[Float64[np.ndarray, " H"], Float64[np.ndarray, " H"], float]]:
    """Pairs of levels that stand evenly around the median, the widest first."""
    column = {round(level, 9): i for i, level in enumerate(picture.quantile_levels)}
    return [
        (
            picture.quantiles[:, i],
            picture.quantiles[:, column[round(1 - level, 9)]],
            round(100 * (1 - 2 * level), 6),
        )
        for level, i in sorted(column.items())
        if level < 0.5 and round(1 - level, 9) in column
    ]


def _style(panel: Any, picture: SeriesPicture) -> None:
    from matplotlib import dates  # noqa: PLC0415

    # A `$` would start a formula, and a very long id would squeeze the panel.
    title = picture.title if len(picture.title) <= 60 else picture.title[:59] + "…"
    panel.set_title(title, loc="left", color=_INK, fontsize=11, fontweight="bold", parse_math=False)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.spines["bottom"].set_color(_GRID)
    panel.grid(axis="y", color=_GRID, lw=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(colors=_MUTED, labelsize=9, length=0)
    panel.margins(x=0.01)
    if np.issubdtype(picture.times.dtype, np.datetime64):
        locator = dates.AutoDateLocator(minticks=4, maxticks=8)  # type: ignore[no-untyped-call]
        formatter = dates.ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(formatter)
