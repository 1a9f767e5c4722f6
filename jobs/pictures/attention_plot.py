"""A picture of attention: what a translator looked at, source across, translation down.

Axes: n pieces of the target, S pieces of the source.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from foretell.data.text.translation import Translation
from foretell.jobs.output import replacing

MAX_PANELS = 4
_INK, _MUTED = "#1f2933", "#7b8794"
_TINTS = ("#f6f9fc", "#b9d8ec", "#5ea3cf", "#0b69a3", "#06304d")
_CELL, _WIDEST = 0.27, 11.0  # inches: the side of a cell, and of the longest side of a panel
_GAP, _MARGIN, _BAR = 0.45, 0.3, 0.5
_TITLE, _AXIS = 0.3, 0.22  # inches: the heights of a title and of an axis' name
_NAME = 0.65  # inches: the length of the longer name
_LETTER = 0.075  # inches: the width of a letter of the title, about
_POINTS = 72  # an inch
_INSIDE = "·"  # stands before a piece that doesn't start a word


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttentionPicture:
    """What is drawn of one sentence.

    Attributes:
        title: The sentence; a long one is cut.
        source_tokens: Pieces of the source; U+2581 stands before those that start a word.
        target_tokens: Pieces of the translation.
        weights: How much each target piece looked at each source piece.
    """

    title: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: Float[np.ndarray, "n S"]

    @classmethod
    def of(cls, translation: Translation, title: str) -> "AttentionPicture | None":
        """Take the best hypothesis; None where it has no attention or no words."""
        best = translation.hypotheses[0]
        if best.attention is None or not best.attention.size:
            return None
        return cls(
            title=title,
            source_tokens=translation.source_tokens,
            target_tokens=best.tokens,
            weights=best.attention,
        )


@dataclass(frozen=True, slots=True)
class _Panel:
    """A picture with its measures in inches."""

    picture: AttentionPicture
    cell: float
    font_points: float
    left: float
    top: float

    @classmethod
    def of(cls, picture: AttentionPicture) -> "_Panel":
        cell = min(_CELL, _WIDEST / max(picture.weights.shape))
        font_points = max(2.5, min(9.0, 0.55 * cell * _POINTS))
        left, top = (
            0.1 + 0.62 * font_points / _POINTS * max(len(_label(token)) for token in tokens)
            for tokens in (picture.target_tokens, picture.source_tokens)
        )
        title = _TITLE if picture.title else 0
        return cls(picture, cell, font_points, _AXIS + left, _AXIS + title + top)

    @property
    def width(self) -> float:
        return max(self.left + self.cell * len(self.picture.source_tokens), _LETTER * 36)

    @property
    def title(self) -> str:
        title, most = self.picture.title, int(self.width / _LETTER)
        return title if len(title) <= most else title[: most - 1].rstrip() + "…"

    @property
    def height(self) -> float:
        return self.top + max(self.cell * len(self.picture.target_tokens), _NAME)


def draw_attention(pictures: Sequence[AttentionPicture], target: Path) -> None:
    """Draw up to four sentences, a panel each, and write the picture whole or not at all."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415  (the extra [plot])
    from matplotlib.figure import Figure  # noqa: PLC0415

    panels = [_Panel.of(picture) for picture in pictures[:MAX_PANELS]]
    rows = [panels[i : i + 2] for i in range(0, len(panels), 2)]
    heights = [max(panel.height for panel in row) for row in rows]
    columns = zip_longest(*rows)
    widths = [max(panel.width for panel in column if panel is not None) for column in columns]
    width = 2 * _MARGIN + sum(widths) + _GAP * (len(widths) - 1)
    height = 2 * _MARGIN + sum(heights) + _GAP * (len(heights) - 1) + _BAR
    figure = Figure(figsize=(width, height))
    colors = LinearSegmentedColormap.from_list("attention", _TINTS)
    y, image = height - _MARGIN, None
    for row, row_height in zip(rows, heights, strict=True):
        x = _MARGIN
        for panel, column_width in zip(row, widths, strict=False):
            box = _box(x + panel.left, y - panel.top, panel, width, height)
            image = _draw_panel(figure.add_axes(box), panel, colors)
            x += column_width + _GAP
        y -= row_height + _GAP
    bar_width = min(2.0, width - 2 * _MARGIN)
    bar = (
        (width - _MARGIN - bar_width) / width,
        (_MARGIN + 0.12) / height,
        bar_width / width,
        0.08 / height,
    )
    _draw_bar(figure, image, bar)
    if any(_label(token).startswith(_INSIDE) for panel in panels for token in _tokens(panel)):
        figure.text(
            *(_MARGIN / width, bar[1]),
            f"{_INSIDE} before a piece that goes on with a word",
            fontsize=8,
            color=_MUTED,
        )
    with replacing(target, target.suffix) as partial, warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes; nobody can do anything about it.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(partial, dpi=160, facecolor="white")


