"""Many series in flat arrays: how data travel from a table to a model and over the wire.

Axes: N rows of all series together, n series, H horizon, C covariates, Q quantiles. The rows of
    series i are
`indptr[i]:indptr[i + 1]`. Stamps are int64: nanoseconds since 1970-01-01, in UTC where the table
had zones or offsets, in the table's own clock where it had none, or plain integer steps.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from foretell.data.calendars.calendar import Frequency
from foretell.data.calendars.zones import StampKind
from foretell.data.errors import Refusal

__all__ = ["Panel", "PanelForecast", "Rows", "StampKind"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Typed rows, grouped by series, in the order they came: nothing sorted, filled or dropped yet.

    Attributes:
        ids: The series' ids in order of first appearance, in the caller's own type.
        indptr: Start of each series' rows, and the end.
        stamps: Time stamps or steps.
        stamp_kind: What the stamps are.
        time_zone: Zone in which calendar frequencies step and answers are stamped; "UTC" for text
            with offsets. None unless `stamp_kind` is "zoned".
        target: Data units; NaN where blank. Empty ([0]) for rows of known-future covariates.
        covariates: Columns in the order future, past; NaN where blank.
        static: Columns constant within a series.
        positions: Position of each series in the caller's input, by first appearance, refused ones
            counted.
        refusals: Series refused while typing; they have no rows here and are not among `ids`.
    """

    ids: pd.Index
    indptr: Int64[np.ndarray, " n1"]
    stamps: Int64[np.ndarray, " N"]
    stamp_kind: StampKind
    time_zone: str | None
    target: Float64[np.ndarray, " M"]
    covariates: Float64[np.ndarray, "N C"]
    static: Float64[np.ndarray, "n S"]
    positions: Int64[np.ndarray, " n"]
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """Series on their regular grids, ready for a model.

    Attributes:
        ids: Ids of the series that can be forecast, in order of first appearance.
        frequencies: Frequency of each series.
        last: Stamp of each series' last row; the forecast starts one step after it.
        stamp_kind: What the stamps are.
        time_zone: As in `Rows`.
        indptr: Start of each series' steps, and the end. The last step is that of `last`; the first
            that of the first row, or later where a panel is laid only as far back as a model looks.
        target: Data units; NaN where a step is missing or blank.
        context_covariates: Columns in the order future, past; NaN where missing.
        horizon_covariates: Known-future columns over the horizon.
        static: Columns constant within a series.
        refusals: All refused series with their reasons, those of `Rows` included, by position.
        warnings: What was not used, a sentence each.
    """

    ids: pd.Index
    frequencies: tuple[Frequency, ...]
    last: Int64[np.ndarray, " n"]
    stamp_kind: StampKind
    time_zone: str | None
    indptr: Int64[np.ndarray, " n1"]
    target: Float64[np.ndarray, " N"]
    context_covariates: Float64[np.ndarray, "N C"]
    horizon_covariates: Float64[np.ndarray, "n H F"]
    static: Float64[np.ndarray, "n S"]
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PanelForecast:
    """The answer to a panel.

    Attributes:
        ids: Ids of the answered series, in order of first appearance.
        frequencies: Frequency of each answered series.
        stamp_kind: What the stamps are.
        time_zone: As in `Rows`.
        stamps: Stamps of the horizon.
        forecast: Point forecast, the 0.5 quantile, data units.
        quantile_levels: Levels in the order asked for.
        quantiles: Data units, one column a level.
        refusals: The refused series, by position.
        warnings: What was not used, a sentence each.
    """

    ids: pd.Index
    frequencies: tuple[Frequency, ...]
    stamp_kind: StampKind
    time_zone: str | None
    stamps: Int64[np.ndarray, "n H"]
    forecast: Float64[np.ndarray, "n H"]
    quantile_levels: tuple[float, ...]
    quantiles: Float64[np.ndarray, "n H Q"]
    refusals: tuple[Refusal, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())
