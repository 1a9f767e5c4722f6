"""Known-future covariates find their step by id and stamp; what is missing is never shifted."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import TableError
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Panel
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_future_rows, read_rows

COLUMNS = Columns(future_covariates=("promo", "price"))
HORIZON = 3


def history(ids: str = "ab", freq: str = "D", zone: str | None = None) -> pd.DataFrame:
    days = pd.date_range("2024-01-06", periods=5, freq=freq, tz=zone)
    parts = [pd.DataFrame({"unique_id": name, "ds": days, "y": 1.0}) for name in ids]
    return pd.concat(parts, ignore_index=True).assign(promo=0.0, price=1.0)


def future(df: pd.DataFrame, freq: str = "D", horizon: int = HORIZON) -> pd.DataFrame:
    parts = []
    for number, (name, part) in enumerate(df.groupby("unique_id", sort=False)):
        days = pd.date_range(part["ds"].max(), periods=horizon + 1, freq=freq)[1:]
        values = np.arange(horizon) + 10.0 * number
        parts.append(
            pd.DataFrame({"unique_id": name, "ds": days, "promo": values, "price": -values})
        )
    return pd.concat(parts, ignore_index=True)


def panel(
    df: pd.DataFrame, known: pd.DataFrame | None, names: tuple[str, ...] = ("promo", "price")
) -> Panel:
    return regularise(
        read_rows(df, COLUMNS),
        options=ForecastOptions(horizon=HORIZON),
        future=None if known is None else read_future_rows(known, COLUMNS),
        future_names=names,
    )


def reason(found: Panel) -> str:
    (refusal,) = found.refusals
    return refusal.reason


@given(st.randoms(use_true_random=False), st.sampled_from(["D", "h", "ME", "W-MON"]))
def test_the_order_of_rows_and_columns_does_not_matter(random: object, freq: str) -> None:
    df = history(freq=freq)
    known = future(df, freq)
    order = list(known.index)
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = known.loc[order, ["price", "ds", "promo", "unique_id"]]
    expected = known[["promo", "price"]].to_numpy().reshape(2, HORIZON, 2)
    np.testing.assert_array_equal(panel(df, shuffled).horizon_covariates, expected)


def test_days_over_the_change_of_the_clock_find_their_step() -> None:
    days = pd.date_range("2024-03-26", periods=5, freq="D", tz="Europe/Berlin")
    df = pd.DataFrame({"unique_id": "a", "ds": days, "y": 1.0, "promo": 0.0, "price": 0.0})
    found = panel(df, future(df))
    assert found.horizon_covariates[0, :, 0].tolist() == [0, 1, 2]
    in_utc = future(df).assign(ds=lambda known: known["ds"].dt.tz_convert("UTC"))
    assert panel(df, in_utc).horizon_covariates[0, :, 0].tolist() == [0, 1, 2]


def test_every_missing_blank_and_repeated_step_is_named_and_only_its_series_refused() -> None:
    known = future(history())
    known = pd.concat([known.drop(index=1), known.iloc[[2]]])
    known.iloc[0, 2] = np.nan
    found = panel(history(), known)
    assert reason(found) == (
        "in the future table, (a, 2024-01-11) has a blank 'promo', (a, 2024-01-12) has no row, "
        "(a, 2024-01-13) has 2 rows; give each step of the horizon one row with all values."
    )
    assert found.ids.tolist() == ["b"]
    assert found.horizon_covariates[0, :, 0].tolist() == [10, 11, 12]


def test_an_unreadable_future_value_refuses_its_series() -> None:
    known = future(history()).astype({"promo": object})
    known.iloc[4, 2] = "n/k"
    found = panel(history(), known)
    assert "in the future table, 'promo' is 'n/k' (str) in row 5" in reason(found)
    assert found.ids.tolist() == ["a"]


def test_what_is_not_used_is_named_and_the_past_is_silent() -> None:
    """Many tables hold a covariate's past and future together; that is no mistake."""
    known = future(history("abz"), horizon=HORIZON + 1)
    past = history().drop(columns="y")
    found = panel(history(), pd.concat([past, known]))
    assert found.warnings == (
        "the future table has rows of unknown ids, which are not used: z.",
        "the future table has rows outside the horizon, which are not used: (a, 2024-01-14), "
        "(b, 2024-01-14).",
    )
    assert found.refusals == ()


def test_rows_of_refused_series_are_not_called_strangers() -> None:
    df = history()
    df.loc[df["unique_id"] == "a", "y"] = np.inf
    assert panel(df, future(history())).warnings == ()
    df.loc[df["unique_id"] == "a", "y"] = np.nan
    assert panel(df, future(history())).warnings == ()


@pytest.mark.parametrize("ids", ["a", "ab"])
@pytest.mark.parametrize(
    "known",
    [future(history("ab")), future(history("abz"), horizon=9), future(history("z"))],
    ids=["fitting", "more", "strangers"],
)
def test_where_every_series_is_refused_the_reasons_are_told(ids: str, known: pd.DataFrame) -> None:
    """A table of one series is the likely case; the future table must not hide what is wrong."""
    found = panel(history(ids).assign(y=np.inf), known)
    assert [refusal.unique_id for refusal in found.refusals] == list(ids)
    assert all("'y' is inf" in refusal.reason for refusal in found.refusals)
    assert found.horizon_covariates.shape == (0, HORIZON, 2)


@pytest.mark.parametrize(
    "ids", [pd.Series([1, 1, 2, 2, 2]), pd.Series(list("aabbb"), dtype="category")]
)
def test_ids_of_any_type_match(ids: pd.Series) -> None:
    df = history("a").assign(unique_id=ids)
    known = pd.concat(
        [
            pd.DataFrame({"unique_id": name, "ds": pd.date_range(last, periods=3), "promo": 1.0})
            for name, last in ((ids[0], "2024-01-08"), (ids[4], "2024-01-09"))
        ]
    )
    known["price"] = 2.0
    if ids.dtype == "category":
        known["unique_id"] = known["unique_id"].astype("str")
    df["ds"] = pd.DatetimeIndex([f"2024-01-0{day}" for day in (6, 7, 6, 7, 8)])
    assert panel(df, known).refusals == ()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda known: None, "needs 'promo', 'price' over the horizon; give a table of these"),
        (lambda known: known.assign(ds=range(6)), "future table are integer, .* history are naive"),
        (
            lambda known: known.assign(ds=known["ds"].dt.tz_localize("UTC")),
            "future table are zoned, those of the history are naive; write both alike",
        ),
        (
            lambda known: known.assign(unique_id=[1, 1, 1, 2, 2, 2]),
            "has none of the history's ids: it has 1, the history 'a'; write ids alike",
        ),
    ],
)
def test_a_future_table_that_cannot_fit_is_refused_as_a_whole(change: object, match: str) -> None:
    with pytest.raises(TableError, match=match):
        panel(history(), change(future(history())))  # type: ignore[operator]


def test_a_model_without_known_future_says_that_the_table_is_not_used() -> None:
    found = panel(history(), future(history()), names=())
    assert found.warnings == (
        "the model uses no known-future covariates; the future table is not used.",
    )
    assert found.horizon_covariates.shape == (2, HORIZON, 0)
