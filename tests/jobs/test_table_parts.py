"""A file made of parts is the file that the whole table makes: same bytes, same types.

The oracle is pandas, which writes the whole table in one go.
"""

import gzip
import io
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.jobs.tables.parts import CsvParts, ParquetParts, part_format
from foretell.jobs.tables.text import header_line, table_lines

HORIZON = 3
TICKS = {"day": 86_400_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
ZONES = (None, "UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu")
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=False),
    st.floats(-1e6, 1e6),
    st.integers(-(10**17), 10**17).map(float),
    st.integers(-400, 310).map(lambda power: float(f"1e{power}")),
    st.floats(1e9, 1e17).map(lambda value: round(value, 2)),
)
IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
    unique=True,
    min_size=1,
    max_size=5,
)


@st.composite
def stamps(draw, count):
    """Of every kind, resolution and zone that an answer may have, old local times among them."""
    zone = draw(st.sampled_from([*ZONES, "integer"]))
    if zone == "integer":
        steps = st.integers(-(2**61), 2**61)
        return np.array(draw(st.lists(steps, min_size=count, max_size=count)), dtype=np.int64)
    tick = TICKS[draw(st.sampled_from(sorted(TICKS)))]
    most = (2**63 - 1) // tick - 4 * TICKS["day"] // tick
    ticks = draw(st.lists(st.integers(-most, most), min_size=count, max_size=count))
    dates = pd.DatetimeIndex(np.array(ticks, dtype=np.int64) * tick)
    return dates if zone is None else dates.tz_localize("UTC").tz_convert(zone)


@st.composite
def tables(draw):
    ids = draw(IDS)
    count = len(ids) * HORIZON
    numbers = [draw(st.lists(NUMBERS, min_size=count, max_size=count)) for _ in range(2)]
    return pd.DataFrame(
        {
            "an, id": pd.Series(ids, dtype="str").repeat(HORIZON).reset_index(drop=True),
            "ds": draw(stamps(count)),
            "forecast": np.array(numbers[0], dtype=np.float64),
            "q0.1": np.array(numbers[1], dtype=np.float64),
        }
    )


def by_pandas(table: pd.DataFrame) -> bytes:
    # In one go: how stamps are told it decides anew with every chunk.
    text = table.to_csv(index=False, lineterminator="\n", chunksize=len(table) + 1)
    return text.encode()


def cut(table: pd.DataFrame, sizes: list[int]) -> list[pd.DataFrame]:
    """Cut a table into parts of so many series, the rest last."""
    parts, start = [], 0
    for size in [*sizes, len(table)]:
        stop = start + size * HORIZON
        parts.append(table.iloc[start:stop].reset_index(drop=True))
        start = stop
    return parts


def joined(form, parts: list[pd.DataFrame], folder: Path) -> bytes:
    paths = []
    for number, part in enumerate(parts):
        paths.append(folder / str(number))
        paths[-1].write_bytes(form.part(part, HORIZON))
    whole = io.BytesIO()
    form.join(iter(paths), whole)
    return whole.getvalue()


@given(table=tables())
def test_lines_are_those_of_pandas(table):
    lines = header_line(table.columns) + bytes(table_lines(table, HORIZON))
    assert lines == by_pandas(table)


