"""From a panel's answer to the table that a caller gets, and the error and warnings beside it."""

import warnings

import numpy as np
import pandas as pd

from foretell.data.errors import OptionError, RefusedSeriesError, TableWarning
from foretell.data.series.panel import PanelForecast


def quantile_column(level: float) -> str:
    """Name the column of a quantile level: "q0.1"."""
    short = f"{level:g}"
    return f"q{short}" if float(short) == level else f"q{level!r}"


def forecast_table(
    answer: PanelForecast, *, id_col: str = "unique_id", time_col: str = "ds"
) -> pd.DataFrame:
    """Write an answer as a long table: a row a series and step, series by first appearance.

    Columns: `id_col` in the caller's own type; `time_col` as datetime64, zoned where the input was,
    or integers; `forecast`; and "q0.1", ... in the order asked for.

    Raises:
        OptionError: `id_col` or `time_col` is the name of another column of the answer.
    """
    count, horizon = answer.stamps.shape
    stamps = answer.stamps.ravel()
    when: pd.Index = pd.Index(stamps)
    if answer.stamp_kind != "integer":
        when = pd.DatetimeIndex(stamps.view("M8[ns]"))
        if answer.stamp_kind == "zoned":
            when = when.tz_localize("UTC").tz_convert(answer.time_zone or "UTC")
    names = [id_col, time_col, "forecast", *map(quantile_column, answer.quantile_levels)]
    twice = sorted({name for name in names if names.count(name) > 1}, key=str)
    if twice:
        raise OptionError(
            f"the answer would have columns named {', '.join(map(repr, twice))} twice; "
            "name the columns of the table otherwise (id_col, time_col)."
        )
    columns: dict[str, object] = {
        id_col: answer.ids.take(np.repeat(np.arange(count), horizon)),
        time_col: when,
        "forecast": answer.forecast.ravel(),
    }
    for place, level in enumerate(answer.quantile_levels):
        columns[quantile_column(level)] = answer.quantiles[:, :, place].ravel()
    return pd.DataFrame(columns)


def warn_unused(answer: PanelForecast) -> None:
    """Warn, by a `TableWarning` each, of what was not used."""
    for sentence in answer.warnings:
        warnings.warn(sentence, TableWarning, stacklevel=3)


def raise_refused(answer: PanelForecast, table: pd.DataFrame) -> None:
    """Raise for refused series, if there are any.

    Raises:
        RefusedSeriesError: Some series were refused; it carries `table`, the answers of the others.
    """
    if answer.refusals:
        raise RefusedSeriesError(answer.refusals, table)
