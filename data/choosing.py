"""Which frequency each series has: the one given, the one its rows step by, or the model's."""

from dataclasses import dataclass

from foretell.data.calendar import MONTH_UNITS, Frequency
from foretell.data.errors import FrequencyError
from foretell.data.grid import Refused, SortedRows
from foretell.data.inference import anchored_at, candidates, explain
from foretell.data.options import ForecastOptions

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
    choice = _Choice(table, model, options.allow_other_frequency)
    if options.freq is not None:
        return [choice.given(options.freq)] * len(table.counts)
    rows = table.rows
    found = candidates(table.stamps, rows.indptr, rows.stamp_kind, rows.time_zone)
    frequencies: list[Frequency | None] = []
    for series, fitting in enumerate(found):
        settled = fitting if choice.is_settled(fitting) else choice.settle(series, fitting)
        frequencies.append(settled[0] if len(settled) == 1 else None)
        if series in refused:
            continue
        if len(settled) != 1:
            refused.add(series, explain(settled, int(table.counts[series])))
        elif choice.is_other(settled[0]):
            refused.add(series, f"its rows step by {choice.mismatch(settled[0])}")
    return frequencies


@dataclass(frozen=True, slots=True)
class _Choice:
    table: SortedRows
    model: Frequency | None
    allow_other: bool

    def given(self, name: str) -> Frequency:
        given = Frequency.parse(name)
        holds_integers = self.table.rows.stamp_kind == "integer"
        if given.is_integer != holds_integers:
            held = "integer steps" if holds_integers else "dates"
            wanted = "an integer step such as 1" if holds_integers else "a frequency such as 'D'"
            raise FrequencyError(
                f"frequency {name!r} is given, but the time column holds {held}; give {wanted}."
            )
        if self.is_other(given):
            raise FrequencyError(f"the frequency given is {self.mismatch(given)}")
        return given

    def is_settled(self, fitting: tuple[Frequency, ...]) -> bool:
        """Whether the rows alone decide: the last day of a month may be its last working day."""
        if len(fitting) != 1 or self.model is None:
            return len(fitting) == 1
        found, model = fitting[0], self.model
        return (
            found.unit == model.unit
            or not {found.unit, model.unit} <= MONTH_UNITS.keys()
            or not found.same_rhythm(model)
        )

    def settle(self, series: int, fitting: tuple[Frequency, ...]) -> tuple[Frequency, ...]:
        """Let the model's frequency decide where rows don't."""
        if self.model is None:
            return fitting
        if len(fitting) > 1:
            alike = tuple(frequency for frequency in fitting if frequency.same_rhythm(self.model))
            return alike or fitting
        stamps = self.table.stamps_of(series)
        if not len(stamps):
            return fitting
        rows = self.table.rows
        own = anchored_at(self.model, stamps, rows.stamp_kind, rows.time_zone)
        return fitting if own is None else (own,)

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
