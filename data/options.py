"""What a caller may ask of a forecast, checked once, by the same code behind all three doors."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass

from foretell.data.errors import OptionError

MAX_HORIZON = 100_000
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
        names = [
            self.unique_id,
            self.ds,
            self.y,
            *self.future_covariates,
            *self.past_covariates,
            *self.static,
        ]
        twice = sorted({name for name in names if names.count(name) > 1})
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
        quantile_levels: Levels to return, each inside (0, 1), kept in the order given.
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
        problems = []
        if isinstance(self.horizon, bool) or not isinstance(self.horizon, numbers.Integral):
            problems.append(
                f"horizon is {self.horizon!r}; it must be a whole number of steps, "
                f"1 to {MAX_HORIZON:,}."
            )
        elif not 1 <= self.horizon <= MAX_HORIZON:
            problems.append(f"horizon is {self.horizon}; it must be 1 to {MAX_HORIZON:,} steps.")
        problems += [
            f"quantile {level!r} is not inside (0, 1); ask for levels such as 0.1, 0.5, 0.9."
            for level in self.quantile_levels
            if isinstance(level, bool) or not isinstance(level, numbers.Real) or not 0 < level < 1
        ]
        if len(set(self.quantile_levels)) < len(self.quantile_levels):
            problems.append(
                f"quantiles {list(self.quantile_levels)} name a level twice; name each once."
            )
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
        """
        if quantiles is not None and level is not None:
            raise OptionError("both quantiles and level are given; give one of them.")
        levels: tuple[float, ...] = DEFAULT_QUANTILE_LEVELS
        if quantiles is not None:
            levels = _listed(quantiles, "quantiles", "[0.1, 0.5, 0.9]")
        elif level is not None:
            levels = _interval_levels(_listed(level, "level", "[80, 95]"))
        return cls(
            horizon=horizon,
            quantile_levels=levels,
            freq=None if freq is None else str(freq),
            allow_other_frequency=allow_other_frequency,
        )


def _listed(values: Sequence[float] | float | str, name: str, example: str) -> tuple[float, ...]:
    """Refuse a lone number or text where several are expected, common as that slip is."""
    if isinstance(values, int | float | str):
        raise OptionError(f"{name} is {values!r}; give a list, such as {example}.")
    return tuple(values)


def _interval_levels(level: Sequence[float]) -> tuple[float, ...]:
    problems = [
        f"level {percent!r} is not inside (0, 100); ask for central intervals in percent, like 80."
        for percent in level
        if isinstance(percent, bool)
        or not isinstance(percent, numbers.Real)
        or not 0 < percent < 100
    ]
    if problems:
        raise OptionError(problems)
    tails = {round((100 - percent) / 200, 12) for percent in level}
    return tuple(sorted(tails | {round(1 - tail, 12) for tail in tails}))
