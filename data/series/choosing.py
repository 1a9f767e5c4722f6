"""Which frequency each series has: the one given, the one its rows step by, or the model's."""

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from foretell.data.calendars.aliases import MONTH_UNITS
from foretell.data.calendars.calendar import Frequency
from foretell.data.calendars.inference import anchored, candidates, explain
from foretell.data.calendars.zones import StampKind
from foretell.data.errors import FrequencyError
from foretell.data.series.grid import Refused, SortedRows, ranges
from foretell.data.series.options import ForecastOptions

ANY_FREQUENCY = "any"


def choose_frequencies(
    table: SortedRows, options: ForecastOptions, model_frequency: str, refused: Refused
) -> list[Frequency | None]:
    """Find the frequency of each series; None for the series that get none and are refused.

    A given frequency holds for all series. Otherwise each series has the one that its rows step by.
    Where its rows fit several, or where it has one row alone, the model's decides if the model has
    one.

    Raises:
        FrequencyError: `options.freq` or `model_frequency` is unknown, doesn't fit the kind of
            stamps, or the two differ and `options.allow_other_frequency` is not set.
    """
    model = None if model_frequency == ANY_FREQUENCY else Frequency.parse(model_frequency)
    choice = _Choice(model, options.allow_other_frequency)
    if options.freq is not None:
        given = choice.given(options.freq, table.rows.stamp_kind)
        return [given] * len(table.counts)
    # Series are many and their frequencies few: each of these is looked at once.
    is_other = cache(choice.is_other)
    frequencies: list[Frequency | None] = []
    for series, fitting in enumerate(_fitting(table, model)):
        frequencies.append(fitting[0] if len(fitting) == 1 else None)
        if series in refused:
            continue
        if len(fitting) != 1:
            refused.add(series, explain(fitting, int(table.counts[series])))
        elif is_other(fitting[0]):
            refused.add(series, f"its rows step by {choice.mismatch(fitting[0])}")
    return frequencies


def _fitting(table: SortedRows, model: Frequency | None) -> list[tuple[Frequency, ...]]:
    """Find what each series may step by; the model's frequency decides where its rows don't."""
    kind, time_zone = table.rows.stamp_kind, table.rows.time_zone
    found = candidates(table.stamps, table.rows.indptr, kind, time_zone)
    if model is None:
        return found
    settle = cache(partial(_settle, model))
    settled = [settle(fitting) for fitting in found]
    is_open = np.array([fitting is None for fitting in settled], dtype=bool)
    open_series = np.flatnonzero(is_open & (table.counts > 0))
    rows, indptr = ranges(table.rows.indptr, open_series)
    own = anchored(model, table.stamps[rows], indptr, kind, time_zone)
    for series, frequency in zip(open_series.tolist(), own, strict=True):
        settled[series] = None if frequency is None else (frequency,)
    return [
        before if after is None else after for before, after in zip(found, settled, strict=True)
    ]


def _settle(model: Frequency, fitting: tuple[Frequency, ...]) -> tuple[Frequency, ...] | None:
    """Let the model decide between frequencies; None where the stamps must be looked at again.

    They must for a lone row, and for edges of months: the last day may be the last working day.
    """
    if len(fitting) > 1:
        alike = tuple(frequency for frequency in fitting if frequency.same_rhythm(model))
        return alike or fitting
    if not fitting:
        return None
    found = fitting[0]
    may_be_the_models = found.unit in MONTH_UNITS and found.same_rhythm(model)
    return None if may_be_the_models and found.unit != model.unit else fitting


@dataclass(frozen=True, slots=True)
class _Choice:
    model: Frequency | None
    allow_other: bool

    def given(self, name: str, kind: StampKind) -> Frequency:
        given = Frequency.parse(name)
        holds_integers = kind == "integer"
        if given.is_integer != holds_integers:
            held = "integer steps" if holds_integers else "dates"
            wanted = "an integer step such as 1" if holds_integers else "a frequency such as 'D'"
            raise FrequencyError(
                f"frequency {name!r} is given, but the time column holds {held}; give {wanted}."
            )
        if self.is_other(given):
            raise FrequencyError(f"the frequency given is {self.mismatch(given)}")
        return given

    def is_other(self, frequency: Frequency) -> bool:
        """Whether the model was trained for another frequency, and that matters."""
        return (
            self.model is not None
            and not self.allow_other
            and not frequency.same_rhythm(self.model)
        )

    def mismatch(self, frequency: Frequency) -> str:
        """Name both frequencies and say what to do."""
        return (
            f"{frequency.alias!r}, but the model was trained for {str(self.model)!r}; use a model "
            f"for {frequency.alias!r}, or allow another frequency (allow_other_frequency)."
        )