def _box(
    x: float, y: float, panel: _Panel, width: float, height: float
) -> tuple[float, float, float, float]:
    """Place a panel's cells below y: left, bottom, width and height as shares of the figure."""
    num_rows, num_columns = panel.picture.weights.shape
    return (
        x / width,
        (y - num_rows * panel.cell) / height,
        num_columns * panel.cell / width,
        num_rows * panel.cell / height,
    )


def _tokens(panel: _Panel) -> tuple[str, ...]:
    return panel.picture.source_tokens + panel.picture.target_tokens


def _label(token: str) -> str:
    """A word's first piece as it reads, if it has letters, and a dot before any other."""
    if token == "\u2581":
        return token
    text = token.removeprefix("\u2581") if token.startswith("\u2581") else f"{_INSIDE}{token}"
    return text if len(text) <= 20 else text[:19] + "…"


def _draw_panel(axes: Any, panel: _Panel, colors: Any) -> Any:
    picture = panel.picture
    num_rows, num_columns = picture.weights.shape
    image = axes.pcolormesh(
        np.arange(num_columns + 1),
        np.arange(num_rows + 1),
        picture.weights,
        cmap=colors,
        vmin=0,
        vmax=1,
        edgecolors="white",
        linewidth=min(1.2, 4 * panel.cell),
    )
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    text: dict[str, Any] = {"fontsize": panel.font_points, "color": _INK, "parse_math": False}
    axes.set_xticks(
        np.arange(num_columns) + 0.5,
        [_label(token) for token in picture.source_tokens],
        rotation=90,
        **text,
    )
    axes.set_yticks(
        np.arange(num_rows) + 0.5, [_label(token) for token in picture.target_tokens], **text
    )
    axes.tick_params(length=0, pad=3)
    axes.spines[:].set_visible(False)
    _write_names(axes, panel)
    return image


def _write_names(axes: Any, panel: _Panel) -> None:
    """Write the title and what lies along the axes, in the room that the panel has for them."""
    title = _TITLE if panel.picture.title else 0
    left, top = -panel.left * _POINTS, panel.top * _POINTS
    place: dict[str, Any] = {
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "va": "top",
        "parse_math": False,
    }
    small = {"color": _MUTED, "fontsize": 8}
    axes.annotate(
        panel.title, (0, 1), xytext=(left, top), ha="left", color=_INK, fontsize=9, **place
    )
    axes.annotate("source", (0, 1), xytext=(0, top - title * _POINTS), ha="left", **small, **place)
    axes.annotate("translation", (0, 1), xytext=(left, 0), ha="left", rotation=90, **small, **place)


def _draw_bar(figure: Any, image: Any, box: tuple[float, float, float, float]) -> None:
    axes = figure.add_axes(box)
    bar = figure.colorbar(image, cax=axes, orientation="horizontal", ticks=[0, 1])
    bar.outline.set_visible(False)
    bar.ax.set_xticklabels(["0", "1"])
    bar.ax.tick_params(length=0, labelsize=8, colors=_MUTED, pad=3)
    bar.ax.set_title("attention", fontsize=8, color=_MUTED, pad=3)
