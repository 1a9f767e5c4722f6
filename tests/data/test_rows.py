"""Typed rows: any type that holds the same content gives the same rows; what is wrong is named."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import TableError
from foretell.data.series.options import Columns
from foretell.data.series.panel import Rows
from foretell.data.series.rows import read_future_rows, read_rows

DAYS = pd.date_range("2024-01-01", periods=4, freq="D")


def frame(y: object = (1.0, 2.0, 3.0, 4.0), ids: object = "b", ds: object = DAYS) -> pd.DataFrame:
    return pd.DataFrame({"unique_id": ids, "ds": ds, "y": y})


def reasons(rows: Rows) -> dict[object, str]:
    return {refusal.unique_id: refusal.reason for refusal in rows.refusals}


@pytest.mark.parametrize(
    "y",
    [
        *(
            pd.Series([1, 2, 3, 4], dtype=dtype)
            for dtype in ("float32", "int8", "uint64", "object")
        ),
        *(pd.Series([1, 2, 3, 4], dtype=dtype) for dtype in ("Int64", "Float32", "int64[pyarrow]")),
        pd.Series([1, 2, 3, 4], dtype="float64[pyarrow]"),
        pd.Series([Decimal(1), Decimal(2), Decimal(3), Decimal(4)]),
        pd.Series([Decimal(1), 2, 3.0, Fraction(4)], dtype=object),
        pd.Series([np.int8(1), np.float32(2), 3, Decimal("4.0")], dtype=object),
        pd.Series([1.0, 2.0, 3.0, 4.0], dtype="category"),
    ],
    ids=lambda column: str(column.dtype),
)
def test_the_same_numbers_of_any_type_are_the_same_rows(y: pd.Series) -> None:
    rows = read_rows(frame(y), Columns())
    assert rows.target.tolist() == [1, 2, 3, 4]
    assert rows.target.dtype == np.float64


@pytest.mark.parametrize(
    "y",
    [
        pd.Series([1, None, 3, np.nan]),
        pd.Series([1, None, 3, None], dtype="Int64"),
        pd.Series(pd.Categorical([1, None, 3, None])),
        pd.Series([1, None, 3, None], dtype="int64[pyarrow]"),
        pd.Series([1, None, 3, pd.NA], dtype=object),
        pd.Series([Decimal(1), None, 3, " "], dtype=object),
    ],
    ids=lambda column: str(column.dtype),
)
def test_blanks_of_any_type_are_unobserved(y: pd.Series) -> None:
    np.testing.assert_array_equal(read_rows(frame(y), Columns()).target, [1, np.nan, 3, np.nan])


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (["1", "2", "n/k", "4"], "column 'y' holds text: 'n/k' in row 3 is no number"),
        (["1", "2", "3", "4"], "column 'y' holds text such as '1'; convert it to numbers"),
        (["1", "2,5", "3", "4"], "'2,5' in row 2 is no number.* decimal sign, give decimal ','"),
        ([True, False, True, True], "column 'y' holds truth values; it must hold numbers"),
        ([1j, 2, 3, 4], "type complex128"),
        (DAYS, "type datetime64"),
        (pd.Series([None] * 4, dtype="str"), "all blank text"),
    ],
)
def test_a_target_column_of_no_numbers_is_refused(y: object, match: str) -> None:
    with pytest.raises(TableError, match=match):
        read_rows(frame(y), Columns())


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("n/k", r"^'y' is 'n/k' \(str\) in row 2, which is no number. Write numbers such as 20.5"),
        ("21", r"'y' is '21' \(str\) in row 2"),
        (True, r"'y' is True \(bool\) in row 2, which is no number"),
        (1j, r"complex"),
        (np.inf, "'y' is inf in row 2; values must be finite, within ±1e100"),
        (-1e101, r"'y' is -1e\+101 in row 2; values must be finite"),
        (Decimal("1e200"), r"'y' is 1E\+200 in row 2"),
        (Decimal("Infinity"), "'y' is Infinity in row 2"),
        ([1], r"'y' is \[1\] \(list\) in row 2"),
        (10**400, r"'y' is 10{79}\.\.\. in row 2; values must be finite"),
        (-(10**400), r"'y' is -10{78}\.\.\. in row 2"),
        (10**5000, "'y' is a number of thousands of digits in row 2"),
        (Fraction(10**400, 3), r"'y' is 10{79}\.\.\. in row 2; values must be finite"),
        (Decimal("sNaN"), r"'y' is 'sNaN' \(str\) in row 2, which is no number"),
        ("24 inch\n" * 99, r"'y' is '24 inch\\n.{70,90}\.\.\. \(str\) in row 2"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_one_bad_value_refuses_its_series_alone(value: object, match: str) -> None:
    y = pd.Series([1.0, value, 3.0, 4.0], dtype=object)
    rows = read_rows(frame(y, ids=["a", "a", "b", "b"]), Columns())
    assert rows.ids.tolist() == ["b"]
    assert rows.positions.tolist() == [1]
    assert rows.target.tolist() == [3, 4]
    with pytest.raises(ValueError, match=match):
        raise ValueError(reasons(rows)["a"])


def test_a_whole_number_beyond_all_floats_refuses_its_series_alone() -> None:
    """In a column of nothing but whole numbers, pandas converts all of them at once, or fails."""
    y = pd.Series([1, 10**400, 3, 4], dtype=object)
    rows = read_rows(frame(y, ids=["a", "a", "b", "b"]), Columns())
    assert (rows.ids.tolist(), rows.target.tolist()) == (["b"], [3, 4])


def test_all_problems_of_a_series_are_told_and_counted() -> None:
    df = frame(
        [np.inf, 2, -np.inf, 4], ids=["a", "a", "a", "b"], ds=[DAYS[0], None, DAYS[1], DAYS[2]]
    )
    (reason,) = reasons(read_rows(df, Columns())).values()
    assert "'ds' is blank in row 2" in reason
    assert "'y' is inf in row 1" in reason
    assert "So is 1 more of its rows." in reason


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([17, 17, 4, 4]),
        pd.Series([17, 17, 4, 4], dtype="Int64"),
        pd.Series(["b", "b", "a", "a"], dtype="str"),
        pd.Series(["b", "b", "a", "a"], dtype=object),
        pd.Series([("x", 1), ("x", 1), ("y", 2), ("y", 2)]),
        pd.Series(["1", "1", 1, 1], dtype=object),
        pd.Series(DAYS[[3, 3, 0, 0]]),
    ],
    ids=lambda ids: str(ids.dtype),
)
def test_ids_keep_their_type_and_order_of_appearance(ids: pd.Series) -> None:
    rows = read_rows(frame(ids=ids), Columns())
    assert rows.ids.tolist() == [ids[0], ids[2]]
    assert rows.ids.dtype == ids.dtype


def test_an_unused_category_makes_no_series() -> None:
    ids = pd.Series(pd.Categorical(["b", "b", "a", "a"], categories=["z", "b", "a"]))
    found = read_rows(frame(ids=ids), Columns()).ids
    assert found.tolist() == ["b", "a"]
    assert found.dtype == "category"
    assert "z" not in found.categories


@pytest.mark.parametrize("blank", [None, np.nan, "", "  "])
def test_a_row_without_an_id_may_belong_to_any_series(blank: object) -> None:
    with pytest.raises(TableError, match="'unique_id' is blank in row 2; these rows may belong"):
        read_rows(frame(ids=pd.Series(["a", blank, "b", "b"], dtype=object)), Columns())


def test_ids_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(TableError, match="can't be ids"):
        read_rows(frame(ids=pd.Series([["a"], ["a"], ["b"], ["b"]])), Columns())


def test_missing_columns_are_named_with_those_there_are_and_a_suggestion() -> None:
    df = frame().rename(columns={"y": "Y", "ds": "date"})
    with pytest.raises(TableError) as caught:
        read_rows(df, Columns(future_covariates=("promo",)))
    assert caught.value.problems == (
        "the table has no column 'ds'; it has 'unique_id', 'date', 'Y'.",
        "the table has no column 'y'; it has 'unique_id', 'date', 'Y'.",
        "the table has no column 'promo'; it has 'unique_id', 'date', 'Y'.",
    )
    with pytest.raises(TableError, match="Did you mean 'Unique_ID'"):
        read_rows(frame().rename(columns={"unique_id": "Unique_ID"}), Columns())
    with pytest.raises(TableError, match=r"'ds'.*It is the index: use df\.reset_index"):
        read_rows(frame().set_index("ds"), Columns())


def test_names_of_any_type_may_be_missing() -> None:
    columns = Columns()
    object.__setattr__(columns, "unique_id", 5)  # as a caller without a type checker would
    with pytest.raises(TableError, match="no column 5; it has 'unique_id', 'ds', 'y'"):
        read_rows(frame(), columns)
    assert len(read_rows(frame().rename(columns={"unique_id": 5}), columns).ids) == 1


def test_every_problem_of_the_table_is_reported_at_once() -> None:
    df = frame(y=["x"] * 4, ds=[True] * 4, ids=pd.Series([None, "a", "a", "a"], dtype=object))
    with pytest.raises(TableError) as caught:
        read_rows(df, Columns())
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("df", "match"),
    [
        (frame().iloc[:0], "has no rows"),
        (pd.concat([frame(), frame()[["y"]]], axis=1), "2 columns named 'y'; keep one"),
        ([1, 2], "the table is a list; give a pandas DataFrame"),
    ],
)
def test_what_is_no_table_is_refused(df: object, match: str) -> None:
    with pytest.raises(TableError, match=match):
        read_rows.__wrapped__(df, Columns()) if isinstance(df, list) else read_rows(df, Columns())


def test_static_columns_are_one_value_a_series() -> None:
    df = frame(ids=["a", "a", "b", "b"]).assign(size=[5, np.nan, 7, 7], area=[1.0, 1, 2, 2])
    rows = read_rows(df, Columns(static=("size", "area")))
    assert rows.static.tolist() == [[5, 1], [7, 2]]
    df = df.assign(size=[5, 6, np.nan, np.nan])
    found = reasons(read_rows(df, Columns(static=("size", "area"))))
    assert found["a"] == "static column 'size' holds both 5 and 6; give the series one value."
    assert found["b"] == "static column 'size' is blank; give the series a value."


def test_covariates_come_future_first_and_blanks_are_allowed() -> None:
    df = frame().assign(price=[9.0, 8, 7, np.nan], promo=[0, 1, 0, 1])
    rows = read_rows(df, Columns(future_covariates=("promo",), past_covariates=("price",)))
    np.testing.assert_array_equal(rows.covariates, [[0, 9], [1, 8], [0, 7], [1, np.nan]])


def test_future_rows_need_no_target() -> None:
    df = frame().drop(columns="y").assign(promo=[0, 1, None, 1])
    rows = read_future_rows(df, Columns(future_covariates=("promo",)))
    np.testing.assert_array_equal(rows.covariates[:, 0], [0, 1, np.nan, 1])
    assert (rows.target.shape, rows.static.shape) == ((0,), (1, 0))


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 99)), min_size=1))
def test_grouping_keeps_the_order_of_rows_within_a_series(rows: list[tuple[str, int]]) -> None:
    df = pd.DataFrame(rows, columns=["unique_id", "y"]).assign(ds=range(len(rows)))
    before = df.copy()
    found = read_rows(df, Columns())
    pd.testing.assert_frame_equal(df, before)
    assert found.ids.tolist() == list(dict.fromkeys(name for name, _ in rows))
    for place, name in enumerate(found.ids):
        part = slice(found.indptr[place], found.indptr[place + 1])
        mine = [(step, y) for step, (owner, y) in enumerate(rows) if owner == name]
        assert found.stamps[part].tolist() == [step for step, _ in mine]
        assert found.target[part].tolist() == [y for _, y in mine]
