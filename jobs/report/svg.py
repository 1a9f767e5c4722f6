"""Pictures as SVG text: scales, ticks, axes and lines, styled by the page they stand on.

A picture is 380 units wide, which is about a phone; the page lets it grow. Colours come from the
page's style sheet by class, so one picture serves light and dark. Lines of different methods differ
in dashes and marks too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float64, Int64, Shaped

WIDTH, HEIGHT = 380, 230
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 14, 36
_MOST_POINTS = 1_000
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_UNITS = ("", "k", "M", "G", "T")
_DAY = 86_400
_HOURS = (3_600, 10_800, 21_600, 43_200)
_SECONDS = (1, 5, 15, 30, 60, 300, 900, 1_800, *_HOURS, *(n * _DAY for n in (1, 2, 5, 7, 14, 21)))
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A straight scale from values to places.

    Attributes:
        low: Value at `start`.
        high: Value at `end`.
        start: Place in the picture.
        end: Place in the picture.
    """

    low: float
    high: float
    start: float
    end: float

    def place(self, values: Shaped[np.ndarray, "..."] | float) -> Float64[np.ndarray, "..."]:
        """Where values stand."""
        share = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        places: Float64[np.ndarray, ...] = self.start + share * (self.end - self.start)
        return places


def across(low: float, high: float) -> Axis:
    """The axis along the bottom."""
    return Axis(low=low, high=high, start=LEFT, end=WIDTH - RIGHT)


def upward(low: float, high: float) -> Axis:
    """The axis at the left; values that are all one get some room around them."""
    if not high > low:
        room = abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    return Axis(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP)


def around(values: Iterable[Float64[np.ndarray, "..."]], *, with_zero: bool = False) -> Axis:
    """The axis at the left for all of some values, with a little room; NaN counts nothing."""
    every = np.concatenate([np.ravel(own) for own in values])
    every = every[np.isfinite(every)]
    low, high = (float(every.min()), float(every.max())) if every.size else (0.0, 1.0)
    room = 0.06 * (high - low)
    if with_zero and low >= 0:
        return upward(0.0, high + room if high else 1.0)
    return upward(low - room, high + room)