def test_every_size_of_number_is_spelled_as_python_does():
    """Other programs compare texts: 5.0 must not become 5, nor 1e-05 0.00001."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-320, 308, 20_000)
    near = 10.0 ** rng.uniform(-6, 18, 20_000)
    values = np.concatenate([sizes, near, -near, near.round(1), near.round(0), [0.0, -0.0]])
    table = pd.DataFrame({"id": "a", "ds": np.arange(len(values)), "y": values})
    lines = bytes(table_lines(table, len(table))).decode().splitlines()
    assert [line.rsplit(",", 1)[1] for line in lines] == [repr(value) for value in values.tolist()]


@pytest.mark.parametrize(
    "ids",
    [
        [17, 4, 0],
        pd.array([2**60, None, 5], dtype="Int64").dropna(),
        [True, False],
        [1.5, 1e-7, 1e22],
        pd.Categorical(["b", "a,a", '"'], categories=['"', "a,a", "unused", "b"]),
        pd.Series([b"raw", b"bytes"], dtype=object),
        pd.to_datetime(["2024-01-01", "2024-05-06"]),
        pd.array(["x", "y"], dtype="string"),
        pd.Series([1, "1", ("a", 1)], dtype=object),
        ["", " ", "\n", "a\rb", "a\nb", "NA", "007"],
    ],
    ids=lambda ids: str(getattr(ids, "dtype", type(ids[0]).__name__)),
)
def test_ids_of_any_type_are_told_as_pandas_tells_them(ids):
    column = pd.Series(ids).repeat(HORIZON).reset_index(drop=True)
    table = pd.DataFrame({"id": column, "ds": np.arange(len(column)), "y": 0.5})
    assert header_line(table.columns) + bytes(table_lines(table, HORIZON)) == by_pandas(table)


@settings(max_examples=25)
@given(table=tables(), sizes=st.lists(st.integers(0, 3), max_size=4))
def test_csv_parts_make_the_bytes_of_the_whole_table(tmp_path_factory, table, sizes):
    folder = tmp_path_factory.mktemp("parts")
    found = joined(CsvParts(table.columns), cut(table, sizes), folder)
    assert found == by_pandas(table)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("finer", ["s", "ms", "us", "ns"])
def test_stamps_of_all_parts_are_told_alike(tmp_path, zone, finer):
    """A file whose stamps change their form half-way is read as text, or not at all."""
    days = pd.date_range("2024-03-30", periods=HORIZON, tz=zone).as_unit("ns")
    dates = days.append(days + pd.Timedelta(TICKS[finer], "ns")).append(days)
    ids = np.repeat(['daily, "x"\n', "finer", "c"], HORIZON)
    table = pd.DataFrame({"id": ids, "ds": dates, "y": 0.25, "q0.5": 1e-9})
    assert joined(CsvParts(table.columns), cut(table, [1, 0, 1]), tmp_path) == by_pandas(table)


def test_packed_parts_are_one_stream_whatever_the_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("foretell.jobs.packing._BLOCK_BYTES", 100)
    table = numbered(50)
    form = part_format(Path("out.csv.gz"), list(table.columns))
    whole = joined(form, [table], tmp_path)
    assert gzip.decompress(whole) == by_pandas(table)
    assert joined(form, cut(table, [7, 0, 13]), tmp_path) == whole
    assert whole[3:8] == bytes(5), "neither name nor time"


def numbered(num_series: int) -> pd.DataFrame:
    count = num_series * HORIZON
    return pd.DataFrame(
        {
            "id": pd.Series([f"s{i}" for i in range(num_series)]).repeat(HORIZON).to_numpy(),
            "ds": np.tile(pd.date_range("2024-01-01", periods=HORIZON).as_unit("ns"), num_series),
            "forecast": np.arange(count) / 7,
        }
    )


def by_pandas_parquet(table: pd.DataFrame) -> bytes:
    whole = io.BytesIO()
    table.to_parquet(whole, index=False)
    return whole.getvalue()


@settings(max_examples=25)
@given(table=tables(), sizes=st.lists(st.integers(0, 3), max_size=4))
def test_parquet_parts_make_the_bytes_of_the_whole_table(tmp_path_factory, table, sizes):
    folder = tmp_path_factory.mktemp("parts")
    found = joined(ParquetParts(), cut(table, sizes), folder)
    assert found == by_pandas_parquet(table)


def test_row_groups_have_one_size_whatever_the_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("foretell.jobs.tables.parts._GROUP_ROWS", 40)
    table = numbered(50)
    whole = joined(ParquetParts(), [table], tmp_path)
    assert joined(ParquetParts(), cut(table, [7, 0, 13, 29]), tmp_path) == whole
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(whole)), table)


@pytest.mark.parametrize("kind", ["category", "decimal", "Int64", "date"])
def test_parquet_keeps_the_types_of_ids(tmp_path, kind):
    values = {
        "category": pd.Categorical(["b", "a", "c"], categories=["c", "a", "b"]),
        "decimal": pd.Series([Decimal("0.01"), Decimal("20.1"), Decimal("300")], dtype=object),
        "Int64": pd.array([1, 2, 3], dtype="Int64"),
        "date": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]),
    }
    column = pd.Series(values[kind]).repeat(HORIZON).reset_index(drop=True)
    table = pd.DataFrame({"id": column, "ds": np.arange(len(column)), "y": 0.5})
    found = joined(ParquetParts(), cut(table, [1, 1]), tmp_path)
    expected = pd.read_parquet(io.BytesIO(by_pandas_parquet(table)))
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(found)), expected)
