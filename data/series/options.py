"""What a caller may ask of a forecast, checked once, by the same code behind all three doors."""

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from foretell.data.errors import FrequencyError, OptionError

MAX_HORIZON = 100_000
MAX_QUANTILE_LEVELS = 1_000  # finer than any model knows; memory and time grow with their number
DEFAULT_QUANTILE_LEVELS = (0.1, 0.5, 0.9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """The names of a long table's columns.

    Attributes:
        unique_id: Column of the series' id.
        ds: Column of the time stamp, or of the integer step.
        y: Column of the target.
        future_covariates: Numeric columns known for the horizon too.
        past_covariates: Numeric columns known for the past only.
        static: Numeric columns constant within a series.
        time_zone: Zone in which stamps with offsets or zones step days, weeks and months, such as
            "Europe/Berlin"; None keeps a zoned column's own zone, and UTC for text with offsets.
    """

    unique_id: str = "unique_id"
    ds: str = "ds"
    y: str = "y"
    future_covariates: tuple[str, ...] = ()
    past_covariates: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    time_zone: str | None = None

    def __post_init__(self) -> None:
        names: list[object] = [
            self.unique_id,
            self.ds,
            self.y,
            *self.future_covariates,
            *self.past_covariates,
            *self.static,
        ]
        unnamed = [name for name in names if name is None or not _is_hashable(name)]
        if unnamed:
            raise OptionError(
                [f"a column is named {name!r}; give the name of one column." for name in unnamed]
            )
        twice = sorted({name for name in names if names.count(name) > 1}, key=str)
        if twice:
            raise OptionError(
                [
                    f"column {name!r} is given more than one role; give each column one."
                    for name in twice
                ]
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastOptions:
    """What to forecast.

    Attributes:
        horizon: Steps ahead, 1 to 100,000.
        quantile_levels: Levels to return, at most 1,000, each inside (0, 1), kept in the order
            given; numbers of any real type become floats.
        freq: Frequency of every series (a pandas alias or an integer step); None infers it for each
            series.
        allow_other_frequency: Forecast data whose frequency is not the model's instead of refusing
            it.
    """

    horizon: int
    quantile_levels: tuple[float, ...] = DEFAULT_QUANTILE_LEVELS
    freq: str | None = None
    allow_other_frequency: bool = False

    def __post_init__(self) -> None:
        problems = _horizon_problems(self.horizon)
        try:
            levels = _floats(self.quantile_levels, "quantiles", "[0.1, 0.5, 0.9]")
        except OptionError as error:
            problems += error.problems
        else:
            object.__setattr__(self, "quantile_levels", levels)
            problems += _level_problems(levels)
        if not isinstance(self.allow_other_frequency, bool):
            problems.append(
                f"allow_other_frequency is {self.allow_other_frequency!r}; give True or False."
            )
        try:
            if self.freq is not None:
                _canonical(self.freq)
        except FrequencyError as error:
            if not problems:
                raise
            problems += error.problems
        if problems:
            raise OptionError(problems)

    @classmethod
    def from_call(
        cls,
        horizon: int,
        *,
        quantiles: Sequence[float] | None = None,
        level: Sequence[float] | None = None,
        freq: str | int | None = None,
        allow_other_frequency: bool = False,
    ) -> "ForecastOptions":
        """Read the options of a `forecast` call, where either `quantiles` or `level` may be given.

        Args:
            horizon: Steps ahead.
            quantiles: Quantile levels inside (0, 1).
            level: Central intervals in percent, inside (0, 100): 80 asks for the quantiles 0.1 and
                0.9.
            freq: Frequency; None infers it.
            allow_other_frequency: Forecast data of another frequency than the model's.

        Raises:
            OptionError: An option is out of range, or both `quantiles` and `level` are given.
            FrequencyError: Nothing is wrong but `freq`, which is no frequency.
        """
        if quantiles is not None and level is not None:
            raise OptionError("both quantiles and level are given; give one of them.")
        levels: tuple[float, ...] = DEFAULT_QUANTILE_LEVELS
        if quantiles is not None:
            levels = _floats(quantiles, "quantiles", "[0.1, 0.5, 0.9]")
        elif level is not None:
            levels = _interval_levels(_floats(level, "level", "[80, 95]"))
        return cls(
            horizon=horizon,
            quantile_levels=levels,
            freq=freq if freq is None or isinstance(freq, str) else _canonical(freq),
            allow_other_frequency=allow_other_frequency,
        )


def _canonical(freq: Any) -> str:
    """Spell a frequency as pandas does today."""
    from foretell.data.calendars.calendar import Frequency  # noqa: PLC0415  # `--help` needs no pandas

    return Frequency.parse(freq).alias


def _is_hashable(name: object) -> bool:
    try:
        hash(name)
    except TypeError:
        return False
    return True


def _horizon_problems(horizon: object) -> list[str]:
    if isinstance(horizon, bool) or not isinstance(horizon, numbers.Integral):
        return [
            f"horizon is {horizon!r}; it must be a whole number of steps, 1 to {MAX_HORIZON:,}."
        ]
    steps = int(horizon)
    if 1 <= steps <= MAX_HORIZON:
        return []
    # Python writes no integers of thousands of digits.
    shown = steps if abs(steps) < 10**18 else "a number of over 18 digits"
    return [f"horizon is {shown}; it must be 1 to {MAX_HORIZON:,} steps."]


def _level_problems(levels: tuple[float, ...]) -> list[str]:
    if len(levels) > MAX_QUANTILE_LEVELS:
        return [f"more than {MAX_QUANTILE_LEVELS:,} quantiles are asked for; ask for fewer."]
    problems = [
        f"quantile {level!r} is not inside (0, 1); ask for levels such as 0.1, 0.5, 0.9."
        for level in levels
        if not 0 < level < 1
    ]
    twice = [level for level in dict.fromkeys(levels) if levels.count(level) > 1]
    if twice:
        named = ", ".join(map(repr, twice[:5]))
        problems.append(f"quantiles name a level twice ({named}); name each once.")
    return problems


def _floats(values: object, name: str, example: str) -> tuple[float, ...]:
    """Read a flat list of numbers of any real type: a lone number is a common slip."""
    wanted = f"give a flat list of numbers, such as {example}"
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise OptionError(f"{name} is {values!r}; {wanted}.")
    try:
        # One more than allowed is enough to see that there are too many.
        listed = tuple(islice(values, MAX_QUANTILE_LEVELS + 1))
    except TypeError:  # an array of no dimension
        raise OptionError(f"{name} is {values!r}; {wanted}.") from None
    wrong = dict.fromkeys(type(value).__name__ for value in listed if not _is_real(value))
    if wrong:
        raise OptionError(f"{name} holds {', '.join(wrong)}; {wanted}.")
    return tuple(map(_float, listed))


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool)


def _float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # Decimal, Fraction, numpy numbers
    except (OverflowError, ValueError):  # a fraction beyond all floats, a signalling NaN
        return math.nan


def _interval_levels(level: Sequence[float]) -> tuple[float, ...]:
    if len(level) > MAX_QUANTILE_LEVELS:
        raise OptionError(f"more than {MAX_QUANTILE_LEVELS:,} levels are asked for; ask for fewer.")
    problems = [
        f"level {percent!r} is not inside (0, 100); ask for central intervals in percent, like 80."
        for percent in level
        if not 0 < percent < 100
    ]
    if problems:
        raise OptionError(problems)
    tails = {round((100 - percent) / 200, 12) for percent in level}
    return tuple(sorted(tails | {round(1 - tail, 12) for tail in tails}))