def round_ticks(low: float, high: float, most: int) -> tuple[list[float], float]:
    """Round numbers between two values, at most so many, and their distance."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)], step


def tick_text(value: float, step: float, largest: float | None = None) -> str:
    """Write a tick with the digits that tell it from its neighbours: 0.25, 40, 1.5M.

    Args:
        value: The tick.
        step: Its distance to the next.
        largest: The largest tick of the axis, so that all have one unit.
    """
    size = max(abs(value), step) if largest is None else largest
    if size < 1e-4 or size >= 1e15:
        return "0" if value == 0 else f"{value:.3g}"
    unit = min(int(math.log10(size) // 3), len(_UNITS) - 1) if size >= 10_000 else 0
    scaled, of_step = value / 1000.0**unit, step / 1000.0**unit
    decimals = max(0, math.ceil(-math.log10(of_step) - 1e-9))
    if decimals and round(of_step * 10**decimals, 6) % 1:  # 0.25 needs one more than its size says
        decimals += 1
    decimals += 1 if not decimals and of_step % 1 else 0
    text = f"{scaled:,.{decimals}f}{_UNITS[unit]}"
    return "0" if value == 0 else text.replace("-", "−")


def value_axis(axis: Axis, *, as_percent: bool = False) -> str:
    """Lines across the picture with their values."""
    ticks, step = round_ticks(axis.low, axis.high, 6)
    times = ""
    if as_percent:
        texts = [f"{100 * tick:.0f} %" for tick in ticks]
    else:
        largest = max([step, *map(abs, ticks)])
        power = 3 * math.floor(math.log10(largest) / 3)
        # Very large and very small numbers are written over a power of ten, told once.
        unit = 1.0 if -3 <= power < 15 else 10.0**power
        texts = [tick_text(tick / unit, step / unit, largest / unit) for tick in ticks]
        if unit != 1:
            times = f'<text class="tick" x="2" y="{TOP}">× 1e{power}</text>'
    return times + "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        for y, text in zip(axis.place(np.array(ticks)), texts, strict=True)
    )


def bottom_axis(axis: Axis, ticks: Sequence[tuple[float, str]], title: str = "") -> str:
    """Values along the bottom, and what they are; without a title the picture may be lower."""
    base = HEIGHT - BOTTOM
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>']
    for value, text in ticks:
        x = float(axis.place(value))
        anchor = "middle"
        if x + 3.4 * len(text) > WIDTH:
            anchor = "end"
        parts.append(
            f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 4}"/>'
            f'<text class="tick" x="{WIDTH - 1 if anchor == "end" else round(x, 1)}" '
            f'y="{base + 16}" text-anchor="{anchor}">{escape(text)}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    if title:
        parts.append(
            f'<text class="name" x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">'
            f"{escape(title)}</text>"
        )
    return "".join(parts)


def number_ticks(axis: Axis, most: int = 6) -> list[tuple[float, str]]:
    """Round numbers along an axis."""
    ticks, step = round_ticks(axis.low, axis.high, most)
    return [(tick, tick_text(tick, step)) for tick in ticks]


def whole_ticks(low: int, high: int, most: int = 6) -> list[tuple[float, str]]:
    """Whole numbers from `low` to `high`, both of them where there is room."""
    if high - low < most:
        return [(value, f"{value:,}") for value in range(low, high + 1)]
    ticks, step = round_ticks(low, high, most)
    chosen = [tick for tick in ticks if tick == int(tick) and tick - low >= step / 2]
    return [(tick, f"{int(tick):,}") for tick in [low, *chosen]]


def time_ticks(
    times: Shaped[np.ndarray, " T"], most: int = 4
) -> tuple[Float64[np.ndarray, " T"], list[tuple[float, str]]]:
    """Times as numbers along an axis, and round times between the first and the last."""
    if not np.issubdtype(times.dtype, np.datetime64):
        numbers = times.astype(np.float64)
        return numbers, whole_ticks(int(times[0]), int(times[-1]), most)
    exact = times.astype("datetime64[ns]").astype(np.int64)
    seconds = exact / 1e9
    span = float(seconds[-1] - seconds[0])
    if span > 60 * _DAY:
        return seconds, _month_ticks(times, most)
    step = next((step for step in _SECONDS if span / step <= most), _SECONDS[-1])
    first, last = -(-int(exact[0]) // (step * 10**9)), int(exact[-1]) // (step * 10**9)
    marks = np.arange(first, last + 1) * step
    stamps = marks.astype("datetime64[s]").tolist()
    if step >= _DAY:
        texts = [f"{stamp.day} {stamp:%b %Y}" for stamp in stamps]
    elif span > _DAY:
        texts = [f"{stamp.day} {stamp:%b %H:%M}" for stamp in stamps]
    else:
        texts = [f"{stamp:%H:%M:%S}" if step < 60 else f"{stamp:%H:%M}" for stamp in stamps]
    return seconds, list(zip(marks.astype(np.float64).tolist(), texts, strict=True))


def _month_ticks(times: Shaped[np.ndarray, " T"], most: int) -> list[tuple[float, str]]:
    months = times[[0, -1]].astype("datetime64[M]").astype(np.int64)
    step = next((step for step in _MONTHS if (months[1] - months[0]) / step <= most), _MONTHS[-1])
    marks: Int64[np.ndarray, " k"] = np.arange(-(-months[0] // step), months[1] // step + 1) * step
    stamps = marks.astype("datetime64[M]").astype("datetime64[s]")
    inside = (stamps >= times[0]) & (stamps <= times[-1])
    return [
        (float(stamp.astype(np.int64)), str(stamp)[:4] if step % 12 == 0 else _month(stamp))
        for stamp in stamps[inside]
    ]


def _month(stamp: np.datetime64) -> str:
    return f"{stamp.astype('datetime64[s]').tolist():%b %Y}"


def thin(count: int) -> Int64[np.ndarray, " k"]:
    """Choose at most 1,000 of so many points, evenly, the first and the last among them."""
    if count <= _MOST_POINTS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, _MOST_POINTS).round().astype(np.int64))


def line(x: Float64[np.ndarray, " T"], y: Float64[np.ndarray, " T"], style: str) -> str:
    """A line through points, broken where one is NaN; a point between two NaN is a dot."""
    chosen = thin(x.size)
    parts, is_down = [], False
    for at_x, at_y in zip(x[chosen].tolist(), y[chosen].tolist(), strict=True):
        if not math.isfinite(at_y):
            is_down = False
            continue
        parts.append(f"{'L' if is_down else 'M'}{at_x:.1f} {at_y:.1f}")
        is_down = True
    # A step of no length is drawn as a dot by round line ends.
    path = "".join(
        part + ("h0" if part[0] == "M" and not after.startswith("L") else "")
        for part, after in zip(parts, [*parts, ""][1:], strict=True)
    )
    return f'<path class="{style}" d="{path}"/>'


def band(
    x: Float64[np.ndarray, " T"],
    low: Float64[np.ndarray, " T"],
    high: Float64[np.ndarray, " T"],
    style: str,
) -> str:
    """The area between two lines."""
    chosen = thin(x.size)
    there = zip(x[chosen].tolist(), low[chosen].tolist(), strict=True)
    back = zip(x[chosen][::-1].tolist(), high[chosen][::-1].tolist(), strict=True)
    points = " ".join(f"{at_x:.1f},{at_y:.1f}" for at_x, at_y in (*there, *back))
    return f'<polygon class="{style}" points="{points}"/>'


def marks(
    x: Float64[np.ndarray, " T"], y: Float64[np.ndarray, " T"], shape: int, style: str
) -> str:
    """Marks of a method at some of its points; each shape is another sign."""
    return "".join(
        _mark(at_x, at_y, shape, style)
        for at_x, at_y in zip(x.tolist(), y.tolist(), strict=True)
        if math.isfinite(at_y)
    )


def _mark(x: float, y: float, shape: int, style: str) -> str:
    if shape % 5 == 0:
        return f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    drawn = {
        1: f"M{x - 2.7:.1f} {y - 2.7:.1f}h5.4v5.4h-5.4z",
        2: f"M{x:.1f} {y - 3.4:.1f}l3.4 5.8h-6.8z",
        3: f"M{x:.1f} {y - 3.8:.1f}l3.8 3.8l-3.8 3.8l-3.8 -3.8z",
        4: f"M{x - 3.4:.1f} {y - 2.4:.1f}h6.8l-3.4 5.8z",
    }[shape % 5]
    return f'<path class="{style}" d="{drawn}"/>'


def picture(name: str, title: str, description: str, body: str, *, height: int = HEIGHT) -> str:
    """A whole picture, with words for those who don't see it.

    Args:
        name: An id that no other picture of the page has.
        title: What it shows.
        description: What is to be seen.
        body: The drawing.
        height: Units of height.
    """
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title>'
        f'<desc id="{name}-d">{escape(description)}</desc>{body}</svg>'
    )
