"""The pictures of a report that are about one series: history, forecast, and what happened."""

from html import escape

import numpy as np
from jaxtyping import Float64

from foretell.jobs.evaluation.tally import INTERVALS
from foretell.jobs.report.charts import legend_item
from foretell.jobs.report.examples import Example
from foretell.jobs.report.svg import (
    BOTTOM,
    HEIGHT,
    TOP,
    across,
    around,
    band,
    bottom_axis,
    line,
    picture,
    thin,
    time_ticks,
    value_axis,
)
from foretell.jobs.report.tables import plain_number

_LONGEST_ID = 60


def series_legend(examples: tuple[Example, ...]) -> str:
    """Name the lines and bands of the pictures."""
    percents = [
        percent for percent, pair in INTERVALS.items() if set(pair) <= set(examples[0].levels)
    ]
    flat = np.array([7.0, 7.0])
    items = [
        legend_item(line(np.array([2.0, 34.0]), flat, "history"), "history"),
        legend_item(line(np.array([2.0, 34.0]), flat, "line m0"), "median"),
        *(
            legend_item(f'<rect class="band b{percent}" width="36" height="14"/>', f"{percent} %")
            for percent in percents
        ),
        legend_item(
            "".join(f'<circle class="actual" cx="{x}" cy="7" r="2.6"/>' for x in (6, 18, 30)),
            "what happened",
        ),
        legend_item(line(np.array([2.0, 34.0]), flat, "line m1"), "SeasonalNaive"),
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def series_chart(name: str, example: Example) -> str:
    """One series in its last window."""
    shown = str(example.unique_id)
    shown = shown if len(shown) <= _LONGEST_ID else shown[: _LONGEST_ID - 1] + "…"
    times = np.concatenate([example.past_times, example.times])
    numbers, ticks = time_ticks(times)
    low, high = numbers[0], numbers[-1]
    x_axis = across(low, high if high > low else low + 1)
    y_axis = around([example.past, example.actual, example.quantiles, example.naive])
    past = x_axis.place(numbers[: example.past.size])
    ahead = x_axis.place(numbers[example.past.size :])
    cut = (past[-1] + ahead[0]) / 2
    body = [
        value_axis(y_axis),
        f'<line class="cut" x1="{cut:.1f}" x2="{cut:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
        bottom_axis(x_axis, ticks),
        *_bands(example, ahead, y_axis.place(example.quantiles)),
        line(past, y_axis.place(example.past), "history"),
        line(ahead, y_axis.place(example.naive), "line m1"),
        line(ahead, y_axis.place(_median(example)), "line m0"),
        *_dots(ahead, y_axis.place(example.actual)),
    ]
    rank = f"{example.rank}: place {example.place:,} of {example.num_places:,}"
    description = (
        f"Window {example.window}. The model's MASE on this series is "
        f"{plain_number(example.mase, 3)}. "
        f"Last value of the history {_last(example.past)}; at the end of the horizon the median is "
        f"{_median(example)[-1]:.4g}, what happened {_last(example.actual)}, SeasonalNaive "
        f"{example.naive[-1]:.4g}."
    )
    drawn = picture(name, f"Series {shown}, {rank}", description, "".join(body), height=HEIGHT - 14)
    return (
        f'<figure><figcaption><span class="rank">{escape(rank)}</span> '
        f"<b>{escape(shown)}</b> MASE {plain_number(example.mase, 3)}</figcaption>"
        f"{drawn}</figure>"
    )


def _bands(
    example: Example, x: Float64[np.ndarray, " H"], y: Float64[np.ndarray, "H Q"]
) -> list[str]:
    """Intervals, the widest first; of a single step they are bars."""
    if x.size == 1:
        x, y = np.array([x[0] - 3, x[0] + 3]), np.repeat(y, 2, axis=0)
    column = {level: i for i, level in enumerate(example.levels)}
    return [
        band(x, y[:, column[pair[0]]], y[:, column[pair[1]]], f"band b{percent}")
        for percent, pair in sorted(INTERVALS.items(), reverse=True)
        if set(pair) <= set(column)
    ]


def _dots(x: Float64[np.ndarray, " H"], y: Float64[np.ndarray, " H"]) -> list[str]:
    chosen = thin(x.size)
    radius = 2.4 if x.size <= 60 else 1.3
    return [
        f'<circle class="actual" cx="{at_x:.1f}" cy="{at_y:.1f}" r="{radius}"/>'
        for at_x, at_y in zip(x[chosen].tolist(), y[chosen].tolist(), strict=True)
        if np.isfinite(at_y)
    ]


def _median(example: Example) -> Float64[np.ndarray, " H"]:
    median: Float64[np.ndarray, " H"] = example.quantiles[:, example.levels.index(0.5)]
    return median


def _last(values: Float64[np.ndarray, " T"]) -> str:
    known = values[np.isfinite(values)]
    return f"{known[-1]:.4g}" if known.size else "unknown"
