"""Regular grids: in any order and any company, a series gets the grid that it gets alone."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import FrequencyError
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Panel
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_rows

COLUMNS = Columns(future_covariates=("promo",), past_covariates=("price",))


def table(series: dict[str, tuple[list[str], list[float]]]) -> pd.DataFrame:
    return pd.concat(
        [
            pd.DataFrame({"unique_id": unique_id, "ds": stamps, "y": values})
            for unique_id, (stamps, values) in series.items()
        ],
        ignore_index=True,
    )


def panel(
    df: pd.DataFrame,
    freq: str | None = None,
    model: str = "any",
    *,
    horizon: int = 2,
    allow: bool = False,
    columns: Columns | None = None,
    max_steps: int | None = None,
) -> Panel:
    return regularise(
        read_rows(df, columns or Columns()),
        options=ForecastOptions(horizon=horizon, freq=freq, allow_other_frequency=allow),
        model_frequency=model,
        max_steps=max_steps,
    )


def reasons(found: Panel) -> dict[object, str]:
    return {refusal.unique_id: refusal.reason for refusal in found.refusals}


def steps(found: Panel) -> dict[object, list[float]]:
    return {
        unique_id: found.target[start:end].tolist()
        for unique_id, start, end in zip(found.ids, found.indptr, found.indptr[1:], strict=False)
    }


def days(first: str, count: int, freq: str = "D") -> list[str]:
    return pd.date_range(first, periods=count, freq=freq).astype(str).tolist()


def test_a_step_without_a_row_or_with_a_blank_is_nan_and_trailing_blanks_count() -> None:
    """The forecast starts after the last row, even where that row has no value yet."""
    df = table({"a": (["2024-01-06", "2024-01-07", "2024-01-10", "2024-01-11"], [1, 2, 3, np.nan])})
    found = panel(df)
    np.testing.assert_array_equal(steps(found)["a"], [1, 2, np.nan, np.nan, 3, np.nan])
    assert found.last.tolist() == [pd.Timestamp("2024-01-11").value]


def test_every_series_has_its_own_frequency_and_end() -> None:
    df = table(
        {
            "hours": (days("2024-01-01", 5, "h"), [1, 2, 3, 4, 5]),
            "months": (days("2024-01-31", 3, "ME"), [1, 2, 3]),
            "mondays": (days("2024-01-01", 3, "W-MON"), [1, 2, 3]),
        }
    )
    found = panel(df)
    assert [frequency.alias for frequency in found.frequencies] == ["h", "ME", "W-MON"]
    assert found.ids.tolist() == ["hours", "months", "mondays"]


series = st.dictionaries(
    st.sampled_from("abcdef"),
    st.dictionaries(
        st.integers(0, 25), st.one_of(st.floats(-1e6, 1e6), st.just(np.nan)), min_size=3
    ),
    min_size=1,
)


def naive_grid(rows: dict[int, float]) -> list[float]:
    return [rows.get(step, np.nan) for step in range(min(rows), max(rows) + 1)]


@given(series, st.sampled_from(["h", "D", "ME", "B", "7"]), st.randoms(use_true_random=False))
def test_grids_are_those_of_a_plain_loop_in_any_order(
    content: dict[str, dict[int, float]], freq: str, random: object
) -> None:
    grid = (
        list(range(3, 3 + 7 * 26, 7))
        if freq == "7"
        else pd.date_range("2024-01-31", periods=26, freq=freq).tolist()
    )
    rows = [
        (name, grid[step], value) for name, part in content.items() for step, value in part.items()
    ]
    random.shuffle(rows)  # type: ignore[attr-defined]
    df = pd.DataFrame(rows, columns=["unique_id", "ds", "y"])
    found = panel(df, freq)
    for name in df["unique_id"].unique():
        expected = naive_grid(content[name])
        if np.isnan(expected).all():
            assert reasons(found)[name] == "all its values are blank; give it at least one value."
        else:
            np.testing.assert_array_equal(steps(found)[name], expected)
    kept = [name for name in df["unique_id"].unique() if name not in reasons(found)]
    assert found.ids.tolist() == kept, "order is that of first appearance"


@given(series, st.sampled_from([None, "D"]))
def test_a_series_gets_the_same_grid_alone_and_in_company(
    content: dict[str, dict[int, float]], freq: str | None
) -> None:
    start = pd.Timestamp("2024-01-01")
    df = pd.DataFrame(
        [
            (name, start + pd.Timedelta(days=step), value)
            for name, part in content.items()
            for step, value in part.items()
        ],
        columns=["unique_id", "ds", "y"],
    )
    together = panel(df, freq)
    for name, part in df.groupby("unique_id"):
        alone = panel(part, freq)
        assert reasons(alone).get(name) == reasons(together).get(name)
        np.testing.assert_array_equal(steps(alone).get(name, []), steps(together).get(name, []))


@given(series, st.integers(1, 30), st.sampled_from([None, "D"]))
def test_a_cropped_grid_is_the_end_of_the_whole_one(
    content: dict[str, dict[int, float]], max_steps: int, freq: str | None
) -> None:
    """Also where nothing is observed in the crop: that is the model's to refuse, not the grid's."""
    start = pd.Timestamp("2024-01-01")
    df = pd.DataFrame(
        [
            (name, start + pd.Timedelta(days=step), value, step)
            for name, part in content.items()
            for step, value in part.items()
        ],
        columns=["unique_id", "ds", "y", "price"],
    )
    columns = Columns(past_covariates=("price",))
    whole = panel(df, freq, columns=columns)
    cropped = panel(df, freq, columns=columns, max_steps=max_steps)
    for name in ("frequencies", "refusals"):
        assert getattr(cropped, name) == getattr(whole, name)
    for name in ("ids", "last", "static"):
        np.testing.assert_array_equal(getattr(cropped, name), getattr(whole, name))
    ends = [
        slice(max(start, end - max_steps), end)
        for start, end in itertools.pairwise(whole.indptr.tolist())
    ]
    assert np.diff(cropped.indptr).tolist() == [end.stop - end.start for end in ends]
    for name in ("target", "context_covariates"):
        values = getattr(whole, name)
        expected = [values[:0], *(values[end] for end in ends)]
        np.testing.assert_array_equal(getattr(cropped, name), np.concatenate(expected))


def test_as_many_rows_as_cropped_steps_are_not_taken_for_a_full_grid() -> None:
    df = table({"a": (["2024-01-06", "2024-01-16"], [1, 2]), "b": (days("2024-01-06", 2), [3, 4])})
    found = panel(df, "D", max_steps=2)
    np.testing.assert_array_equal(steps(found)["a"], [np.nan, 2])
    np.testing.assert_array_equal(steps(found)["b"], [3, 4])


def test_rows_before_the_crop_are_checked_all_the_same() -> None:
    """Whether a series is refused must not depend on how far back a model looks."""
    hours = days("2024-03-01", 9, "h")
    df = table(
        {
            "twice": (["2024-02-29"] * 2 + hours, [1.0] * 11),
            "off": (["2024-02-29 00:30", *hours], [1.0] * 10),
            "stray": (["1900-01-01", *hours], [1.0] * 10),
            "seen": (["2024-02-29", *hours], [1.0] + [np.nan] * 9),
            "blank": (hours, [np.nan] * 9),
        }
    )
    found = panel(df, "h", max_steps=3)
    assert reasons(found) == reasons(panel(df, "h"))
    assert list(reasons(found)) == ["twice", "off", "stray", "blank"]
    assert np.isnan(steps(found)["seen"]).tolist() == [True] * 3


def test_covariates_and_static_columns_stay_with_their_rows_and_series() -> None:
    df = table({"b": (days("2024-01-06", 3), [1, 2, 3]), "a": (days("2024-01-07", 2), [4, 5])})
    df = df.assign(promo=[0, 1, 0, 1, 1], price=[5.0, 6, 7, 8, np.nan], size=[9, 9, 9, 7, 7])
    columns = Columns(past_covariates=("promo", "price"), static=("size",))
    found = panel(df.iloc[[4, 2, 0, 1, 3]], columns=columns)
    assert found.ids.tolist() == ["a", "b"]
    assert found.static.tolist() == [[7], [9]]
    np.testing.assert_array_equal(
        found.context_covariates, [[1, 8], [1, np.nan], [0, 5], [1, 6], [0, 7]]
    )


@pytest.mark.parametrize(
    ("stamps", "freq", "match"),
    [
        (
            ["2024-05-10"] * 2 + ["2024-05-11"],
            "D",
            "^2024-05-10 has 2 rows; keep one row a stamp.$",
        ),
        (
            ["2024-10-27 02:00"] * 3 + ["2024-10-27 03:00"],
            "h",
            r"2024-10-27 02:00 has 3 rows; keep .* \(if a clock was set back, write .*offsets\)",
        ),
        (["2024-01-01"], None, r"inferred from 1 row, 2 are needed; give the frequency \(freq\)"),
        (["2024-01-02", "2024-01-03"], None, "may step by 'D' or 'B'"),
        (
            ["2024-01-01", "2024-01-08", "2024-01-15"],
            "W",
            "2024-01-01, 2024-01-08, 2024-01-15 are off the grid of 'W-SUN'.* step by 'W-MON'",
        ),
        (
            ["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 01:30"],
            "h",
            "2024-01-01 01:30 is off the grid of 'h' that starts at 2024-01-01;",
        ),
        (["1700-01-01 05:00", "2250-01-01 06:00"], None, "leave nearly all steps of '.*' empty"),
        (
            ["1900-01-01", "2024-01-01 05:00"],
            "h",
            "its 2 rows from 1900-01-01 to 2024-01-01 05:00 leave nearly all steps of 'h' empty",
        ),
        (
            ["2261-01-01", "2261-02-01"],
            "MS",
            "36 steps of 'MS' after 2261-02-01 lead past the last",
        ),
    ],
)
def test_what_cannot_be_laid_is_refused_and_the_others_go_on(
    stamps: list[str], freq: str | None, match: str
) -> None:
    df = table({"bad": (stamps, [1.0] * len(stamps))})
    other = pd.date_range("2024-06-01", periods=9, freq=freq or "D").astype(str).tolist()
    df = pd.concat([df, table({"good": (other, [1.0] * 9)})])
    found = panel(df, freq, horizon=36)
    assert found.ids.tolist() == ["good"]
    (refusal,) = found.refusals
    assert (refusal.position, refusal.unique_id) == (0, "bad")
    with pytest.raises(ValueError, match=match):
        raise ValueError(refusal.reason)


def test_the_same_local_time_twice_in_a_day_is_two_rows_in_one_step() -> None:
    stamps = pd.DatetimeIndex(["2024-10-26T00:30Z", "2024-10-27T00:30Z", "2024-10-27T01:30Z"])
    df = pd.DataFrame({"unique_id": "a", "ds": stamps.tz_convert("Europe/Berlin"), "y": [1, 2, 3]})
    assert (
        "02:30+02:00 and 2024-10-27 02:30+01:00 fall into one step" in reasons(panel(df, "D"))["a"]
    )


def test_local_midnights_in_utc_need_their_time_zone_and_are_told_so() -> None:
    stamps = pd.date_range("2024-03-25", periods=14, freq="D", tz="Europe/Berlin")
    df = pd.DataFrame({"unique_id": "a", "ds": stamps.strftime("%Y-%m-%dT%H:%M%z"), "y": 1.0})
    for freq in (None, "D"):
        assert (
            "If they keep a local time of day, give its time_zone." in reasons(panel(df, freq))["a"]
        )
    rows = read_rows(df, Columns(time_zone="Europe/Berlin"))
    found = regularise(rows, options=ForecastOptions(horizon=2))
    assert found.frequencies[0].alias == "D"


@pytest.mark.parametrize("freq", [None, "h"])
def test_another_frequency_than_the_models_is_refused_naming_both(freq: str | None) -> None:
    df = table({"a": (days("2024-01-01", 5, "h"), [1, 2, 3, 4, 5])})
    match = "'h', but the model was trained for 'D'; use a model for 'h', or allow another"
    if freq is None:
        assert match in reasons(panel(df, freq, "D"))["a"]
    else:
        with pytest.raises(FrequencyError, match=match):
            panel(df, freq, "D")
    assert panel(df, freq, "D", allow=True).ids.tolist() == ["a"]
    assert panel(df, freq, "60min").ids.tolist() == ["a"], "60min is h"
    assert panel(df, freq, "H").ids.tolist() == ["a"], "bundles outlive names"


def test_a_lone_row_and_an_ambiguous_week_take_the_frequency_of_the_model() -> None:
    df = table({"one": (["2024-01-02"], [1.0]), "two": (["2024-01-02", "2024-01-03"], [1, 2])})
    for model, alias in (("D", "D"), ("B", "B")):
        found = panel(df, None, model)
        assert [frequency.alias for frequency in found.frequencies] == [alias, alias]
    assert [f.alias for f in panel(df.iloc[:1], None, "W").frequencies] == ["W-TUE"]
    assert "1 row" in reasons(panel(df.iloc[:1], None, "ME"))["one"], "no month ends on 2 January"


@pytest.mark.parametrize(
    ("ds", "freq", "match"),
    [
        ([1, 2, 3], "D", "'D' is given, but the time column holds integer steps; give an integer"),
        (
            ["2024-01-01"] * 3,
            "5",
            "'5' is given, but the time column holds dates; give a frequency",
        ),
        ([1, 2, 3], "fortnight", "'fortnight' is unknown"),
    ],
)
def test_a_frequency_of_the_wrong_kind_is_refused(ds: list[object], freq: str, match: str) -> None:
    with pytest.raises(FrequencyError, match=match):
        panel(pd.DataFrame({"unique_id": "a", "ds": ds, "y": 1.0}), freq)


def test_all_series_refused_is_an_empty_panel() -> None:
    found = panel(table({"a": (["2024-01-06"], [1]), "b": (["2024-01-06"] * 2, [1, 2])}), "D")
    assert found.ids.tolist() == ["a"]
    found = panel(table({"a": (["2024-01-06"], [1]), "b": (["2024-01-06"] * 2, [1, 2])}))
    assert (len(found.ids), found.indptr.tolist(), len(found.target)) == (0, [0], 0)
    assert [refusal.position for refusal in found.refusals] == [0, 1]


def test_refusals_of_rows_and_of_grids_are_in_order_of_position() -> None:
    df = table({"a": (["2024-01-06"] * 2, [1, 2]), "b": (days("2024-01-06", 2), [1, np.inf])})
    df = pd.concat(
        [df, table({"c": (days("2024-01-06", 3), [1, 2, 3]), "d": (["2024-01-06"], [1])})]
    )
    found = panel(df)
    assert [(refusal.position, refusal.unique_id) for refusal in found.refusals] == [
        *[(0, "a"), (1, "b"), (3, "d")]
    ]
    assert found.ids.tolist() == ["c"]
