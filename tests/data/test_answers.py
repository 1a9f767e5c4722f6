"""Answers: tables in the caller's own types, the errors and warnings that go with them."""

import numpy as np
import pandas as pd
import pytest

from foretell.data.calendars.calendar import Frequency
from foretell.data.errors import (
    ForetellError,
    OptionError,
    Refusal,
    RefusedSeriesError,
    TableWarning,
)
from foretell.data.series.answers import forecast_table, quantile_column, raise_refused, warn_unused
from foretell.data.series.panel import PanelForecast

STAMPS = pd.DatetimeIndex(["2024-03-30 23:00", "2024-03-31 22:00"]).as_unit("ns").asi8


def answer(
    ids: pd.Index, kind: str = "naive", zone: str | None = None, **more: object
) -> PanelForecast:
    return PanelForecast(
        ids=ids,
        frequencies=(Frequency.parse("D"),) * len(ids),
        stamp_kind=kind,
        time_zone=zone,
        stamps=np.tile(STAMPS, (len(ids), 1)),
        forecast=np.arange(2.0 * len(ids)).reshape(-1, 2),
        quantile_levels=(0.9, 0.1),
        quantiles=np.arange(4.0 * len(ids)).reshape(-1, 2, 2),
        **more,
    )


def test_a_table_has_one_row_a_series_and_step_and_a_column_a_level_in_the_order_asked_for() -> (
    None
):
    table = forecast_table(answer(pd.Index(["b", "a"])), id_col="shop", time_col="day")
    assert table.columns.tolist() == ["shop", "day", "forecast", "q0.9", "q0.1"]
    assert table["shop"].tolist() == ["b", "b", "a", "a"]
    assert table["forecast"].tolist() == [0, 1, 2, 3]
    assert table["q0.9"].tolist() == [0, 2, 4, 6]
    assert table["q0.1"].tolist() == [1, 3, 5, 7]


@pytest.mark.parametrize(
    "ids",
    [
        pd.Index([17, 4]),
        pd.Index(["007", "7"]),
        pd.Index(["007", "7"], dtype=object),
        pd.Index([("x", 1), ("y", 2)], tupleize_cols=False),
        pd.CategoricalIndex(["b", "a"], categories=["b", "a"]),
        pd.Index([], dtype=object),
    ],
    ids=lambda ids: str(ids.dtype),
)
def test_ids_come_back_as_they_were(ids: pd.Index) -> None:
    table = forecast_table(answer(ids))
    assert table["unique_id"].dtype == ids.dtype
    assert table["unique_id"].tolist() == [name for name in ids for _ in range(2)]


def test_stamps_are_naive_zoned_or_integers_as_the_input_was() -> None:
    ids = pd.Index(["a"])
    assert forecast_table(answer(ids))["ds"].dtype == "datetime64[ns]"
    zoned = forecast_table(answer(ids, "zoned", "Europe/Berlin"))["ds"]
    assert [str(stamp) for stamp in zoned] == [
        "2024-03-31 00:00:00+01:00",
        "2024-04-01 00:00:00+02:00",
    ]
    assert forecast_table(answer(ids, "integer"))["ds"].tolist() == STAMPS.tolist()


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (0.1, "q0.1"),
        (0.05, "q0.05"),
        (0.975, "q0.975"),
        (1e-05, "q1e-05"),
        (0.99999999, "q0.99999999"),
    ],
)
def test_levels_name_their_columns_without_rounding(level: float, name: str) -> None:
    """Two levels must never share a column."""
    assert quantile_column(level) == name


def test_column_names_that_collide_are_refused() -> None:
    with pytest.raises(OptionError, match=r"columns named 'forecast' twice; name .*id_col"):
        forecast_table(answer(pd.Index(["a"])), id_col="forecast")


def test_refused_series_raise_with_the_answers_of_the_others() -> None:
    refusal = Refusal(1, "b", "all its values are blank.")
    found = answer(pd.Index(["a"]), refusals=(refusal,))
    table = forecast_table(found)
    with pytest.raises(RefusedSeriesError, match="series b: all its values are blank") as caught:
        raise_refused(found, table)
    assert isinstance(caught.value, ForetellError)
    assert caught.value.forecast is table
    assert caught.value.refusals == (refusal,)
    raise_refused(answer(pd.Index(["a"])), table)


def test_what_was_not_used_is_warned_of() -> None:
    with pytest.warns(TableWarning, match="not used: zz"):
        warn_unused(answer(pd.Index(["a"]), warnings=("rows not used: zz.",)))
